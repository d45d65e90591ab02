"""The bottleneck of a sweep: the resource that reached its limit first as the load grew, from the
verdicts of its points.

The rule (docs/methodology/limiter.md) examines the points up to the end of the range within 5 % of
the peak. Of the devices and links at their limit there, it names the one that reached it at the
lowest level; in a tie, the one closest to its limit at the peak. If there is none, it takes the
verdict of the peak: a stall, R2Ts, the test setup. If the peak has none either, it examines the
rest of the sweep for devices and links alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.points import Point
from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import Stages, all_holding
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.rules.rule import UNDETERMINED, Verdict
from hakaru.analysis.sweep import Sweep


@dataclass(frozen=True)
class SweepVerdict:
    """The verdict of a sweep. `reached_at`: the lowest level at which its rule holds; None where
    undetermined.
    """

    verdict: Verdict
    evidence: Evidence
    """Of the peak."""
    reached_at: float | None
    by_level: dict[str, float | None]
    """Level → use of the resource there."""
    member: str | None = None

    @property
    def limiter(self) -> str:
        """The rule's name, or `undetermined`."""
        return self.verdict.limiter

    @property
    def resource(self) -> str | None:
        """The resource, where the bottleneck is one."""
        return self.verdict.resource

    def to_json(self) -> dict[str, Any]:
        """The evidence of the finding."""
        resource = self.resource
        used = self.evidence.used
        found = {
            "resource": resource,
            "limit_percent": limit_of(resource) if resource else None,
            "at_peak_percent": used.get(resource) if resource else None,
            "reached_at": self.reached_at,
            "member": self.member,
            "by_level": self.by_level,
            "others_percent": {r: p for r, p in used.items() if r != resource},
        }
        reason = {"reason": self.verdict.values["reason"]} if self.limiter == UNDETERMINED else {}
        return self.evidence.to_json() | found | reason


def judge_sweep(stages: Stages, sweep: Sweep) -> SweepVerdict:
    """Return the resource that limits this sweep first, with its evidence."""
    peak, near = sweep.peak(), sweep.near_peak()
    if peak is None:
        return SweepVerdict(Verdict(UNDETERMINED, values={"reason": "no_points"}), Evidence(None, {}), None, {})
    last = sweep.level(near[-1])
    # The emulated network itself comes before all else, as at a point: what it does to a number, no
    # other rule knows.
    test_setup = peak.verdict if peak.verdict.limiter == "fabric" else None
    capacity = None if test_setup else _earliest(stages, sweep, peak, last)
    verdict = test_setup or capacity or (peak.verdict if peak.verdict.limiter != UNDETERMINED else None)
    verdict = verdict or _earliest(stages, sweep, peak, math.inf) or peak.verdict
    resource = verdict.resource
    at_peak = _at(stages, peak, verdict)
    return SweepVerdict(
        at_peak,
        peak.evidence,
        _reached(stages, sweep, verdict.limiter),
        {_plain(sweep.level(p)): p.percent(resource) for p in sweep.points} if resource else {},
        peak.members.get(resource) if resource else None,
    )


def _earliest(stages: Stages, sweep: Sweep, peak: Point, last_level: float) -> Verdict | None:
    """The device or link that came to its limit at the lowest level up to `last_level`."""
    reached: list[tuple[float, float, int, Verdict]] = []
    for point in sweep.points:
        if sweep.level(point) > last_level:
            continue
        for place, verdict in enumerate(all_holding(stages, point.evidence)):
            known = {v.limiter for _, _, _, v in reached}
            if verdict.rule is not None and verdict.rule.is_capacity and verdict.limiter not in known:
                reached.append((sweep.level(point), -_at(stages, peak, verdict).fill, place, verdict))
    return min(reached, key=lambda each: each[:3])[3] if reached else None


def _at(stages: Stages, peak: Point, verdict: Verdict) -> Verdict:
    """The same rule at the peak; where it does not hold there, the verdict with the use that its
    resource has there.
    """
    for other in all_holding(stages, peak.evidence):
        if other.limiter == verdict.limiter:
            return other
    percent = peak.percent(verdict.resource) if verdict.resource else None
    if verdict.limiter == UNDETERMINED or percent is None:
        return verdict
    return Verdict(verdict.limiter, verdict.resource, percent, -1.0, verdict.values, verdict.rule)


def _reached(stages: Stages, sweep: Sweep, limiter: str) -> float | None:
    """The lowest level at which a rule holds."""
    levels = [sweep.level(p) for p in sweep.points if limiter in {v.limiter for v in all_holding(stages, p.evidence)}]
    return min(levels, default=None)


def _plain(level: float) -> str:
    return str(int(level)) if level == int(level) else str(level)
