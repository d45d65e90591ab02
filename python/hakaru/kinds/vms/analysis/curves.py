"""Curves of a load over round-trip times: points that differ in the distance alone, and groups of
such curves.

The factor that changes the distance is found by what it does (it changes the delay of links), not
by its name. Curves whose points have the same factors, pattern and number of VMs stand in one
group, told apart by what is left: the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hakaru.analysis.bounds import bounds
from hakaru.kinds.vms.analysis.points import VmsPoint

STEPS = 40
SHARED = ("pattern", "vms")
"""Factors in which the curves of a group are alike."""


@dataclass(frozen=True)
class Curve:
    """Points that differ in the distance, the nearest first.

    `name`: the levels that tell it from the others of its group.
    """

    over: str
    where: dict[str, Any]
    name: dict[str, Any]
    group: dict[str, Any]
    points: tuple[VmsPoint, ...]

    def at(self, rtt_s: float) -> VmsPoint | None:
        """The point at this distance."""
        return next((p for p in self.points if abs(p.setup.rtt_s - rtt_s) < 1e-9), None)

    def bound(self) -> list[tuple[float, float]]:
        """Round-trip time in ms and the lowest bound in MB/s, at closer distances than there are
        points.
        """
        setup = self.points[-1].setup
        exchange, path, farthest = setup.exchange, setup.path, setup.rtt_s
        if exchange is None or path is None:
            return []
        nearest = self.points[0].setup.rtt_s
        found = []
        for step in range(STEPS + 1):
            # Closer together where the distance is short: there bounds bend.
            rtt = nearest + (farthest - nearest) * (step / STEPS) ** 2
            lowest = bounds(replace(path, rtt_s=rtt), exchange, setup.window_bytes(exchange.op), setup.vms)
            if lowest:
                found.append((rtt * 1e3, lowest[0].bytes_per_s / 1e6))
        return found

    def to_json(self) -> dict[str, Any]:
        """One element of `curves` of the report."""
        return {
            "over": self.over,
            "where": self.where,
            "name": self.name,
            "group": self.group,
            "points": [p.id for p in self.points],
            "rtt_ms": [p.setup.rtt_s * 1e3 for p in self.points],
            "bound": [list(pair) for pair in self.bound()],
        }


def distance_factor(points: Sequence[VmsPoint]) -> str | None:
    """The factor that changes the distance: two points that differ in it alone differ in their
    round-trip time.
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
    """Every curve of two distances or more, in the order of the study."""
    over = distance_factor(points)
    if over is None:
        return []
    groups: dict[tuple[Any, ...], list[VmsPoint]] = {}
    for point in points:
        if over in point.factors:
            rest = tuple((f, str(v)) for f, v in point.factors.items() if f != over)
            groups.setdefault(rest, []).append(point)
    found = [_curve(over, of_one) for of_one in groups.values() if len(of_one) > 1]
    return _named(found)


def _curve(over: str, points: list[VmsPoint]) -> Curve:
    where = {f: v for f, v in points[0].factors.items() if f != over}
    group = {f: v for f, v in where.items() if f in SHARED} | {"factors": sorted(where)}
    return Curve(over, where, where, group, tuple(sorted(points, key=lambda p: p.setup.rtt_s)))


def _named(curves: list[Curve]) -> list[Curve]:
    """With the levels in which the curves of a group differ as their names; all levels where there
    is one curve.
    """
    named = []
    for curve in curves:
        others = [c for c in curves if c.group == curve.group]
        varied = [f for f in curve.where if len({str(c.where[f]) for c in others}) > 1]
        name = {f: curve.where[f] for f in varied} or {f: v for f, v in curve.where.items() if f not in SHARED}
        named.append(Curve(curve.over, curve.where, name, curve.group, curve.points))
    return named
