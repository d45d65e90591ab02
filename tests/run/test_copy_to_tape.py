"""A study that copies images to a tape drive: runs, metrics, finding, and mistakes in the study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.analysis.run_data import RunData
from hakaru.store import RunReader

from tests.run.conftest import Hakaru

STUDY = """\
format: 1
id: to-tape
title: {en: To tape, ja: テープへ}
question: {en: Does it stream?, ja: ストリーミングするか}
expectation: {en: No., ja: しない}
origin: emulated
lab:
  hosts: [backup]
  arrays: [primary, library]
  switches: {core: {}}
  links:
    backup: {between: [backup, core], rate: 1 Gbit/s, sustained: 1 Mbit/s}
    primary: {between: [primary, core], rate: 1 Gbit/s, sustained: 1 Mbit/s}
    library: {between: [library, core], rate: 1 Gbit/s, sustained: 1 Mbit/s}
arrays:
  primary:
    target_name: iqn.2013-01.example.hakaru:primary
    model: {kind: none}
    lus: [{lun: 0, size: 128 MiB, fill: {}}]
  library:
    target_name: iqn.2013-01.example.hakaru:library
    model: {kind: none}
    tape_library: {generation: lto3, cartridges: 1, capacity: 256 MiB}
load:
  kind: copy
  jobs: 2
  image: 48 MiB
  block: 256 KiB
  rate_limit: 20 MB/s
  verify: true
  from: {array: primary, lus: [0]}
  to: {array: library, tape: {cartridges: appended, fixed_block: 64 KiB, filemark_every: 16 MiB}}
  time_limit: 60 s
variables: {case: {plain: {}}}
factors: [{case: [plain]}]
measure: {repetitions: 1, sample_interval: 100 ms}
expect:
  - {kind: bound, metric: tape_stops_to_predicted, at_least: 0.99, at_most: 1.01}
