"""Comparison with a published table of a backup, whose rows are cases and VMs.

`study.json` maps each level of the factor `over` to the value of the table's `column` (`levels`).
It also defines whether the rows of one level are added (`combine: sum`, for a table with a row per
VM).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis.reference import Comparison, Row, title_of
from hakaru.analysis.run_data import RunData
from hakaru.kinds.copy.analysis.points import CopyPoint
from hakaru.study.model import Reference


def compare(run: RunData, points: list[CopyPoint]) -> list[Comparison]:
    """Compare every published table with the points that it covers, metric by metric, for each
    combination of other levels.
    """
    comparisons = []
    for reference, rows in zip(run.study.reference, run.tables, strict=True):
        over, where = reference.over, reference.where
        for rest in _combinations(points, over, where):
            points_by_level = {
                str(p.factors[over]): p for p in points if _other_levels(p, over) == rest and over in p.factors
            }
            for metric, column in reference.metrics.items():
                comparisons.append(_comparison(reference, rows, dict(rest), points_by_level, metric, column))
    return [c for c in comparisons if c.compared]


def _combinations(points: list[CopyPoint], over: str, where: Mapping[str, Any]) -> list[tuple[tuple[str, Any], ...]]:
    """Levels of the other factors, of the points that have `over` and the fewest factors: the plain
    patterns, not the maps.
    """
    candidates = [
        p for p in points if over in p.factors and all(str(p.factors.get(f)) == str(v) for f, v in where.items())
    ]
    fewest = min((len(p.factors) for p in candidates), default=0)
    return list(dict.fromkeys(_other_levels(p, over) for p in candidates if len(p.factors) == fewest))


def _other_levels(point: CopyPoint, over: str) -> tuple[tuple[str, Any], ...]:
    return tuple((f, v) for f, v in point.factors.items() if f != over)


def _comparison(
    reference: Reference,
    published: list[dict[str, Any]],
    where: dict[str, Any],
    points_by_level: dict[str, CopyPoint],
    metric: str,
    column: str,
) -> Comparison:
    levels = reference.levels or {level: level for level in points_by_level}
    rows = []
    for level, published_level in levels.items():
        values = [float(row[column]) for row in published if _cells_match(row.get(reference.goes_by), published_level)]
        if not values:
            continue
        estimate = points_by_level[str(level)].metrics.get(metric) if str(level) in points_by_level else None
        mean, low, high = (estimate.mean, estimate.low, estimate.high) if estimate else (None, None, None)
        value = sum(values) if reference.combine == "sum" else values[0]
        rows.append(Row(str(level), value, mean, low, high, tuple(values) if len(values) > 1 else ()))
    return Comparison(
        reference.table,
        title_of(reference),
        reference.source,
        metric,
        over=reference.over,
        where=where,
        rows=tuple(rows),
    )


def _cells_match(a: Any, b: Any) -> bool:
    """Whether a cell has the requested value. Numbers compare by value, because tables write `1` or
    `1.0`.
    """
    try:
        return float(a) == float(b)
    except (TypeError, ValueError):
        return str(a) == str(b)
