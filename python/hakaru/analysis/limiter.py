"""What gave out first along a sweep, named from measured utilisation, or `undetermined` with the reason.

The rule (docs/methodology/limiter.md). A resource is at its limit at 95 % (drives: the busiest at 98 %; a process of
ours: 90 % of a CPU). Looked at first are the points up to the end of the range within 5 % of the peak. Among devices
and links at their limit there, the one that came to it at the lowest level is named; of equals, the one furthest over
its limit at the peak. The tool's own CPU or the machine's is named only if no device or link came to its limit by
then: the number then says something about the tester. If nothing came to its limit by the peak, the rest of the sweep
is looked at, for devices and links alone.
"""

from __future__ import annotations

import math

from hakaru.analysis.points import Point
from hakaru.analysis.sweep import Sweep
from hakaru.analysis.verdict import UNDETERMINED, Verdict

DEFAULT_LIMIT = 95.0
LIMITS = {"drives": 98.0, "cpu/initiator": 90.0, "cpu/backup": 90.0, "cpu/array": 90.0, "cpu/fabric": 90.0}
IGNORED = ("drives_average", "group/")
OWN = ("cpu/initiator", "cpu/backup", "cpu/array", "cpu/fabric", "cpu/machine")


def limit_of(resource: str) -> float:
    """Percent from which a resource is at its limit."""
    return LIMITS.get(resource) or LIMITS.get(resource.partition("/")[0], DEFAULT_LIMIT)


def kind_of(resource: str) -> str:
    """The word that expectations use for a resource."""
    own = {"cpu/initiator": "generator_cpu", "cpu/backup": "generator_cpu", "cpu/array": "array_cpu"}
    own |= {"cpu/machine": "machine_cpu", "cpu/fabric": "fabric"}
    return own.get(resource) or resource.partition("/")[0]


def judge(sweep: Sweep) -> Verdict:
    """What gave out first in this sweep."""
    peak, near = sweep.peak(), sweep.near_peak()
    if peak is None:
        return Verdict(UNDETERMINED, None, {"reason": "no_points"})
    at_peak = _watched(peak)
    devices, own = [r for r in at_peak if r not in OWN], [r for r in at_peak if r in OWN]
    last = sweep.level(near[-1])
    found = _earliest(sweep, devices, last, at_peak) or _earliest(sweep, own, last, at_peak)
    found = found or _earliest(sweep, devices, math.inf, at_peak)
    if found is None:
        busiest = max(at_peak, key=lambda r: at_peak[r] / limit_of(r), default=None)
        reason = "none_at_limit" if devices else "not_watched"
        return Verdict(UNDETERMINED, None, {"reason": reason, "at_peak": at_peak, "busiest": busiest})
    resource, level = found
    evidence = {
        "resource": resource,
        "limit_percent": limit_of(resource),
        "at_peak_percent": at_peak[resource],
        "reached_at": level,
        "member": peak.members.get(resource),
        "at_peak": at_peak,
        "by_level": {_plain(sweep.level(p)): p.percent(resource) for p in sweep.points},
        "others_percent": {r: u for r, u in at_peak.items() if r != resource},
    }
    return Verdict(kind_of(resource), resource, evidence)


def judge_point(point: Point) -> Verdict:
    """What is at its limit at one point: a device or link before our own CPU, of several the one furthest over."""
    if point.verdict is not None:
        return point.verdict
    use = _watched(point)
    full = [r for r in use if use[r] >= limit_of(r)]
    chosen = [r for r in full if r not in OWN] or full
    if not chosen:
        return Verdict(UNDETERMINED, None, {"reason": "none_at_limit" if use else "not_watched", "at_peak": use})
    resource = max(chosen, key=lambda r: use[r] / limit_of(r))
    return Verdict(
        kind_of(resource), resource, {"resource": resource, "at_peak": use, "at_peak_percent": use[resource]}
    )


def _watched(point: Point) -> dict[str, float]:
    """Resource → percent, without those that only sum others up."""
    return {r: p for r in point.utilisation if not r.startswith(IGNORED) and (p := point.percent(r)) is not None}


def _earliest(
    sweep: Sweep, resources: list[str], last_level: float, at_peak: dict[str, float]
) -> tuple[str, float] | None:
    """The resource that came to its limit at the lowest level up to `last_level`, and that level."""
    reached = []
    for resource in resources:
        for point in sweep.points:
            percent = point.percent(resource)
            if sweep.level(point) <= last_level and percent is not None and percent >= limit_of(resource):
                reached.append((sweep.level(point), -at_peak[resource] / limit_of(resource), resource))
                break
    if not reached:
        return None
    level, _, resource = min(reached)
    return resource, level


def _plain(level: float) -> str:
    return str(int(level)) if level == int(level) else str(level)


__all__ = ["UNDETERMINED", "Verdict", "judge", "judge_point", "kind_of", "limit_of"]
