"""A published table of a backup, which goes by cases and VMs, beside our points.

`study.json` names for each of our levels of the factor `over` the value of the table's `column`
(`levels`), and whether rows of one level are to be added (`combine: sum`: the table has a row per
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
    """Every published table against the points it is about, metric by metric, for each combination
    of other levels.
    """
    found = []
    for reference, rows in zip(run.study.reference, run.tables, strict=True):
        over, where = reference.over, reference.where
        for rest in _combinations(points, over, where):
            ours = {str(p.factors[over]): p for p in points if _rest(p, over) == rest and over in p.factors}
            for metric, column in reference.metrics.items():
                found.append(_one(reference, rows, dict(rest), ours, metric, column))
    return [c for c in found if c.compared]


def _combinations(points: list[CopyPoint], over: str, where: Mapping[str, Any]) -> list[tuple[tuple[str, Any], ...]]:
    """Of the factor sets that have `over`, the one with the fewest factors: the plain patterns, not
    the maps.
    """
    about = [p for p in points if over in p.factors and all(str(p.factors.get(f)) == str(v) for f, v in where.items())]
    fewest = min((len(p.factors) for p in about), default=0)
    return list(dict.fromkeys(_rest(p, over) for p in about if len(p.factors) == fewest))


def _rest(point: CopyPoint, over: str) -> tuple[tuple[str, Any], ...]:
    return tuple((f, v) for f, v in point.factors.items() if f != over)


def _one(
    reference: Reference,
    published: list[dict[str, Any]],
    where: dict[str, Any],
    ours: dict[str, CopyPoint],
    metric: str,
    column: str,
) -> Comparison:
    levels = reference.levels or {level: level for level in ours}
    rows = []
    for level, theirs in levels.items():
        values = [float(row[column]) for row in published if _same(row.get(reference.goes_by), theirs)]
        if not values:
            continue
        estimate = ours[str(level)].metrics.get(metric) if str(level) in ours else None
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


def _same(a: Any, b: Any) -> bool:
    """Whether a cell is the value asked for; a table's numbers may be written `1` or `1.0`."""
    try:
        return float(a) == float(b)
    except (TypeError, ValueError):
        return str(a) == str(b)
