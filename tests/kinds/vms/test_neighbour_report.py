"""The report about noisy neighbours: tiles, figures and tables, for invented points."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.analysis.estimate import Estimate
from hakaru.kinds.vms import neighbour_matrix, neighbour_tables
from hakaru.kinds.vms.analysis import neighbours
from hakaru.kinds.vms.report import REPORT
from hakaru.report.blocks import Cell, Row, Table
from hakaru.report.charts import NARROW, WIDE, numbers_of
from hakaru.study.model import Study
from hakaru.wording import LANGUAGES

from tests.kinds.vms.test_neighbours import WRITTEN, P99s, points, resources

NOTHING = Estimate.over([], "ms").to_json()
STUDY = Study.model_validate(dict(WRITTEN))


def summary_of(*results: tuple[dict[str, str], float, P99s]) -> dict[str, Any]:
    measured = points(*results)
    described = [point.to_json() for point in measured]
    for point in described:
        for name in (*neighbour_tables.SERVICE, *neighbour_tables.ARRAY):
            point["metrics"].setdefault(name, NOTHING)
    findings = [finding.to_json() for finding in neighbours.of_run(measured)]
    return {"points": described, "findings": findings, "sweeps": [], "curves": []}


def helped() -> dict[str, Any]:
    """The remedy `cap` helps, `move` does not. The points alone and beside are not the first."""
    return summary_of(
        ({"neighbour": "cap"}, 460, 35),
        ({"neighbour": "alone"}, 500, 30),
        ({"neighbour": "beside"}, 100, 480),
        ({"neighbour": "move"}, 110, 470),
    )


def test_tiles_are_the_service_alone_beside_and_with_the_best_remedy() -> None:
    tiles = [(tile["title"], tile["value"], tile["small"]) for tile in REPORT.tiles(helped(), "en")]
    assert tiles[:3] == [
        ("Victims' 99th percentile alone", "30 ms", "500 IOPS"),
        ("Beside the aggressors", "480 ms", "16 times the value alone; 100 IOPS"),
        ("With the best remedy, cap", "35 ms", "1.17 times the value alone; 460 IOPS"),
    ]
    assert tiles[3][0] == "Bottleneck beside them"


def test_tile_says_that_no_remedy_is_shown_to_help() -> None:
    summary = summary_of(
        ({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 480), ({"neighbour": "cap"}, 110, 470)
    )
    assert [tile["value"] for tile in REPORT.tiles(summary, "en")][2] == "none is shown to help"
    without = summary_of(({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 480))
    assert len(REPORT.tiles(without, "en")) == 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_figures_show_each_point_with_those_to_compare_with_first(language: str) -> None:
    (group,) = REPORT.groups(helped(), STUDY, language)
    assert [figure.name for figure in group.figures] == ["neighbours_p99", "neighbours_rate"]
    for size in (WIDE, NARROW):
        drawn = [numbers_of(figure.draw(size)) for figure in group.figures]
        assert drawn[0] == ["alone: 30 ms", "beside: 480 ms", "cap: 35 ms", "move: 470 ms"]
        assert drawn[1] == ["alone: 500 IOPS", "beside: 100 IOPS", "cap: 460 IOPS", "move: 110 IOPS"]


def test_figures_contain_intervals() -> None:
    summary = summary_of(({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 480))
    summary["points"][1]["metrics"]["victim_latency_ms_p99"] |= {"low": 450.0, "high": 510.0, "n": 3}
    figure = REPORT.groups(summary, STUDY, "en")[0].figures[0]
    assert numbers_of(figure.draw(WIDE)) == ["alone: 30 ms", "beside: 480 (450–510) ms"]


def of_resources() -> dict[str, Any]:
    """Two resources, of which the remedy `cap` restores both, and `move` the second one."""
    measured = resources()
    described = [point.to_json() for point in measured]
    for point in described:
        for name in (*neighbour_tables.SERVICE, *neighbour_tables.ARRAY):
            point["metrics"].setdefault(name, NOTHING)
    findings = [finding.to_json() for finding in neighbours.of_run(measured)]
    return {"points": described, "findings": findings, "sweeps": [], "curves": []}


def test_tiles_of_several_resources_have_the_cost_for_each_and_what_helps_for_all() -> None:
    tiles = [(tile["title"], tile["value"], tile["small"]) for tile in REPORT.tiles(of_resources(), "en")]
    assert tiles == [
        (
            "99th percentile beside the aggressors: shared",
            "4 times",
            "rate 20 % of that alone; bottleneck: undetermined",
        ),
        ("99th percentile beside the aggressors: slow", "9 times", "rate 10 % of that alone; bottleneck: undetermined"),
        ("Restores the service in every case", "cap", "leaves the aggressors 1 to 2.50 % of their rate"),
    ]
    assert REPORT.tiles_about(of_resources(), "en") == ""


@pytest.mark.parametrize("language", LANGUAGES)
def test_figure_of_several_resources_precedes_those_of_each(language: str) -> None:
    groups = REPORT.groups(of_resources(), STUDY, language)
    assert [group.name for group in groups] == ["", "shared", "slow"]
    (figure,) = groups[0].figures
    for size in (WIDE, NARROW):
        assert numbers_of(figure.draw(size)) == [
            "drives shared, neighbour beside: 4",
            "drives shared, neighbour cap: 1.10",
            "drives shared, neighbour move: 3.67",
            "drives slow, neighbour beside: 9",
            "drives slow, neighbour cap: 1.05",
            "drives slow, neighbour move: 1.10",
        ]


def test_table_has_a_row_for_each_remedy_and_a_column_for_each_resource() -> None:
    p99, rates = neighbour_matrix.tables(of_resources(), "en")
    assert [column.title for column in p99.columns] == ["point", "shared", "slow"]

    def cells(table: Table) -> list[list[str]]:
        rows = [row.cells for row in table.rows if isinstance(row, Row)]
        return [[cell if isinstance(cell, str) else cell.text for cell in row] for row in rows]

    assert cells(p99) == [["beside", "4", "9"], ["cap", "1.10", "1.05"], ["move", "3.67", "1.10"]]
    assert cells(rates) == [["beside", "100", "100"], ["cap", "2.50", "1"], ["move", "97.5", "75"]]
    bold = [[isinstance(c, Cell) and c.bold for c in row.cells[1:]] for row in p99.rows if isinstance(row, Row)]
    assert bold == [[False, False], [True, True], [False, True]]
    assert neighbour_matrix.tables(helped(), "en") == []


def test_chief_finding_of_several_resources_is_that_about_all_of_them() -> None:
    assert [f["kind"] for f in REPORT.chief_findings(of_resources())] == ["neighbour_cases"]
    assert [f["kind"] for f in REPORT.chief_findings(helped())] == ["neighbours"]


def test_caps_and_parts_of_the_array_have_a_table_of_their_own() -> None:
    summary = helped()
    tables = neighbour_tables.of_run(summary, {}, REPORT.point_name, "en")
    assert [[column.title for column in table.columns] for table in tables] == [
        ["point", "victim IOPS", "victim p99 ms"],
        ["point", "capped accesses/s", "capped MB/s", "delayed %", "wait ms", "controller ms", "drives ms"],
    ]
    assert [len(table.rows) for table in tables] == [4, 4]
