"""Curves of a load over round-trip times: points that differ only in the distance, and groups of
such curves.

The factor that changes the distance is identified by its effect on the delay of links, not by its
name. Curves whose points have the same factors, pattern and number of VMs form a group. They are
distinguished by their remaining levels, the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.kinds.vms.analysis.points import VmsPoint

STEPS = 40
SHARED = ("pattern", "vms")
"""Factors whose levels the curves of a group share."""


@dataclass(frozen=True)
class Curve:
    """Points that differ only in the distance, the nearest first.

    `name`: the levels that distinguish the curve from the others of its group.
    """

    over: str
    where: dict[str, Any]
    name: dict[str, Any]
    group: dict[str, Any]
    points: tuple[VmsPoint, ...]

    @property
    def is_stream(self) -> bool:
        """Whether its points are plain TCP streams."""
        return self.points[0].setup.is_stream

    def at(self, rtt_s: float) -> VmsPoint | None:
        """The point at this round-trip time, or None."""
        return next((p for p in self.points if abs(p.setup.rtt_s - rtt_s) < 1e-9), None)

    def bound(self) -> list[tuple[float, float]]:
        """`(round-trip time in ms, lowest bound in MB/s)`, at more closely spaced distances than
        the points.
        """
        setup = self.points[-1].setup
        nearest, farthest = self.points[0].setup.rtt_s, setup.rtt_s
        pairs = []
        for step in range(STEPS + 1):
            # Steps are smaller at short distances, where bounds are most curved.
            rtt = nearest + (farthest - nearest) * (step / STEPS) ** 2
            if lowest := setup.bounds_at(rtt):
                pairs.append((rtt * 1e3, lowest[0].bytes_per_s / 1e6))
        return pairs

    def to_json(self) -> dict[str, Any]:
        """One element of `curves` of the report."""
        return {
            "over": self.over,
            "where": self.where,
            "name": self.name,
            "group": self.group,
            "points": [p.id for p in self.points],
            "rtt_ms": [p.setup.rtt_s * 1e3 for p in self.points],
            "plain_stream": self.is_stream,
            "bound": [list(pair) for pair in self.bound()],
        }


def distance_factor(points: Sequence[VmsPoint]) -> str | None:
    """The factor that changes the distance: points that differ only in this factor have different
    round-trip times. None if there is no such factor.
    """
    for factor in dict.fromkeys(f for p in points for f in p.factors):
        by_rest: dict[Any, set[float]] = {}
        for point in points:
            if factor in point.factors:
                rest = tuple((f, str(v)) for f, v in point.factors.items() if f != factor)
                by_rest.setdefault(rest, set()).add(point.setup.rtt_s)
        if any(len(distances) > 1 for distances in by_rest.values()):
            return factor
    return None


def curves_of(points: Sequence[VmsPoint]) -> list[Curve]:
    """Every curve with two or more points, in the order of the study."""
    over = distance_factor(points)
    if over is None:
        return []
    groups: dict[tuple[Any, ...], list[VmsPoint]] = {}
    for point in points:
        if over in point.factors:
            rest = tuple((f, str(v)) for f, v in point.factors.items() if f != over)
            groups.setdefault(rest, []).append(point)
    curves = [_curve(over, members) for members in groups.values() if len(members) > 1]
    return _with_names(curves)


def _curve(over: str, points: list[VmsPoint]) -> Curve:
    where = {f: v for f, v in points[0].factors.items() if f != over}
    group = {f: v for f, v in where.items() if f in SHARED} | {"factors": sorted(where)}
    return Curve(over, where, where, group, tuple(sorted(points, key=lambda p: p.setup.rtt_s)))


def _with_names(curves: list[Curve]) -> list[Curve]:
    """The curves, each named after the levels in which the curves of its group differ. A single
    curve is named after all its levels except the shared factors.
    """
    named = []
    for curve in curves:
        others = [c for c in curves if c.group == curve.group]
        varied = [f for f in curve.where if len({str(c.where[f]) for c in others}) > 1]
        name = {f: curve.where[f] for f in varied} or {f: v for f, v in curve.where.items() if f not in SHARED}
        named.append(Curve(curve.over, curve.where, name, curve.group, curve.points))
    return named
