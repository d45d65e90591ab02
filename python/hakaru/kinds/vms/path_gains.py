"""The table of the worth of further paths: for each number of paths the rate, its ratio to that
with the fewest, and the bottleneck with its evidence. The points that differ only in their paths
stand together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import sentences
from hakaru.report import common
from hakaru.report.blocks import Across, Cell, Column, Row, Table
from hakaru.report.sweep import factor_title
from hakaru.wording import number, say

Json = dict[str, Any]
NUMBERS = ("n", "iops", "mb_per_s", "gain")
WORDS = ("limiter", "because")


def tables(summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
    """A table for each factor of paths; none if no points differ only in their paths."""
    by_factor: dict[str, list[Json]] = {}
    for finding in summary["findings"]:
        if finding["kind"] == "paths":
            by_factor.setdefault(finding["evidence"]["over"], []).append(finding)
    return [_table(summary, over, findings, letters, language) for over, findings in by_factor.items()]


def _table(summary: Json, over: str, findings: list[Json], letters: Mapping[str, str], language: str) -> Table:
    columns = [
        Column(factor_title(over, language), "level", header=True),
        *(Column(say(language, f"table.{name}")) for name in NUMBERS),
        *(Column(say(language, f"table.{name}"), "words") for name in WORDS),
    ]
    points = {point["point"]: point for point in summary["points"]}
    rows: list[Row | Across] = []
    for finding in findings:
        if name := sentences.series(finding["where"], language):
            rows.append(Across(name, heading=True))
        rows += _rows(finding["evidence"], points, letters, language)
    return Table(say(language, f"table.{over}"), columns, rows, caveats=True)


def _rows(evidence: Json, points: Mapping[str, Json], letters: Mapping[str, str], language: str) -> list[Row]:
    because = evidence["because" if language == "en" else f"because_{language}"]
    rows = []
    for level, name in evidence["points"].items():
        point = points[name]
        rates = [common.with_interval(point["metrics"][metric], language) for metric in ("iops", "mb_per_s")]
        gain = evidence["ratio"].get(level)
        cells: list[Cell | str] = [
            number(float(level), language),
            str(point["metrics"]["mb_per_s"]["n"]),
            *rates,
            Cell(number(1.0, language), bold=True) if gain is None else common.with_interval(gain, language),
            say(language, f"limiter.{evidence['limiter'][level]}"),
            because[level],
        ]
        rows.append(common.row(point, cells, letters))
    return rows
