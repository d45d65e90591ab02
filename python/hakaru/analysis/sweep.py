"""Points in the order of one factor, all other factors held: what a curve shows and a finding is
about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.points import Point

NEAR_PEAK = 0.95


@dataclass(frozen=True)
class Sweep:
    """Points that differ in `over` alone, by its level; `where` are the levels of the other
    factors.
    """

    over: str
    where: Mapping[str, Any]
    points: tuple[Point, ...]

    def level(self, point: Point) -> float:
        """The point's level of the swept factor."""
        return float(point.factors[self.over])

    def measured(self, metric: str = "iops") -> list[Point]:
        """Points that have a value of the metric."""
        return [p for p in self.points if p.mean(metric) is not None]

    def peak(self, metric: str = "iops") -> Point | None:
        """The point with the highest mean, the earliest of equals; None where nothing was
        measured.
        """
        return max(self.measured(metric), key=lambda p: p.mean(metric) or 0.0, default=None)

    def near_peak(self, metric: str = "iops") -> list[Point]:
        """The unbroken run of points around the peak whose means lie within 5 % of it."""
        points, peak = self.measured(metric), self.peak(metric)
        if peak is None:
            return []
        floor = NEAR_PEAK * (peak.mean(metric) or 0.0)
        first = last = points.index(peak)
        while first > 0 and (points[first - 1].mean(metric) or 0.0) >= floor:
            first -= 1
        while last + 1 < len(points) and (points[last + 1].mean(metric) or 0.0) >= floor:
            last += 1
        return points[first : last + 1]

    def fits(self, where: Mapping[str, Any]) -> bool:
        """Whether every level that `where` asks for is this sweep's."""
        return all(str(self.where.get(f)) == str(level) for f, level in where.items())


def sweeps_of(points: list[Point], preferred: str) -> list[Sweep]:
    """All sweeps over the factor `preferred` (or else over the first numeric one), in the order of
    the study.
    """
    over = swept_factor([p.factors for p in points], preferred)
    if over is None:
        return []
    groups: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for point in points:
        rest = tuple((f, str(level)) for f, level in point.factors.items() if f != over)
        groups.setdefault(rest, []).append(point)
    found = []
    for members in groups.values():
        where = {f: level for f, level in members[0].factors.items() if f != over}
        found.append(Sweep(over, where, tuple(sorted(members, key=lambda p: float(p.factors[over])))))
    return found


def swept_factor(factors: list[dict[str, Any]], preferred: str) -> str | None:
    """`preferred` where the points have it with numbers for levels; else the first factor that has;
    else None.
    """
    names = list(dict.fromkeys(f for each in factors for f in each))
    numeric = [f for f in names if all(isinstance(each.get(f), (int, float)) for each in factors)]
    return preferred if preferred in numeric else next(iter(numeric), None)
