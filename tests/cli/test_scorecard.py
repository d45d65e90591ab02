"""The command `hakaru scorecard`, and the page docs/scorecard.md that is written with it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.newest import card, is_changed
from hakaru.analysis.run_data import RunData
from hakaru.cli import main
from hakaru.errors import UsageError
from hakaru.report import scorecard_page
from hakaru.report.scorecard_keep import MARK
from hakaru.report.scorecard_page import EXPLAINED_PERCENT, HEADER, cells, columns, is_large, markdown
from hakaru.study import study_paths
from hakaru.study.model import Measure

from tests.study.shipped import shipped, with_reference

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scorecard.md"
NAMES = with_reference()


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["scorecard", *arguments]) == 0
    return capsys.readouterr().out


def test_newest_run_is_compared(invented_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "vm-sweep", "--out", str(invented_run.parent))
    assert f"run {invented_run.name}, quick form, 6 of 23 points" in text
    assert "median error" in text
    assert "has changed" not in text
    for row in card(shipped("vm-sweep"), invented_run).scorecard["rows"]:
        assert cells(row)[1] in text


def test_json_has_the_rows_and_the_run(invented_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads(output(capsys, "vm-sweep", "--out", str(invented_run.parent), "--format", "json"))
    assert found["run"]["name"] == invented_run.name
    assert (found["run"]["quick"], found["run"]["changed"]) == (True, False)
    assert len(found["scorecard"]["rows"]) > 60


def test_warnings_of_the_points_are_counted(invented_run: Path) -> None:
    found: Any = card(shipped("vm-sweep"), invented_run)
    points = summarise(invented_run)["points"]
    names = {c["caveat"] for p in points for c in p["caveats"] if c["severity"] == "warning"}  # type: ignore[union-attr]
    assert set(found.run.warnings) == names
    noisy = replace(found, run=replace(found.run, warnings={"machine_saturated": 6, "not_steady": 1}))
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


def test_page_is_generated() -> None:
    page = PAGE.read_text()
    assert page.startswith(HEADER), "run `make scorecard`"
    found = parts(page)
    assert [row[0] for row in found["Overview"]] == [*NAMES, "all"]
    assert [row[0] for row in found["Runs"]] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_page_has_the_rows_of_the_study(name: str) -> None:
    """The published side of every row is that of the study; the measured side is not repeated
    here.
    """
    page = parts(PAGE.read_text())
    expected = parts(markdown([card(shipped(name), None)]))
    assert [[row[i] for i in (0, 1, 5)] for row in page[name]] == [
        [row[i] for i in (0, 1, 5)] for row in expected[name]
    ]
    assert all(len(row) == len(columns()) for row in page[name])


def test_every_large_error_is_listed(invented_run: Path) -> None:
    invented: Any = card(shipped("vm-sweep"), invented_run)
    large = [row for row in invented.scorecard["rows"] if is_large(row)]
    listed = [part for heading, part in parts(markdown([invented])).items() if heading.startswith("Errors above")]
    assert len(listed[0]) == len(large)


def test_numbers_of_all_studies_are_counted_together(invented_run: Path) -> None:
    """Whether a study's part is new or kept from the earlier page, its numbers count the same."""
    measured: Any = card(shipped("vm-sweep"), invented_run)
    other = card(shipped("long-distance"), None)
    page = markdown([measured, other])
    first, second, total = parts(page)["Overview"]
    assert total[:2] == ["all", str(int(first[1]) + int(second[1]))]
    assert total[-1] == first[-1]
    kept = parts(markdown([card(shipped("vm-sweep"), None), other], page))["Overview"]
    # The page shows errors to a tenth of a percent, and so does the median of what it shows.
    assert kept[-1][:-2] + kept[-1][-1:] == total[:-2] + total[-1:]
    medians = [float(row[-2].removesuffix(" %")) for row in (kept[-1], total)]
    assert medians[0] == pytest.approx(medians[1], abs=0.11)
    assert float(total[-2].removesuffix(" %")) == pytest.approx(measured.scorecard["median_error_percent"], abs=0.06)


# --- Parts kept from an earlier page


