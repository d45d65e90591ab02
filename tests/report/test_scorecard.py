"""The comparison with published numbers in reports, in both languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import scorecard, summarise
from hakaru.report import render
from hakaru.report import scorecard as shown
from hakaru.report.blocks import Across, Row
from hakaru.wording import LANGUAGES

from tests.analysis.small_run import Pt, Rep, write_run
from tests.report.test_output import Page, squeezed

Json = dict[str, Any]
PUBLICATIONS = {"paper": {"title": {"en": "A paper", "ja": "ある論文"}, "source": "A. Author, A paper, 2011"}}
TABLE: Json = {
    "kind": "table",
    "publication": "paper",
    "table": "paper",
    "where": {"pattern": "any"},
    "over": "vms",
    "metrics": {"iops": "iops", "read_iops": "iops"},
    "calibrated": {"iops": [1]},
    "by_definition": ["read_iops"],
    "note": {"en": "Drives differ.", "ja": "ドライブが異なる。"},
    "rows": [{"vms": 1.0, "iops": 1000.0}, {"vms": 4.0, "iops": 2500.0}, {"vms": 9.0, "iops": 1.0}],
}
PEAK: Json = {
    "kind": "peak",
    "publication": "paper",
    "id": "best",
    "name": {"en": "Best number of VMs", "ja": "最適な台数"},
    "metric": "iops",
    "over": "vms",
    "published": 4,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run with a calibrated, a predicted, a missing and a partial row."""
    points = [
        Pt({"pattern": "any", "vms": n}, [Rep(reads=(rate,) * 8, writes=(0,) * 8, vms=1)] * 3)
        for n, rate in {1: 1000, 4: 3000}.items()
    ]
    factors = [{"pattern": ["any"], "vms": [1, 4, 9]}]
    folder = tmp_path_factory.mktemp("runs")
    return write_run(folder, points, factors=factors, publications=PUBLICATIONS, reference=[TABLE, PEAK])


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_page_names_the_worst_prediction(run: Path, language: str) -> None:
    (paragraph,) = shown.answer(summarise(run), language)
    assert PUBLICATIONS["paper"]["title"][language] in paragraph["name"]  # type: ignore[index]
    for part in ("2,500", "3,000", "+20.0", "10.0"):
        assert part in paragraph["text"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_section_has_every_row_once_and_each_note_once(run: Path, language: str) -> None:
    summary = summarise(run)
    (section,) = shown.section(summary, language)
    (table,) = section.tables
    rows = [row for row in table.rows if isinstance(row, Row)]
    assert len(rows) == len(summary["scorecard"]["rows"]) == 7
    assert PUBLICATIONS["paper"]["title"][language] in table.caption  # type: ignore[index]
    notes = [row.text for row in table.rows if isinstance(row, Across) and not row.heading]
    assert notes == [TABLE["note"][language]] * 2  # once for each metric
    missing = rows[2]
    assert [missing.cells[i] for i in (3,)] == ["–"]


def test_row_over_several_points_shows_that_some_are_missing(run: Path) -> None:
    (section,) = shown.section(summarise(run), "en")
    peak = next(row for row in reversed(section.tables[0].rows) if isinstance(row, Row))
    assert getattr(peak.cells[0], "small", "") == "from 2 of 3 points"


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_cites_the_publication_and_shows_the_rows(run: Path, tmp_path: Path, language: str) -> None:
    (path,) = render(run, ["html"], [language], tmp_path)
    text = squeezed("".join(Page(path.read_text()).text))
    summary = summarise(run)
    assert squeezed(PUBLICATIONS["paper"]["source"]) in text  # type: ignore[arg-type]
    for row in summary["scorecard"]["rows"]:
        assert squeezed(scorecard.published(language, row)) in text
        assert squeezed(scorecard.error(language, row)) in text


def test_study_without_published_numbers_has_no_section(tmp_path: Path) -> None:
    summary = summarise(write_run(tmp_path, [Pt({"vms": 1}, [Rep()])]))
    assert shown.section(summary, "en") == []
    assert shown.answer(summary, "en") == []
