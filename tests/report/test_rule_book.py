"""The section "Rules of thumb" of the report."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.analysis.rule_book import BOOK, GaugeValues, judge
from hakaru.report import rule_book
from hakaru.report.blocks import Across, Cell, Row


def point(vms: int, gauges: GaugeValues) -> dict[str, Any]:
    judged = [judgement.to_json() for judgement in judge(BOOK, [gauges])]
    return {"point": f"p{vms:02}", "factors": {"vms": vms, "pattern": "random"}, "valid": True, "rule_book": judged}


def texts(row: Row | Across) -> list[str]:
    assert isinstance(row, Row)
    return [cell.text if isinstance(cell, Cell) else cell for cell in row.cells]


def test_table_has_limits_published_values_and_points() -> None:
    light = point(1, {"response_ms": {"group/0": 20}, "drive_busy_percent": {"group/0": 41}})
    heavy = point(16, {"response_ms": {"group/0": 20}, "drive_busy_percent": {"group/0": 98}})
    slow = point(32, {"response_ms": {"group/0": 80}, "drive_busy_percent": {"group/0": 98}})
    (section,) = rule_book.section({"points": [light, heavy, slow]}, "en")
    (table,) = section.tables
    assert [column.title for column in table.columns] == [
        "VMs",
        "response time, ms",
        "drives busy, %",
        "headroom, times",
    ]
    assert [texts(row) for row in table.rows] == [
        ["limit", "50", "62–79", ""],
        ["published", "–", "41–44", ""],
        ["1", "20", "41", "1.5–1.9"],
        ["16", "20", "98", "0.6–0.8"],
        ["32", "80", "98", "0.6–0.8"],
    ]
    busy = [row.cells[2] for row in table.rows if isinstance(row, Row)][3:]
    assert busy == [
        Cell("98", "overridden"),
        Cell("98", "above", bold=True),
    ]
    assert "implies a limit of 62 to 79 %" in section.about


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_long_run_shows_the_first_points(language: str) -> None:
    points = [point(vms, {"response_ms": {"group/0": 20}}) for vms in range(1, 51)]
    (section,) = rule_book.section({"points": points}, language)
    (table,) = section.tables
    assert len(table.rows) == 2 + rule_book.ROWS_MAX + 1
    last = table.rows[-1]
    assert isinstance(last, Across) and "10" in last.text


def test_levels_of_many_factors_share_a_column() -> None:
    points = [point(vms, {"response_ms": {"group/0": 20}}) for vms in (1, 2)]
    for name in ("paths", "rtt", "loss", "buffer"):
        points[1]["factors"][name] = f"{name} b"
    (section,) = rule_book.section({"points": points}, "en")
    (table,) = section.tables
    assert [column.title for column in table.columns] == ["point", "response time, ms"]
    assert [texts(row)[0] for row in table.rows] == [
        "limit",
        "published",
        "1 VM",
        "2 VMs, paths b, rtt b, loss b, buffer b",
    ]


def test_point_of_a_study_without_factors_is_named() -> None:
    alone = point(1, {"response_ms": {"group/0": 20}}) | {"factors": {}}
    (section,) = rule_book.section({"points": [alone]}, "en")
    (table,) = section.tables
    assert [texts(row) for row in table.rows] == [["limit", "50"], ["published", "–"], ["p01", "20"]]
    assert len(table.columns) == 2


def test_runs_without_such_counters_have_no_section() -> None:
    assert rule_book.section({"points": [point(1, {}), {"point": "p2", "factors": {}}]}, "en") == []