def with_points(text: str, points: int) -> str:
    """Return the description of a run with another number of points of its study."""
    return re.sub(r"(\d+) of \d+ points", rf"\1 of {points} points", text)


def test_kept_part_has_the_number_of_points_that_the_study_has_now() -> None:
    kept = card(shipped("long-distance"), None)
    earlier = re.sub(r"\d+ of 9 points", "9 of 9 points", with_points(PAGE.read_text(), 9))
    assert f"9 of {kept.points} points" in markdown([kept], earlier) and kept.points > 9


def test_studies_without_a_run_keep_their_parts_of_the_page(invented_run: Path) -> None:
    """The page as it is has a run of every study. Here, only vm-sweep has one."""
    earlier = PAGE.read_text()
    cards = [card(shipped(name), invented_run if name == "vm-sweep" else None) for name in NAMES]
    points = {each.study.id: each.points for each in cards}
    page = markdown(cards, earlier)
    before, after = parts(earlier), parts(page)
    for name in set(NAMES) - {"vm-sweep"}:
        assert after[name] == before[name]
        (run,) = (row for row in after["Runs"] if row[0] == name)
        (run_before,) = (row for row in before["Runs"] if row[0] == name)
        assert run[1] == with_points(run_before[1], points[name]).removesuffix(MARK) + MARK
        for heading in ("Overview", f"Errors above {EXPLAINED_PERCENT:g} %"):
            assert [row for row in after[heading] if row[0] == name] == [
                row for row in before[heading] if row[0] == name
            ]
    assert [row[0] for row in after["Overview"]] == [*NAMES, "all"]
    assert after["vm-sweep"] == parts(markdown([card(shipped("vm-sweep"), invented_run)]))["vm-sweep"]
    assert markdown(cards, page) == page


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vm-sweep"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda page: re.sub(
                r"^(\| [^|]+ \|) [^|]+ (\|.*(predicted|calibrated) \|)$", r"\1 12345 \2", page, flags=re.M
            ),
            "have changed",
        ),
        (
            lambda page: re.sub(r"^\| ([^|]+)( \|.*(predicted|calibrated) \|)$", r"| Other \1\2", page, flags=re.M),
            "have changed",
        ),
        (lambda page: page.replace("## Runs", "## Others"), "no run of {name} that can be kept"),
    ],
)
def test_part_that_does_not_show_the_study_as_it_is_now_is_not_kept(
    name: str, damage: Callable[[str], str], message: str
) -> None:
    with pytest.raises(UsageError, match=message.format(name=name)) as raised:
        markdown([card(shipped(name), None)], damage(PAGE.read_text()))
    assert raised.value.hint == f"run it: `hakaru run {name}`"


def test_kept_part_has_the_marks_and_the_numbers_of_the_study_as_it_is_now() -> None:
    page = PAGE.read_text()
    (row,) = re.findall(r"^\| Gain of the iSCSI parameters at 20 ms .*\n", page, flags=re.M)
    assert "| predicted |" in row
    kept = card(shipped("long-distance"), None)
    now = parts(markdown([kept], page))
    earlier = page.replace(row, row.replace("| predicted |", "| by definition |"))
    assert parts(markdown([kept], earlier)) == now
    # A number that the page lacks is added, and not measured.
    added = parts(markdown([kept], page.replace(row, "")))["long-distance"]
    assert ["–", "", "–"] in [cells[2:5] for cells in added] and len(added) == len(now["long-distance"])


def test_study_that_the_page_lacks_is_added_and_one_without_a_run_stays_so() -> None:
    first, *others = (card(shipped(name), None) for name in NAMES)
    page = markdown(others)
    assert f"\n## {first.study.id}\n" not in page
    assert markdown([first, *others], page) == markdown([first, *others])


def test_page_of_which_a_part_about_the_study_is_lost_is_refused() -> None:
    name = NAMES[0]
    page = PAGE.read_text()
    without = page[: page.index(f"\n## {name}\n")] + page[page.index("\n## ", page.index(f"\n## {name}\n") + 1) :]
    with pytest.raises(UsageError, match=f"shows no run of {name}"):
        markdown([card(shipped(name), None)], without)
