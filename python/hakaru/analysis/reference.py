"""Comparison of measured values with a published table: the relative error at every level that both
have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.analysis.run_data import RunData
from hakaru.analysis.sweep import Sweep
from hakaru.study.model import Reference


@dataclass(frozen=True)
class Row:
    """One level: the published value, and the measured mean with its 95 % interval."""

    level: float | str
    published: float
    mean: float | None
    low: float | None
    high: float | None
    parts: tuple[float, ...] = ()
    """Summands of the published value (one per VM), if the table has them."""

    @property
    def error_percent(self) -> float | None:
        """(measured - published) / published, in percent; None if no value was measured or the
        published value is 0.
        """
        if self.mean is None or self.published == 0:
            return None
        return 100 * (self.mean - self.published) / self.published

    def to_json(self) -> dict[str, Any]:
        """One element of `rows` of a reference in the report."""
        measured = {"mean": self.mean, "low": self.low, "high": self.high}
        row = {"level": self.level, "published": self.published, **measured, "error_percent": self.error_percent}
        return row | ({"parts": list(self.parts)} if self.parts else {})


@dataclass(frozen=True)
class Comparison:
    """One metric of one sweep against one published table."""

    table: str
    title: dict[str, str]
    source: str
    metric: str
    over: str
    where: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def compared(self) -> list[Row]:
        """Rows with a measured value."""
        return [r for r in self.rows if r.error_percent is not None]

    @property
    def worst(self) -> Row | None:
        """The row with the largest error."""
        return max(self.compared, key=lambda r: abs(r.error_percent or 0.0), default=None)

    def to_json(self) -> dict[str, Any]:
        """One element of `references` of the report."""
        head = {"table": self.table, "title": self.title, "source": self.source, "metric": self.metric}
        return {**head, "over": self.over, "where": self.where, "rows": [r.to_json() for r in self.rows]}


def compare(run: RunData, sweeps: list[Sweep]) -> list[Comparison]:
    """Compare every published table with every sweep that it covers, metric by metric."""
    comparisons = []
    for reference, rows in zip(run.study.reference, run.tables, strict=True):
        for sweep in sweeps:
            if sweep.over == reference.over and sweep.fits(reference.where):
                comparisons += [_compared(reference, rows, sweep, *pair) for pair in reference.metrics.items()]
    return comparisons


def _compared(
    reference: Reference, published: list[dict[str, Any]], sweep: Sweep, metric: str, column: str
) -> Comparison:
    estimates = {sweep.level(p): p.metrics.get(metric) for p in sweep.points}
    rows = []
    for row in published:
        level = float(row[reference.over])
        estimate = estimates.get(level)
        mean, low, high = (estimate.mean, estimate.low, estimate.high) if estimate else (None, None, None)
        rows.append(Row(level, float(row[column]), mean, low, high))
    return Comparison(
        reference.table,
        title_of(reference),
        reference.source,
        metric,
        over=sweep.over,
        where=dict(sweep.where),
        rows=tuple(rows),
    )


def title_of(reference: Reference) -> dict[str, str]:
    """Title of the published table, by language."""
    return reference.title.model_dump()
