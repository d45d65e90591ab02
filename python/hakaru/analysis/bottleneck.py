"""The bottleneck of a sweep: the resource that reached its limit first as the load grew, determined
from the verdicts on its points.

The rule (docs/methodology/limiter.md) examines the points within 5 % of the peak. Of the devices
and links at their limit there, it names the one that reached it at the lowest level and stayed at
it; in a tie, the one closest to its limit at the peak. One that was at its limit only below this
range does not limit the peak: a link that is full with one VM is not with several, if they use
others as well. If there is none, it takes the verdict of the peak: a stall, R2Ts, the test setup.
If the peak has none either, it examines the rest of the sweep for devices and links alone.
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
    """The verdict on a sweep. `reached_at`: the lowest level from which on the rule holds up to the
    peak's range; None if undetermined.
    """

    verdict: Verdict
    evidence: Evidence
    """Evidence at the peak."""
    reached_at: float | None
    by_level: dict[str, float | None]
    """Level → utilisation of the resource at that level, percent."""
    member: str | None = None

    @property
    def limiter(self) -> str:
        """The rule's name, or `undetermined`."""
        return self.verdict.limiter

    @property
    def resource(self) -> str | None:
        """The resource; None if the bottleneck is not a resource."""
        return self.verdict.resource

    def to_json(self) -> dict[str, Any]:
        """Evidence of the finding, as plain JSON."""
        resource = self.resource
        used = self.evidence.used
        at_sweep = {
            "resource": resource,
            "limit_percent": limit_of(resource) if resource else None,
            "at_peak_percent": used.get(resource) if resource else None,
            "reached_at": self.reached_at,
            "member": self.member,
            "by_level": self.by_level,
            "others_percent": {r: p for r, p in used.items() if r != resource},
        }
        reason = {"reason": self.verdict.values["reason"]} if self.limiter == UNDETERMINED else {}
        return self.evidence.to_json() | at_sweep | reason


def judge_peak(sweep: Sweep) -> SweepVerdict:
    """Return the verdict on the peak of a sweep along which something else than the load grows: a
    link that is full with one path, or with small frames, need not be the bottleneck with others.
    """
    peak = sweep.peak()
    if peak is None:
        return SweepVerdict(Verdict(UNDETERMINED, values={"reason": "no_points"}), Evidence(None, {}), None, {})
    resource = peak.verdict.resource
    by_level = {_level_text(sweep.level(p)): p.percent(resource) for p in sweep.points} if resource else {}
    member = peak.members.get(resource) if resource else None
    return SweepVerdict(peak.verdict, peak.evidence, sweep.level(peak), by_level, member)


def judge_sweep(stages: Stages, sweep: Sweep) -> SweepVerdict:
    """Return the resource that limits this sweep first, with its evidence. The load grows along the
    sweep; `judge_peak` is for others.
    """
    peak, near = sweep.peak(), sweep.near_peak()
    if peak is None:
        return SweepVerdict(Verdict(UNDETERMINED, values={"reason": "no_points"}), Evidence(None, {}), None, {})
    first, last = sweep.level(near[0]), sweep.level(near[-1])
    # As at a point, the emulated network comes first, because no other rule accounts for its effect
    # on a number.
    test_setup = peak.verdict if peak.verdict.limiter == "fabric" else None
    capacity = None if test_setup else _earliest(stages, sweep, peak, first, last)
    verdict = test_setup or capacity or (peak.verdict if peak.verdict.limiter != UNDETERMINED else None)
    verdict = verdict or _earliest(stages, sweep, peak, first, math.inf) or peak.verdict
    resource = verdict.resource
    at_peak = _at_peak(stages, peak, verdict)
    reached_at = _reached_level(stages, sweep, verdict, first, last)
    if reached_at is None:  # a device or link that reaches its limit as the rate falls
        reached_at = _reached_level(stages, sweep, verdict, first, math.inf)
    return SweepVerdict(
        at_peak,
        peak.evidence,
        reached_at,
        {_level_text(sweep.level(p)): p.percent(resource) for p in sweep.points} if resource else {},
        peak.members.get(resource) if resource else None,
    )


def _earliest(stages: Stages, sweep: Sweep, peak: Point, first: float, last: float) -> Verdict | None:
    """The verdict on the device or link that reached its limit at the lowest level, of those at
    their limit at a level from `first` to `last`.
    """
    inside = [point for point in sweep.points if first <= sweep.level(point) <= last]
    limiting: dict[tuple[str, str | None], tuple[int, Verdict]] = {}
    for point in inside:
        for place, verdict in enumerate(all_holding(stages, point.evidence)):
            if verdict.rule is not None and verdict.rule.is_capacity:
                limiting.setdefault(_what(verdict), (place, verdict))
    reached = [
        (level, -_at_peak(stages, peak, verdict).fill, place, verdict)
        for place, verdict in limiting.values()
        if (level := _reached_level(stages, sweep, verdict, first, last)) is not None
    ]
    return min(reached, key=lambda entry: entry[:3])[3] if reached else None


def _what(verdict: Verdict) -> tuple[str, str | None]:
    """The bottleneck that a verdict names. Links and ports share a rule, but each is one of its
    own.
    """
    return verdict.limiter, verdict.resource


def _at_peak(stages: Stages, peak: Point, verdict: Verdict) -> Verdict:
    """The verdict on the same resource at the peak. If its rule does not hold there, the given
    verdict with the utilisation of its resource at the peak.
    """
    for other in all_holding(stages, peak.evidence):
        if _what(other) == _what(verdict):
            return other
    percent = peak.percent(verdict.resource) if verdict.resource else None
    if verdict.limiter == UNDETERMINED or percent is None:
        return verdict
    return Verdict(verdict.limiter, verdict.resource, percent, -1.0, verdict.values, verdict.rule)


def _reached_level(stages: Stages, sweep: Sweep, verdict: Verdict, first: float, last: float) -> float | None:
    """The level at which the resource of a verdict reached its limit: the lowest one of the
    consecutive levels at which its rule holds, of which one is from `first` to `last`. None if the
    rule holds at none of these. A resource that was at its limit at a lower level, and then was
    not, has not reached it there. A rule names the fullest of several links, so another one that is
    at its limit counts, too.
    """
    resource = verdict.resource

    def holds(point: Point) -> bool:
        named = [v.resource for v in all_holding(stages, point.evidence) if v.limiter == verdict.limiter]
        if resource is None or resource in named:
            return bool(named)
        return bool(named) and point.evidence.used.get(resource, 0.0) >= limit_of(resource)

    reached: float | None = None
    for point in (p for p in sweep.points if p.evidence.mb_per_s is not None):
        level = sweep.level(point)
        if not holds(point):
            reached = None
            continue
        reached = level if reached is None else reached
        if first <= level <= last:
            return reached
    return None


def _level_text(level: float) -> str:
    return str(int(level)) if level == int(level) else str(level)
