"""The requested precision of a study: points whose intervals are still too wide get a caveat."""

from __future__ import annotations

from collections.abc import Iterable

from hakaru.analysis.points import Point
from hakaru.caveats import Caveat
from hakaru.study.model import Measure
from hakaru.study.results import half_percent


def mark(measure: Measure, points: Iterable[Point]) -> None:
    """Add a caveat to every valid point with an interval that is wider than requested."""
    for point in points:
        if not point.valid:
            continue
        for metric, percent in measure.precisions(point.chief).items():
            estimate = point.metrics.get(metric)
            half = half_percent(estimate)
            if half is None or half > percent:
                values = {"metric": metric, "asked": percent, "n": 0 if estimate is None else estimate.n}
                name = "precision_missed" if half is not None else "precision_unknown"
                point.caveats.append(Caveat(name, values | ({} if half is None else {"percent": half})))
                break
