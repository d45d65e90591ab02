"""The command `hakaru scorecard`, and the page docs/scorecard.md that is written with it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.newest import Card, card, is_changed
from hakaru.analysis.recorded import cards, later, record
from hakaru.analysis.run_data import RunData
from hakaru.cli import main
from hakaru.errors import UsageError
from hakaru.report import scorecard_page
from hakaru.report.scorecard_page import HEADER, cells, columns, is_large, markdown
from hakaru.study import Loaded, load, study_paths
from hakaru.study.model import Measure

from tests.study.shipped import shipped, with_reference

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scorecard.md"
NAMES = with_reference()


@pytest.fixture(scope="module")
def measured(invented_run: Path) -> Card:
    """Return the card of the invented run."""
    return card(shipped("vm-sweep"), invented_run)


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["scorecard", *arguments]) == 0
    return capsys.readouterr().out


def test_newest_run_is_compared(measured: Any, invented_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "vm-sweep", "--out", str(invented_run.parent))
    assert f"run {invented_run.name}, quick form, 6 of 23 points" in text
    assert "median error" in text
    assert "has changed" not in text
    for row in measured.scorecard["rows"]:
        assert cells(row)[1] in text


def test_json_has_the_rows_and_the_run(invented_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads(output(capsys, "vm-sweep", "--out", str(invented_run.parent), "--format", "json"))
    assert found["run"]["name"] == invented_run.name
    assert (found["run"]["quick"], found["run"]["changed"]) == (True, False)
    assert len(found["scorecard"]["rows"]) > 60


def test_warnings_of_the_points_are_counted(measured: Any, invented_run: Path) -> None:
    points = summarise(invented_run)["points"]
    names = {c["caveat"] for p in points for c in p["caveats"] if c["severity"] == "warning"}  # type: ignore[union-attr]
    assert set(measured.run.warnings) == names
    noisy = replace(measured, run=replace(measured.run, warnings={"machine_saturated": 6, "not_steady": 1}))
    assert "; warnings: machine_saturated (6 points), not_steady (1 point)" in scorecard_page.text(noisy)
    (row,) = (row for row in parts(markdown([noisy]))["Runs"] if row[0] == "vm-sweep")
    assert row[1].endswith(r"; warnings: machine\_saturated (6 points), not\_steady (1 point)")


def test_repetitions_that_an_interrupted_run_lacks_are_not_counted(
    invented_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(invented_run, tmp_path / invented_run.name))
    assert ", 2 repetitions," in output(capsys, "vm-sweep", "--out", str(tmp_path))
    next((run / "repetitions").glob("*-2.json")).unlink()
    assert ", 1 repetition," in output(capsys, "vm-sweep", "--out", str(tmp_path))


def test_markdown_lists_studies_without_a_run(invented_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "--out", str(invented_run.parent), "--format", "markdown")
    assert text.startswith(HEADER)
    for name in NAMES:
        assert f"\n## {name}\n" in text
    assert text.count("not run; the full form takes about") == len(NAMES) - 1


def test_change_of_the_study_after_the_run_is_reported(
    invented_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = study_paths()["vm-sweep"].read_text()
    (tmp_path / "study.yaml").write_text(text.replace("read_percent: 70", "read_percent: 60"))
    shown = output(capsys, str(tmp_path), "--out", str(invented_run.parent))
    assert "the study has changed after this run" in shown


@pytest.mark.parametrize("field", ["time", "warmup", "sample_interval"])
def test_change_of_the_measuring_times_after_the_run_is_reported(field: str, invented_run: Path) -> None:
    loaded = shipped("vm-sweep")
    assert loaded.study.quick is not None and loaded.study.quick.measure is not None
    as_written = loaded.study.quick.measure.model_dump(mode="json")
    measure = Measure.model_validate(as_written | {field: "17 s"})
    quick = loaded.study.quick.model_copy(update={"measure": measure})
    assert not is_changed(RunData.read(invented_run), loaded.study)
    assert is_changed(RunData.read(invented_run), loaded.study.model_copy(update={"quick": quick}))


def test_repetitions_chosen_by_the_command_are_no_change_of_the_study(invented_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(invented_run, tmp_path / invented_run.name))
    for name, change in (("run", {"options": {"repetitions": 7}}), ("study", {"measure": {"repetitions": 7}})):
        described = json.loads((run / f"{name}.json").read_text())
        changed = {key: (described.get(key) or {}) | value for key, value in change.items()}
        (run / f"{name}.json").write_text(json.dumps(described | changed))
    assert not is_changed(RunData.read(run), shipped("vm-sweep").study)


def test_note_that_was_added_after_the_run_is_shown(
    invented_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = study_paths()["vm-sweep"].read_text()
    (tmp_path / "study.yaml").write_text(text.replace("    over: vms\n", "    over: vms\n    note: Because.\n", 1))
    shown = output(capsys, str(tmp_path), "--out", str(invented_run.parent))
    assert "Because." in shown
    assert "has changed" not in shown


def test_report_can_use_the_notes_of_the_study_as_it_is_now(
    invented_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(invented_run, tmp_path / invented_run.name))
    text = study_paths()["vm-sweep"].read_text()
    (tmp_path / "study.yaml").write_text(text.replace("    over: vms\n", "    over: vms\n    note: Because.\n", 1))
    assert main(["report", str(run), "--format", "json", "--published", str(tmp_path)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["scorecard"]["rows"][0]["note"]["en"] == "Because."


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["vm-sweep"], "no run of vm-sweep in", "`hakaru run vm-sweep`"),
        ([], "to compare with a publication", "vm-sweep"),
        (["vm-swep"], "no study named 'vm-swep'", "vm-sweep"),
        (["--format", "pdf"], "--format", "--help"),
    ],
)
def test_missing_run_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str
) -> None:
    assert main(["scorecard", *arguments, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert hint in error


# --- docs/scorecard.md


def parts(page: str) -> dict[str, list[list[str]]]:
    """Return heading → cells of the rows of its table, without the title."""
    found = {}
    for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        heading, _, rest = part.partition("\n")
        lines = [line for line in rest.splitlines() if line.startswith("|")]
        found[heading] = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return found


def test_page_is_written_from_the_records_and_the_studies_as_they_are_now() -> None:
    records = json.loads(PAGE.with_suffix(".json").read_text())
    assert set(records) <= set(NAMES), "run `tools/scorecard --page-only`"
    page = markdown(cards([shipped(name) for name in NAMES], records))
    assert PAGE.read_text() == page, "run `tools/scorecard --page-only`"
    assert [row[0] for row in parts(page)["Overview"]] == [*NAMES, "all"]
    assert all(len(row) == len(columns()) for name in NAMES for row in parts(page)[name])


def test_every_large_error_is_listed(measured: Any) -> None:
    large = [row for row in measured.scorecard["rows"] if is_large(row)]
    listed = [part for heading, part in parts(markdown([measured])).items() if heading.startswith("Errors above")]
    assert len(listed[0]) == len(large)


def test_numbers_of_all_studies_are_counted_together(measured: Any) -> None:
    page = markdown([measured, card(shipped("long-distance"), None)])
    first, second, total = parts(page)["Overview"]
    assert total[:2] == ["all", str(int(first[1]) + int(second[1]))]
    assert total[-2:] == first[-2:]
    assert float(total[-2].removesuffix(" %")) == pytest.approx(measured.scorecard["median_error_percent"], abs=0.06)


# --- Records


Record = dict[str, Any]


@pytest.fixture
def recorded(measured: Card) -> Record:
    """Return the record of the run, as a file holds it."""
    found: Record = json.loads(json.dumps(record(measured)))
    return found


def recalled(loaded: Loaded, recorded: Record) -> Card:
    """Return the card of a study with a record."""
    (kept,) = cards([loaded], {loaded.study.id: recorded})
    return kept


def edited(tmp_path: Path, *edits: tuple[str, str]) -> Loaded:
    """Return vm-sweep with each text replaced by another, once."""
    text = study_paths()["vm-sweep"].read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "study.yaml").write_text(text)
    return load(str(tmp_path))


def test_recorded_card_is_that_of_the_run(measured: Card, recorded: Record) -> None:
    kept = recalled(shipped("vm-sweep"), recorded)
    found, expected = kept.to_json(), json.loads(json.dumps(measured.to_json()))
    # A row without a value has the unit that a point gives it only in the run.
    for each in (found, expected):
        for row in each["scorecard"]["rows"]:
            if not row["points"]:
                del row["unit"]
    assert found == expected
    assert kept.run is not None and not kept.run.changed


def test_record_of_a_later_run_or_of_the_run_that_was_continued_counts(recorded: Record) -> None:
    earlier = recorded | {"run": recorded["run"] | {"started": "2020-01-01T00:00:00+00:00"}}
    continued = recorded | {"rows": {}}
    assert later(earlier, recorded) is recorded and later(recorded, earlier) is recorded
    assert later(recorded, continued) is continued


def test_record_keeps_the_reason_why_a_row_is_not_judged(recorded: Record) -> None:
    name, row = next((name, row) for name, row in recorded["rows"].items() if row["error_percent"] is not None)
    row |= {"error_percent": None, "not_judged": {"en": "No.", "ja": "否。"}}
    rows = {each["row"]: each for each in recalled(shipped("vm-sweep"), recorded).scorecard["rows"]}
    assert rows[name]["not_judged"] == {"en": "No.", "ja": "否。"} and not rows[name]["counted"]


def test_marks_and_notes_are_those_of_the_study_as_it_is_now(recorded: Record, tmp_path: Path) -> None:
    now = recalled(edited(tmp_path, ("    over: vms\n", "    over: vms\n    note: Because.\n")), recorded)
    assert now.scorecard["rows"][0]["note"]["en"] == "Because."
    assert now.run is not None and not now.run.changed


def test_number_that_the_record_lacks_is_not_measured(recorded: Record) -> None:
    name = next(iter(recorded["rows"]))
    del recorded["rows"][name]
    rows = {row["row"]: row for row in recalled(shipped("vm-sweep"), recorded).scorecard["rows"]}
    assert rows[name]["mean"] is rows[name]["error_percent"] is None
    assert sum(row["error_percent"] is not None for row in rows.values()) > 20


@pytest.mark.parametrize("change", ["published", "reference", "row"])
def test_record_of_other_published_numbers_is_refused(recorded: Record, change: str) -> None:
    name = next(iter(recorded["rows"]))
    if change == "row":
        recorded["rows"]["other"] = recorded["rows"].pop(name)
    else:
        recorded["rows"][name][change] = 1
    with pytest.raises(UsageError, match="published numbers of vm-sweep are not those of its record") as raised:
        recalled(shipped("vm-sweep"), recorded)
    assert raised.value.hint == "measure it again: `make scorecard STUDIES=vm-sweep`"


def test_record_of_a_reference_that_selects_other_points_is_refused(recorded: Record) -> None:
    loaded = shipped("vm-sweep")
    first, *others = loaded.study.reference
    other = first.model_copy(update={"where": {"paths": 2}})
    study = loaded.study.model_copy(update={"reference": [other, *others]})
    with pytest.raises(UsageError, match="are not those of its record"):
        recalled(replace(loaded, study=study), recorded)


@pytest.mark.parametrize(
    "damage",
    [{"run": None}, {"run": {"name": "x"}}, {"rows": None}, {"rows": {"jdsf-2011-vm-sweep-random32k/iops/1": {}}}],
)
def test_damaged_record_is_refused(recorded: Record, damage: Record) -> None:
    with pytest.raises(UsageError, match="the record of vm-sweep is damaged") as raised:
        recalled(shipped("vm-sweep"), recorded | damage)
    assert raised.value.hint == "measure it again: `make scorecard STUDIES=vm-sweep`"


def test_change_of_the_study_after_its_run_was_recorded_is_reported(recorded: Record, tmp_path: Path) -> None:
    for other, changed in (("read_percent: 60", True), ("read_percent: 70", False)):
        kept = recalled(edited(tmp_path, ("read_percent: 70", other)), recorded)
        assert kept.run is not None and kept.run.changed is changed
        assert ("the study has changed after this run" in markdown([kept])) is changed


def test_run_of_a_study_that_had_changed_stays_marked(measured: Any) -> None:
    changed = record(replace(measured, run=replace(measured.run, changed=True)))
    kept = recalled(shipped("vm-sweep"), changed)
    assert kept.run is not None and kept.run.changed


def test_study_without_a_record_is_shown_as_not_run() -> None:
    (first,) = cards([shipped("long-distance")], {})
    assert first.run is None and "not run" in markdown([first])
