"""What limits a load over a distance at one point, from counters and closed forms, or `undetermined` with the reason.

Looked at in this order (docs/methodology/limiter.md); the first that holds is named:

    fabric             the emulated network itself: it lost packets outside of its model that count beside those it
                       dropped in it, or its busiest thread is at its limit, frames came late and the load stays under
                       95 % of its lowest bound
    link               the narrowest link of the data's way is busy 90 % of the time
    array              a device of the array's timing model is at its limit
    congestion_window  TCP sent again in the measuring phase, and the path held it back for most of the unused time
    receive_window     the kernel's clock: stalled by the peer's window for at least half of the unused time
    send_buffer        the kernel's clock: stalled by the own send buffer for at least half of the unused time
    r2t_turns, depth   the load does 85 % of what commands, round trips and transfer let it do at most: `r2t_turns`
                       where a command waits for R2Ts, `depth` where it has none and too few are outstanding
    slow_start         nothing was sent again, and the congestion window still grew by a fifth from the first third of
                       the measuring phase to the last
    generator_cpu, array_cpu, machine_cpu   a processor

*Unused* is the time in which the narrowest link sent nothing.
"""

from __future__ import annotations

from typing import Any

from hakaru import lost_packets
from hakaru.analysis.distance.bounds import Bound
from hakaru.analysis.distance.setup import Setup
from hakaru.analysis.emulated import fell_behind
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.limiter import IGNORED, OWN, kind_of, limit_of
from hakaru.analysis.verdict import UNDETERMINED, Verdict

FULL_PERCENT = 90.0
EXPLAINS = 0.5
"""Share of the unused time from which a stall is its reason."""
WIDE = 3.0
"""A congestion window that would carry so many times what was reached holds nothing back, unless timers ran."""
NEAR_BOUND = 0.85
AT_BOUND_PERCENT = 95.0
"""From here on the bound says why, whatever else is busy."""
GROWTH = 1.2
"""Congestion window at the end over that at the begin, from which slow start (or its successor) is still under way."""

Means = dict[str, float]
Found = tuple[str, str | None] | None


def judge(
    setup: Setup,
    metrics: dict[str, Estimate],
    use: dict[str, Estimate],
    bounds: list[Bound],
    *,
    lost: float,
    late_us: float | None,
    growth: float | None,
) -> Verdict:
    """What gave out. `lost`: packets that the fabric lost outside of its model; `growth`: of the congestion window.

    `late_us`: 99th percentile of how late the fabric moved frames.
    """
    means = {n: e.mean for n, e in metrics.items() if e.mean is not None}
    used = {n: e.mean for n, e in use.items() if e.mean is not None and not n.startswith(IGNORED)}
    if "mb_per_s" not in means:
        return Verdict(UNDETERMINED, None, {"reason": "no_value"})
    evidence = _evidence(setup, means, used, bounds, lost, growth)
    found = (
        _fabric(used, means, lost, late_us)
        or _link(setup, means, used)
        or _array(used)
        or _lossy(means, evidence)
        or _stalled(means, evidence)
        or _turns(setup, means, bounds)
        or _slow_start(means, growth)
        or _processor(used)
    )
    if found is None:
        busiest = max(used, key=lambda r: used[r] / limit_of(r), default=None)
        return Verdict(UNDETERMINED, None, evidence | {"reason": "none_at_limit", "busiest": busiest})
    limiter, resource = found
    return Verdict(limiter, resource, evidence | {"resource": resource, "at_peak_percent": used.get(resource or "")})


def _evidence(
    setup: Setup, means: Means, used: Means, bounds: list[Bound], lost: float, growth: float | None
) -> dict[str, Any]:
    busy = means.get("link_busy_percent")
    return {
        "at_peak": used,
        "lost_outside": lost,
        "op": setup.exchange.op if setup.exchange else None,
        "rtt_ms": setup.path.rtt_s * 1e3,
        "unused_percent": max(0.0, 100 - busy) if busy is not None else None,
        "window_growth": growth,
        "window_bytes": setup.window_bytes,
        "send_buffer_bytes": setup.send_buffer_bytes,
        "receive_buffer_bytes": setup.receive_buffer_bytes,
        "bounds": [{"bound": b.name, "mb_per_s": b.bytes_per_s / 1e6, **b.numbers} for b in bounds],
        **{name: means.get(name) for name in _TOLD},
    }


