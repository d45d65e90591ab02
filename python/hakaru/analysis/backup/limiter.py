"""What limits a copy at one point, from counters, or `undetermined` with the reason (docs/methodology/limiter.md).

Looked at in this order; the first that holds is named:

    fabric         the emulated network itself: its busiest thread is at its limit and frames came late, or it lost more
                   packets outside of its model than it dropped in it
    link           a hop of the data's way is full: busy 90 % of the time (a copy's begin and end are part of it)
    rate_limit     the jobs or the hosts' own ports are at the rate that they were held to, 90 % of it
    drives, controller, port   of the source's or the destination's array, at their limit as for any load
    congestion_marks  a port that is not full marks frames (ECN), ten for each that it drops, and TCP sends less
    switch_buffer  a port that is not full drops frames, and TCP sends them again
    generator_cpu, array_cpu, machine_cpu   a processor; the machine's also where nothing is busier and processes waited
                   for a processor at least half of the time, as the kernel's pressure clock says
    depth          nothing is at its limit, and the blocks that may be under way, each as long as it took, make the rate
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis.backup.hops import Passage
from hakaru.analysis.backup.setup import Setup
from hakaru.analysis.emulated import fell_behind
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.limiter import IGNORED, OWN, kind_of, limit_of
from hakaru.analysis.network import Hop
from hakaru.analysis.verdict import UNDETERMINED, Verdict

FULL_PERCENT = 90.0
WAITED_PERCENT = 50.0
"""Of the time, with some process waiting for a processor: of two processors, about what 80 % busy makes (M/M/2)."""
LITTLE_MAX = 0.1
MARKS_PER_DROP = 10
MACHINE = "cpu/machine"
Means = dict[str, float]


def judge(
    setup: Setup,
    metrics: dict[str, Estimate],
    use: dict[str, Estimate],
    way: list[Passage],
    *,
    lost: float,
    late_us: float | None,
) -> Verdict:
    """What gave out. `lost`: packets that the fabric lost outside of its model, mean over repetitions.

    `late_us`: 99th percentile of how late it moved frames.
    """
    means = {n: e.mean for n, e in metrics.items() if e.mean is not None}
    used = {n: e.mean for n, e in use.items() if e.mean is not None and not n.startswith(IGNORED)}
    if "mb_per_s" not in means:
        return Verdict(UNDETERMINED, None, {"reason": "no_value"})
    evidence = _evidence(setup, means, used, way, lost)
    found = (
        _fabric(used, way, lost, late_us)
        or _link(used, way)
        or _held(setup, means, used, way)
        or _device(used)
        or _marks(evidence)
        or _buffer(evidence)
        or _processor(used, means)
        or _depth(setup, means)
    )
    if found is None:
        reason = "none_at_limit" if used else "not_watched"
        return Verdict(UNDETERMINED, None, evidence | {"reason": reason})
    limiter, resource = found
    return Verdict(limiter, resource, evidence | {"resource": resource, "at_peak_percent": used.get(resource or "")})


def _evidence(setup: Setup, means: Means, used: Means, way: list[Passage], lost: float) -> dict[str, Any]:
    """The arithmetic: what was dropped where, what waiting it cost, and how much of the path stayed unused."""
    data = [p for p in way if p.carries == "data"]
    worst = max(data, key=lambda p: _dropped(p) + p.mean("marked"), default=None)
    found: dict[str, Any] = {"at_peak": used, "lost_outside": lost, "jobs": setup.jobs, "streams": setup.streams}
    found |= {"depth": setup.depth, "block_bytes": setup.block_bytes, "busiest": _busiest(used)}
    for name in (
        "mb_per_s",
        "read_latency_ms_mean",
        "write_latency_ms_mean",
        "cpu_wait_percent",
        "path_percent",
        "timeouts",
        "timeout_wait_s",
        "timeout_wait_percent",
        "retransmitted_percent",
    ):
        found[name] = means.get(name)
    found["unused_percent"] = max(0.0, 100 - means["path_percent"]) if "path_percent" in means else None
    found["dropped"] = sum(p.mean("dropped") for p in way)
    if worst is not None:
        at_worst = _dropped(worst)
        found |= {
            "port": {"link": worst.hop.link, "from": worst.hop.source, "to": worst.hop.target, "leg": worst.leg},
            "port_rate_bits_per_s": worst.hop.rate_bits_per_s,
            "port_queue_bytes": worst.hop.queue_bytes,
            "port_queue_peak_bytes": worst.mean("queue_peak_bytes"),
            "port_frames": worst.mean("frames_in"),
            "port_dropped": at_worst,
            "port_marked": worst.mean("marked"),
            "dropped_elsewhere": found["dropped"] - at_worst,
            "sender_rate_bits_per_s": setup.fastest_before,
        }
    return found


def _dropped(passage: Passage) -> float:
    return passage.mean("dropped_buffer") + passage.mean("dropped_early")


Found = tuple[str, str | None] | None


def _fabric(used: Means, way: list[Passage], lost: float, late_us: float | None) -> Found:
    if fell_behind(used.get("cpu/fabric", 0.0), late_us):
        return "fabric", "cpu/fabric"
    return ("fabric", None) if lost > sum(p.mean("dropped") for p in way) else None


def _link(used: Means, way: list[Passage]) -> Found:
    """A hop that is full; not one that is full since its node is held to less than the link carries."""
    held = {_resource(p.hop) for p in way if p.carries == "data" and p.hop.held_bits_per_s is not None}
    full = [r for r in used if r.startswith("link/") and r not in held and used[r] >= FULL_PERCENT]
    return ("link", max(full, key=lambda r: used[r])) if full else None


def _held(setup: Setup, means: Means, used: Means, way: list[Passage]) -> Found:
    """The rate that the study asked for is reached. The fabric sends at what a node is held to: busy is of that."""
    asked = setup.rate_limit_bytes_per_s
    if asked and means["mb_per_s"] * 1e6 >= FULL_PERCENT / 100 * asked * setup.jobs:
        return "rate_limit", None
    held = [_resource(p.hop) for p in way if p.carries == "data" and p.hop.held_bits_per_s is not None]
    full = [r for r in held if used.get(r, 0.0) >= FULL_PERCENT]
    return ("rate_limit", full[0]) if full else None


def _resource(hop: Hop) -> str:
    return f"link/{hop.link}/{hop.source}>{hop.target}"


def _device(used: Means) -> Found:
    full = [r for r in used if r not in OWN and not r.startswith("link/") and used[r] >= limit_of(r)]
    if not full:
        return None
    resource = max(full, key=lambda r: used[r] / limit_of(r))
    return kind_of(resource), resource


def _marks(evidence: dict[str, Any]) -> Found:
    """Not where waiting for timers explains most of what stayed unused: then it is what was dropped all the same."""
    marked = evidence.get("port_marked", 0.0)
    waits = (evidence["timeout_wait_percent"] or 0.0) >= (evidence["unused_percent"] or 0.0) / 2
    waits = waits and (evidence["timeouts"] or 0.0) > 0
    found = marked > 0 and marked >= MARKS_PER_DROP * evidence["port_dropped"] and not waits
    return ("congestion_marks", None) if found else None


def _buffer(evidence: dict[str, Any]) -> Found:
    again = (evidence["retransmitted_percent"] or 0.0) > 0 or (evidence["timeouts"] or 0.0) > 0
    return ("switch_buffer", None) if evidence.get("port_dropped", 0.0) > 0 and again else None


def _processor(used: Means, means: Means) -> Found:
    full = [r for r in OWN if used.get(r, 0.0) >= limit_of(r)]
    if full:
        return kind_of(full[0]), full[0]
    waits = _busiest(used) == MACHINE and means.get("cpu_wait_percent", 0.0) >= WAITED_PERCENT
    return (kind_of(MACHINE), MACHINE) if waits else None


def _busiest(used: Means) -> str | None:
    """What is nearest to its limit."""
    return max(used, key=lambda r: used[r] / limit_of(r), default=None)


def _depth(setup: Setup, means: Means) -> Found:
    """Little's law: the rate is what may be outstanding over the time of a block; only these two can change it then."""
    cycle_ms = means.get("read_latency_ms_mean", 0.0) + means.get("write_latency_ms_mean", 0.0)
    if not setup.outstanding_bytes or cycle_ms <= 0 or "wall_mb_per_s" not in means:
        return None
    makes = setup.outstanding_bytes / (cycle_ms / 1e3)
    return ("depth", None) if abs(means["wall_mb_per_s"] * 1e6 / makes - 1) <= LITTLE_MAX else None
