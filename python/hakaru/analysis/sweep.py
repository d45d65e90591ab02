"""Sweeps: points ordered by one factor, with all other factors fixed. A sweep is drawn as a curve
and has findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.points import Point
from hakaru.study.where import is_number, selects

NEAR_PEAK = 0.95


@dataclass(frozen=True)
class Sweep:
    """Points that differ only in the factor `over`, ordered by its level. `where` contains the
    levels of the other factors.
    """

    over: str
    where: Mapping[str, Any]
    points: tuple[Point, ...]
    is_searched: bool = False
    """Whether a search chose its levels, most of which have a single repetition."""

    def level(self, point: Point) -> float:
        """The point's level of the swept factor."""
        return float(point.factors[self.over])

    def measured(self, metric: str = "iops") -> list[Point]:
        """Points that have a value of the metric."""
        return [p for p in self.points if p.mean(metric) is not None]

    def peak(self, metric: str = "iops") -> Point | None:
        """The point with the highest mean, the first of equals; None if nothing was measured."""
        return max(self.measured(metric), key=lambda p: p.mean(metric) or 0.0, default=None)

    def near_peak(self, metric: str = "iops") -> list[Point]:
        """The consecutive points around the peak whose means lie within 5 % of it."""
        peak = self.peak(metric)
        if peak is None:
            return []
        floor = NEAR_PEAK * (peak.mean(metric) or 0.0)
        return self._around(peak, metric, lambda point: (point.mean(metric) or 0.0) >= floor)

    def like_peak(self, metric: str = "iops") -> list[Point]:
        """The points whose 95 % intervals overlap with that of the peak, so the repetitions do not
        show which of them is the highest; of a point without an interval, its value counts. Only
        the peak if it has no interval, or if a search chose the levels.
        """
        peak = self.peak(metric)
        if peak is None:
            return []
        return [peak] if self.is_searched else like_peak(self.measured(metric), peak, metric)

    def _around(self, peak: Point, metric: str, belongs: Callable[[Point], bool]) -> list[Point]:
        """The peak with the consecutive points on both sides for which `belongs` holds."""
        points = self.measured(metric)
        first = last = points.index(peak)
        while first > 0 and belongs(points[first - 1]):
            first -= 1
        while last + 1 < len(points) and belongs(points[last + 1]):
            last += 1
        return points[first : last + 1]


def like_peak(measured: Sequence[Point], peak: Point, metric: str) -> list[Point]:
    """The points whose 95 % intervals overlap with that of the peak; of a point without an
    interval, its value counts. Only the peak if it has no interval. They need not be consecutive.
    """
    low = peak.metrics[metric].low
    return [peak] if low is None else [point for point in measured if _highest(point, metric) >= low]


def _highest(point: Point, metric: str) -> float:
    """The upper end of the interval of a measured metric, or its value without an interval."""
    estimate = point.metrics[metric]
    return float((estimate.mean if estimate.high is None else estimate.high) or 0.0)


def sweeps_of(
    points: list[Point], preferred: str, *, is_searched: bool = False, sweeps_lone: bool = True
) -> list[Sweep]:
    """All sweeps over the factor `preferred`, or else over the first numeric factor, in the order
    of the study. `is_searched`: whether a search chose the levels.

    `sweeps_lone`: a point that would be alone in its sweep is swept over another numeric factor, if
    points differ from it in that factor alone. These may be points of other sweeps, such as the one
    from which the factor starts. Searched points are not, because their levels coincide by chance.
    """
    over = swept_factor([p.factors for p in points], preferred)
    if over is None:
        return []
    sweeps: list[Sweep] = []
    swept: set[str] = set()
    for members in _groups(points, over):
        if len(members) == 1 and sweeps_lone and not is_searched:
            if members[0].id in swept:
                continue
            own = _across(members[0], points, over)
            swept |= {p.id for p in own.points}
            sweeps.append(own)
        else:
            sweeps.append(_sweep(members, over, is_searched))
    return sweeps


def _groups(points: Sequence[Point], over: str) -> list[list[Point]]:
    """Points that differ only in the factor `over`, in the order of the study."""
    groups: dict[frozenset[tuple[str, str]], list[Point]] = {}
    for point in points:
        groups.setdefault(_rest(point, over), []).append(point)
    return list(groups.values())


def _rest(point: Point, over: str) -> frozenset[tuple[str, str]]:
    """The other factors with their levels."""
    return frozenset((f, str(level)) for f, level in point.factors.items() if f != over)


def _across(lone: Point, points: Sequence[Point], preferred: str) -> Sweep:
    """The sweep of a point over the numeric factor, except `preferred`, in which most points differ
    from it; the first of equals. Over `preferred`, with this point only, if there is none.
    """
    best = [lone]
    over = preferred
    for factor in (f for f, level in lone.factors.items() if f != preferred and is_number(level)):
        rest = _rest(lone, factor)
        alike = [p for p in points if is_number(p.factors.get(factor)) and _rest(p, factor) == rest]
        if len(alike) > len(best):
            best, over = alike, factor
    return _sweep(best, over, False)


def _sweep(members: Sequence[Point], over: str, is_searched: bool) -> Sweep:
    where = {f: level for f, level in members[0].factors.items() if f != over}
    return Sweep(over, where, tuple(sorted(members, key=lambda p: float(p.factors[over]))), is_searched)


def sweep_over(points: Sequence[Point], over: str, where: Mapping[str, Any]) -> Sweep | None:
    """The sweep over `over` of the points that `where` selects, whatever else the study sweeps.

    None if no such point has a numeric level, or if several have the same one: a form of the study
    that the checks of studies do not cover.
    """
    chosen = [p for p in points if selects(where, p.factors) and is_number(p.factors.get(over))]
    ordered = sorted(chosen, key=lambda p: float(p.factors[over]))
    if not ordered or len({float(p.factors[over]) for p in ordered}) < len(ordered):
        return None
    return Sweep(over, {f: level for f, level in where.items() if f != over}, tuple(ordered))


def swept_factor(factors: list[dict[str, Any]], preferred: str) -> str | None:
    """`preferred` if all points have it with numeric levels, else the first such factor, else
    None.
    """
    names = list(dict.fromkeys(f for each in factors for f in each))
    numeric = [f for f in names if all(is_number(each.get(f)) for each in factors)]
    return preferred if preferred in numeric else next(iter(numeric), None)