_TOLD = (
    "mb_per_s",
    "payload_percent",
    "bound_mb_per_s",
    "bound_share_percent",
    "r2ts_per_command",
    "wait_r2t_percent",
    "tcp_idle_percent",
    "tcp_receive_window_percent",
    "tcp_send_buffer_percent",
    "tcp_path_percent",
    "congestion_window_mb_mean",
    "in_flight_mb_max",
    "retransmitted_percent",
    "timeouts",
    "timeout_wait_s",
    "dropped_frames",
    "link_busy_percent",
)


def _fabric(used: Means, means: Means, lost: float, late_us: float | None) -> Found:
    if lost > 0 and not lost_packets.few(lost, means.get("dropped_frames", 0.0)):
        return "fabric", None
    full = fell_behind(used.get("cpu/fabric", 0.0), late_us)
    return ("fabric", "cpu/fabric") if full and means.get("bound_share_percent", 0.0) < AT_BOUND_PERCENT else None


def _link(setup: Setup, means: Means, used: Means) -> Found:
    if means.get("link_busy_percent", 0.0) < FULL_PERCENT:
        return None
    # Hosts that share a link may fill it before each has filled its own, which is as narrow.
    of_hops = [f"link/{h.link}/{h.source}>{h.target}" for h in setup.hops]
    busiest = max((name for name in of_hops if name in used), key=lambda name: used[name], default=None)
    if busiest is not None:
        return "link", busiest
    narrow = min((h for h in setup.hops if h.rate_bits_per_s), key=lambda h: h.rate_bits_per_s or 0.0, default=None)
    return "link", f"link/{narrow.link}/{narrow.source}>{narrow.target}" if narrow else None


def _array(used: Means) -> Found:
    full = [r for r in used if r not in OWN and not r.startswith("link/") and used[r] >= limit_of(r)]
    return ("array", max(full, key=lambda r: used[r] / limit_of(r))) if full else None


def _lossy(means: Means, evidence: dict[str, Any]) -> Found:
    """After losses the window is small, and it is the path that TCP waits for."""
    unused = evidence["unused_percent"]
    if not means.get("retransmitted_percent") or unused is None:
        return None
    window, rtt_ms = means.get("congestion_window_mb_mean"), evidence["rtt_ms"]
    if window and rtt_ms and not means.get("timeouts") and window / rtt_ms * 1e3 > WIDE * means["mb_per_s"]:
        return None
    held = means.get("tcp_path_percent", 0.0) - (100 - unused)
    return ("congestion_window", None) if held >= EXPLAINS * unused else None


def _stalled(means: Means, evidence: dict[str, Any]) -> Found:
    unused = evidence["unused_percent"]
    if unused is None:
        return None
    stalls = {n: means.get(f"tcp_{n}_percent", 0.0) for n in ("receive_window", "send_buffer")}
    worst = max(stalls, key=lambda n: stalls[n])
    return (worst, None) if stalls[worst] > 0 and stalls[worst] >= EXPLAINS * unused else None


def _turns(setup: Setup, means: Means, bounds: list[Bound]) -> Found:
    """Commands, round trips and transfer account for the rate, and so many R2Ts were counted as they take."""
    bound = next((b for b in bounds if b.name == "turns"), None)
    if bound is None or setup.path.rtt_s <= 0 or means["mb_per_s"] * 1e6 < NEAR_BOUND * bound.bytes_per_s:
        return None
    counted = means.get("r2ts_per_command")
    r2ts = bound.numbers["r2ts"]
    if counted is not None and abs(counted - r2ts) > 0.1 * max(1, r2ts):
        return None
    return ("r2t_turns" if r2ts else "depth"), None


def _slow_start(means: Means, growth: float | None) -> Found:
    grows = growth is not None and growth >= GROWTH and not means.get("retransmitted_percent")
    return ("slow_start", None) if grows else None


def _processor(used: Means) -> Found:
    full = [r for r in OWN if used.get(r, 0.0) >= limit_of(r)]
    return (kind_of(full[0]), full[0]) if full else None