"""

IN_POOL = (
    "tape_library: {generation: lto3,",
    "pools: [{name: tapes, groups: [{size: 64 MiB}]}]\n    tape_library: {generation: lto3, pool: tapes,",
)


def write(folder: Path, *changes: tuple[str, str]) -> str:
    text = STUDY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "to-tape" / "study.yaml"
    path.parent.mkdir()
    path.write_text(text)
    return str(path)


def test_copies_to_a_tape_drive_stop_it_at_every_synchronising_filemark(hakaru: Hakaru, tmp_path: Path) -> None:
    result = hakaru.run("run", write(tmp_path), "--report", "json")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    run = hakaru.only_run()
    (record,) = RunReader(run).repetitions()
    (values,) = (e["values"] for e in record["engines"] if e["engine"] == "backup")
    assert (values["jobs_done"], values["mismatches"]) == (2, 0)
    assert values["verified_bytes"] == 2 * 48 << 20
    summary = json.loads((run / "report" / "report.json").read_text())
    (point,) = summary["points"]
    metrics = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    seconds = (record["measure"]["end_ns"] - record["measure"]["start_ns"]) / 1e9
    # Each image has three filemarks, the last at its end, and each stops the tape once.
    assert metrics["tape_stops_per_min"] == pytest.approx(6 * 60 / seconds)
    assert metrics["tape_stops_to_predicted"] == pytest.approx(1)
    assert metrics["tape_synchronisations_per_min"] == pytest.approx(6 * 60 / seconds)
    # All data passes the head at 80 MB/s.
    assert metrics["tape_streaming_percent"] == pytest.approx(100 * (96 << 20) / 80e6 / seconds, rel=0.02)
    (finding,) = (f for f in summary["findings"] if f["kind"] == "tape")
    assert finding["evidence"]["cause"] == "marks"
    assert "A filemark after every 16 MiB" in finding["text"]
    assert "bytes_not_conserved" not in {c["caveat"] for c in point["caveats"]}


def test_each_drive_of_a_mixed_library_moves_as_its_generation_does(hakaru: Hakaru, tmp_path: Path) -> None:
    mixed = (
        "generation: lto3, cartridges: 1,",
        "drives: [{generation: lto3}, {generation: lto5}], slots: 5, import_export: 1,\n"
        "      cartridges: [{barcode: OLD1, write_protected: true}, {barcode: NEW1}, {barcode: NEW2, slot: 5}],",
    )
    result = hakaru.run("run", write(tmp_path, mixed), "--report", "json")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    run = hakaru.only_run()
    (record,) = RunReader(run).repetitions()
    (values,) = (e["values"] for e in record["engines"] if e["engine"] == "backup")
    assert (values["jobs_done"], values["mismatches"]) == (2, 0)
    summary = json.loads((run / "report" / "report.json").read_text())
    (point,) = summary["points"]
    metrics = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    seconds = (record["measure"]["end_ns"] - record["measure"]["start_ns"]) / 1e9
    # Half of the data passes a head at 80 MB/s, the other half one at 140 MB/s.
    streaming_s = (48 << 20) / 80e6 + (48 << 20) / 140e6
    assert metrics["tape_streaming_percent"] == pytest.approx(100 * streaming_s / seconds / 2, rel=0.02)
    assert metrics["tape_streaming_to_predicted"] == pytest.approx(1, rel=0.02)
    assert metrics["tape_stops_to_predicted"] == pytest.approx(1)
    # A sentence would have the rates of one drive.
    assert [f for f in summary["findings"] if f["kind"] == "tape"] == []


@pytest.mark.parametrize("store", [[], [IN_POOL]], ids=["memory", "pool"])
def test_compressed_copies_end_in_a_padded_block_and_conserve_their_bytes(
    hakaru: Hakaru, tmp_path: Path, store: list[tuple[str, str]]
) -> None:
    packed = ("  image: 48 MiB", "  image: 4 MiB\n  compression: zstd")
    variable = (", fixed_block: 64 KiB, filemark_every: 16 MiB", "")
    result = hakaru.run("run", write(tmp_path, packed, variable, *store), "--report", "json")
    assert result.returncode in (0, 4, 5), result.stderr
    summary = json.loads((hakaru.only_run() / "report" / "report.json").read_text())
    (point,) = summary["points"]
    (record,) = RunReader(hakaru.only_run()).repetitions()
    (values,) = (e["values"] for e in record["engines"] if e["engine"] == "backup")
    assert values["verified_bytes"] == 2 * 4 << 20
    (repetition,) = RunData.read(hakaru.only_run()).repetitions(point["point"])
    written = repetition.counters.last_total(engine="backup", entity="backups", name="written_bytes")
    assert written and written % 512, "the last blocks have any length"
    assert "bytes_not_conserved" not in {c["caveat"] for c in point["caveats"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("    tape_library: {gener", "    lus: [{lun: 0, size: 1 GiB}]\n    # {gener"), "has no tape library"),
        (("cartridges: appended, ", ""), "2 cartridges are needed, and the library of library has 1"),
        (
            ("cartridges: 1,", "cartridges: [{barcode: A, write_protected: true}],"),
            "1 cartridges are needed, and 0 of the library of library can be written",
        ),
        (("capacity: 256 MiB", "capacity: 64 MiB"), "2 images of 48 MiB do not fit on a cartridge"),
        (("capacity: 256 MiB", "capacity: 64 MiB, compression: 1.2"), "2 images of 48 MiB do not fit on a cartridge"),
        (("fixed_block: 64 KiB", "fixed_block: 60 KiB"), "not a multiple of the fixed block"),
        (("fixed_block: 64 KiB", "fixed_block: 768"), "fixed_block"),
        (("filemark_every: 16 MiB", "filemark_every: 16 KiB"), "less than a block"),
        (("  image: 48 MiB", "  streams: 2\n  image: 48 MiB"), "a tape has one stream"),
        (("array: library, tape", "array: library, lus: [0], tape"), "either `lus: [0]` or `tape: {}`"),
        (
            ("model: {kind: none}\n    tape_l", "model: {kind: preset, name: jdsf-2011}\n    tape_l"),
            "no disks to model",
        ),
        (("capacity: 256 MiB}", "capacity: 256 MiB, pool: tapes}"), "are in pool 'tapes'"),
        (IN_POOL, "of pool tapes"),
    ],
)
def test_mistakes_are_named(hakaru: Hakaru, tmp_path: Path, change: tuple[str, str], message: str) -> None:
    result = hakaru.ask("plan", write(tmp_path, change))
    assert result.returncode == 2
    assert message in result.stderr


def test_plan_says_that_jobs_wait_for_the_drive(hakaru: Hakaru, tmp_path: Path) -> None:
    result = hakaru.ask("plan", write(tmp_path))
    assert result.returncode == 0, result.stderr
    assert "2 images of 48 MiB one after another on 1 tape drives" in result.stdout
