"""All comparisons of a run with noisy neighbours side by side: a row for each remedy, a column for
each comparison (its *case*), such as the shared resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import sentences
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.wording import number, say

Json = dict[str, Any]
NOTHING: Json = {"mean": None, "low": None, "high": None, "n": 0}


@dataclass(frozen=True)
class Matrix:
    """Ratios of the points of all cases: names of rows and columns, and the values of those that
    the run has, by row and column.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    axes: tuple[str, str]
    """Factors that vary between the columns and between the rows."""
    values: Mapping[tuple[int, int], Json]
    restored: frozenset[tuple[int, int]]
    """Rows and columns of the points that restore the service."""


def cases(summary: Json) -> Json | None:
    """The evidence about all comparisons; None if the run has fewer than two."""
    return next((f["evidence"] for f in summary["findings"] if f["kind"] == "neighbour_cases"), None)


def label(evidence: Json, point: str, language: str) -> str:
    """The levels of a point that vary in its comparison."""
    every = [each["factors"] for each in evidence["points"].values()]
    levels = evidence["points"][point]["factors"]
    varied = {f: level for f, level in levels.items() if len({str(other.get(f)) for other in every}) > 1}
    return sentences.series(varied, language) or point


def matrix(summary: Json, ratio: str, language: str) -> Matrix:
    """The ratios with this name (`p99_ratio`, `aggressor_ratio`) of every point beside the
    aggressors, that without a remedy first.
    """
    found = [finding for finding in summary["findings"] if finding["kind"] == "neighbours"]
    rows: dict[str, int] = {}
    values: dict[tuple[int, int], Json] = {}
    restored: set[tuple[int, int]] = set()
    for column, evidence in enumerate(finding["evidence"] for finding in found):
        others = [name for name in evidence["points"] if name not in (evidence["alone"], evidence["beside"])]
        for name in (evidence["beside"], *others):
            point = evidence["points"][name]
            place = (rows.setdefault(label(evidence, name, language), len(rows)), column)
            values[place] = point[ratio]
            if point["restores"]:
                restored.add(place)
    columns = [sentences.series(finding["where"], language) for finding in found]
    fixed = dict.fromkeys(factor for finding in found for factor in finding["where"])
    every = [point["factors"] for finding in found for point in finding["evidence"]["points"].values()]
    varied = dict.fromkeys(factor for factors in every for factor in factors if factor not in fixed)
    return Matrix(list(rows), columns, (", ".join(fixed), ", ".join(varied)), values, frozenset(restored))


def tables(summary: Json, language: str) -> list[Table]:
    """The victims' 99th percentiles and the aggressors' rates; none if the run has fewer than two
    comparisons.
    """
    if cases(summary) is None:
        return []
    p99 = matrix(summary, "p99_ratio", language)
    rates = matrix(summary, "aggressor_ratio", language)
    return [
        _table(p99, say(language, "table.neighbour_cases"), 1.0, language),
        _table(rates, say(language, "table.neighbour_cases.cost"), 100.0, language),
    ]


def _table(shown: Matrix, title: str, factor: float, language: str) -> Table:
    columns = [Column(say(language, "table.neighbours.point"), "level", header=True), *map(Column, shown.columns)]
    rows = []
    for row, name in enumerate(shown.rows):
        places = [(row, column) for column in range(len(shown.columns))]
        values = [shown.values.get(place, NOTHING) for place in places]
        cells = [_cell(v, factor, language, place in shown.restored) for v, place in zip(values, places, strict=True)]
        rows.append(Row([name, *cells]))
    return Table(title, columns, rows)


def _cell(ratio: Json, factor: float, language: str, bold: bool) -> Cell:
    mean, low, high = (None if ratio[end] is None else factor * ratio[end] for end in ("mean", "low", "high"))
    interval = "" if low is None else f"{number(low, language)}–{number(high, language)}"
    return Cell(number(mean, language), interval, bold=bold)
