"""Variables: a point equals the study with its levels written in, and every refusal names the
variable and the level.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.errors import UsageError
from hakaru.kinds.copy.load import load_at
from hakaru.study import Loaded, expand, load, of_described
from hakaru.study.variables import LevelError, Sets, changes_of

from tests.study.copying import COPYING, PUBLISHED


def loaded(folder: Path, text: str = COPYING) -> Loaded:
    (folder / "study.yaml").write_text(text)
    (folder / "published.csv").write_text(PUBLISHED)
    return load(str(folder / "study.yaml"))


def refusal(folder: Path, old: str, new: str) -> UsageError:
    assert COPYING.count(old) == 1, old
    with pytest.raises(UsageError) as e:
        loaded(folder, COPYING.replace(old, new))
    return e.value


def test_points_are_the_study_with_the_changes_of_their_levels(tmp_path: Path) -> None:
    study = loaded(tmp_path).study
    expanded = expand(study)
    assert [p.factors for p in expanded.points[:4]] == [
        {"case": "plain"},
        {"case": "fast"},
        {"case": "checked"},
        {"case": "fast", "buffer": "64 KiB", "streams": 1},
    ]
    plain, fast, checked, both = (expanded.at(point) for point in expanded.points[:4])
    assert plain is study
    assert (fast.lab.array_link.rate, fast.lab.array_link.queue) == (200_000_000, 1 << 20)
    assert load_at(checked).verify and load_at(checked).rate_limit == 80_000_000
    assert load_at(both).streams == 1
    assert (both.lab.array_link.rate, both.lab.array_link.queue, both.lab.host_link.queue) == (
        200_000_000,
        65536,
        65536,
    )


def test_quick_form_changes_the_study_before_its_points_do(tmp_path: Path) -> None:
    expanded = expand(loaded(tmp_path).study, quick=True)
    (point,) = expanded.points
    copied = load_at(expanded.at(point))
    assert (copied.image, copied.streams) == (4 << 20, 2)


@pytest.mark.parametrize("quick", [False, True])
def test_study_of_a_point_can_be_restored_from_the_record(tmp_path: Path, quick: bool) -> None:
    loaded_study = loaded(tmp_path)
    expanded = expand(loaded_study.study, quick=quick)
    record = json.loads(json.dumps(expanded.describe(loaded_study.tables)))
    for point in expanded.points:
        again, study = of_described(record).at(point.factors), expanded.at(point)
        assert (again.lab, again.load, again.array) == (study.lab, study.load, study.array)


def test_null_in_an_expectation_means_points_without_that_factor(tmp_path: Path) -> None:
    text = COPYING.replace("of: {case: checked}", "of: {case: fast, buffer: null}")
    loaded_study = loaded(tmp_path, text.replace("where: {case: fast}", "where: {case: fast, streams: null}"))
    recorded = json.loads(loaded_study.study.model_dump_json())
    assert [recorded["expect"][0]["of"], recorded["expect"][1]["where"]] == [
        {"case": "fast", "buffer": None},
        {"case": "fast", "streams": None},
    ]


def test_levels_are_selected_on_the_command_line_as_written_in_the_study(tmp_path: Path) -> None:
    study = loaded(tmp_path).study
    selected = expand(study, only={"buffer": {"64 KiB"}, "streams": {"2"}})
    assert [p.factors for p in selected.points] == [{"case": "fast", "buffer": "64 KiB", "streams": 2}]
    assert [p.id for p in selected.points] == ["p05"]


def test_table_may_contain_text_columns(tmp_path: Path) -> None:
    assert loaded(tmp_path).tables["published"][0] == {"pattern": 1.0, "vm": "vm2_1", "mb_per_s": 5.31}


def test_level_that_a_variable_lacks_is_an_error_that_lists_its_levels() -> None:
    assert changes_of({"streams": Sets(sets=["load.streams"])}, {"streams": 4})[0].value == 4
    with pytest.raises(LevelError, match="case=other is not a level; case has plain"):
        changes_of({"case": {"plain": {}}}, {"case": "other"})


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("{lab.array_link.rate: 200", "{lab.array_lnk.rate: 200",
         "variables.case.fast.lab.array_lnk.rate: lab.array_lnk.rate: no 'array_lnk' in lab", "'array_link'"),
        ("{lab.array_link.rate: 200 Mbit/s}", "{measure.time: 3 s}", "'measure' cannot be varied", "lab, array"),
        ("{lab.array_link.rate: 200 Mbit/s}", "{lab.array_link.rate.x: 3 s}", "lab.array_link.rate has no parts", ""),
        ("{lab.array_link.rate: 200 Mbit/s}", "{array.lus.2.size: 3 MiB}", "no '2' in array.lus", "index from 0 to 1"),
        ("{lab.array_link.rate: 200 Mbit/s}", "{lab.array_link.rate: 200}",
         "variables.case.fast.lab.array_link.rate: lab.array_link.rate: a rate needs a unit", ""),
        ("{lab.array_link.rate: 200 Mbit/s}", "{load.image: 32 MiB}",
         "factors[0]: at case fast: load.from.lus: 4 images of 32 MiB do not fit on LU 0", "smaller"),
        ("buffer: [64 KiB, 256 KiB]", "buffer: [64 KiB, 256]", "factors[1].buffer[1]: lab.host_link.queue", ""),
        ("buffer: [64 KiB, 256 KiB]", "buffers: [64 KiB]", "factors[1].buffers: no factor 'buffers'", "'buffer'"),
        ("case: [plain, fast, checked]", "case: [plain, quick, checked]",
         "factors[0].case[1]: variable case has no level 'quick'", "valid here: checked, fast, plain"),
        ("  streams: {sets: [load.streams]}", "  streams: {sets: [load.streams]}\n  unused: {sets: [load.depth]}",
         "variables.unused: never used", ""),
        ("  buffer: {sets: [lab.array_link.queue, lab", "  buffer: {sets: [lab.array_link.rate, lab",
         "both change lab.array_link.rate", "separate blocks"),
        ("buffer: {sets: [lab.array_link.queue, lab.host_link.queue]}", "buffer: {sets: []}",
         "variables.buffer.sets: list should have at least 1 item", ""),
        ("streams: [1, 2]}", "streams: [1, 64]}", "factors[1].streams[1]: load.streams: 64 streams", "fewer streams"),
        ("changes: {load.image: 4 MiB}", "changes: {load.imag: 4 MiB}",
         "quick.changes.load.imag: load.imag: no 'imag' in load", "'image'"),
        ("plain: {}", "vms: {}", "variable case has no level 'plain'", ""),
        ("of: {case: checked}", "of: {case: fast}",
         "expect[0].of: 5 points match; exactly one is needed", "distinguishes"),
        ("metric: mib_per_s, of", "metric: iops, of", "expect[0].metric: no metric 'iops'", ""),
        ("at_least: 10, at_most: 110", "at_least: 10, at_most: 1", "`at_least` is more than `at_most`", ""),
        ("column: pattern", "column: patern", "published has no column 'patern'", "pattern"),
    ],
)  # fmt: skip
def test_refusal_names_variable_level_and_place(tmp_path: Path, old: str, new: str, message: str, hint: str) -> None:
    error = refusal(tmp_path, old, new)
    assert message in error.message
    assert hint in error.hint
    line = int(error.message.removeprefix(f"{tmp_path / 'study.yaml'}:").split(":")[0])
    assert 1 < line <= COPYING.count("\n") + 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  jobs: 4\n", "  jobs: 40\n", "load.from.lus: 40 images of 8 MiB do not fit on LU 0 of array"),
        ("to: {array: array, lus: [1]}", "to: {array: array, lus: [0]}", "an LU is source and destination"),
        ("to: {array: array, lus: [1]}", "to: {array: vtl, lus: [1]}", "load.to.array: no array 'vtl'"),
        ("to: {array: array, lus: [1]}", "to: {array: array, lus: [7]}", "array 'array' has no LU 7"),
        (
            ", fill: {compressible_percent: 50}",
            "",
            "LU 0 of array holds only zeros, which make this setting meaningless",
        ),
        ("image: 8 MiB\n", "image: 8 MiB\n  block: 1000 B\n", "not a multiple of the LUs' block length 512"),
        ("image: 8 MiB\n", "image: 8 MiB\n  block: 3 MiB\n", "not a multiple of the block 3 MiB"),
        ("measure: {repetitions: 2", "measure: {time: 3 s, repetitions: 2", "a copy is measured to its last write"),
        ("  kind: copy\n", "  kind: copi\n", "load.kind: no kind of study named 'copi'"),
        ("  kind: copy\n", "", "load.kind: missing"),
        ("  - {case: [plain, fast, checked]}", "  - {case: [plain, fast, checked], vms: [1]}", "no factor 'vms'"),
        ("array:\n  target", "arrays: {}\nold:\n  target", "old: unknown field"),
    ],
)
def test_impossible_copy_study_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refusal(tmp_path, old, new).message
