"""What one repetition of a load over a distance gave beside its rates: where its commands and its TCP spent time.

**Phases** (of the initiator, docs/reference/metrics.md): every instant of a command belongs to one, so the shares add
up to 100 % of the time of commands. **TCP** of whoever sends the data: idle, stalled by the receive window, stalled by
the send buffer, and the rest of the time with something to send or to be acknowledged, which the path and the
congestion window take. Those shares are of the measuring phase and add up to 100 %, too; of several sessions, means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hakaru.analysis.backup import hops
from hakaru.analysis.backup.copies import TIMER_LEAST_S
from hakaru.analysis.counters import Series
from hakaru.analysis.distance.setup import Setup
from hakaru.analysis.run_data import Repetition

NAN = float("nan")

PHASES = (
    "command_wait",
    "wait_r2t",
    "r2t_to_data",
    "write_data_transfer",
    "write_data_to_response",
    "command_to_data",
    "read_data_transfer",
    "read_data_to_response",
)
"""In the order in which a command passes through them: of both, of writes, of reads."""
SHARES = ("idle", "receive_window", "send_buffer", "path")
"""TCP's, of the sender of the data."""

UNITS: dict[str, str] = {
    "payload_percent": "percent",
    "bound_mb_per_s": "MB/s",
    "bound_share_percent": "percent",
    "r2ts_per_command": "R2Ts",
    "command_ms_mean": "ms",
    **{f"{phase}_percent": "percent" for phase in PHASES},
    **{f"tcp_{share}_percent": "percent" for share in SHARES},
    "congestion_window_mb_mean": "MB",
    "in_flight_mb_max": "MB",
    "retransmitted_percent": "percent",
    "timeouts": "timeouts",
    "timeout_wait_s": "s",
    "dropped_frames": "frames",
    "link_busy_percent": "percent",
}
"""Every metric that a load over a distance has on top of a load's own, with its unit."""


def of_repetition(repetition: Repetition, setup: Setup) -> dict[str, float]:
    """Metric → value, without those that need bounds; NaN where nothing was counted."""
    return _commands(repetition) | _tcp(repetition, setup) | _network(repetition, setup)


def sender_series(repetition: Repetition, setup: Setup, name: str) -> list[Series]:
    """A counter of the connections at the end that sends the data, one series per VM (initiator) or of all (array)."""
    if setup.sender == setup.array:
        found = repetition.counters.select(engine="array", entity="tcp/sessions", name=name, node=setup.array)
        return [series for _, series in found]
    found = repetition.counters.select(engine="initiator", entity="tcp/", name=name)
    each = [(key.entity, series) for key, series in found]
    # Beyond 16 VMs there is the sum alone.
    return [series for entity, series in each if entity != "tcp/vms"] or [series for _, series in each]


def _growth(repetition: Repetition, series: list[Series]) -> float | None:
    return sum(s.increase(*repetition.window) for s in series) if series else None


def _commands(repetition: Repetition) -> dict[str, float]:
    def grown(name: str) -> float | None:
        found = repetition.counters.select(engine="initiator", entity="vms", name=name)
        return _growth(repetition, [series for _, series in found])

    spent = {phase: grown(f"{phase}_ns_sum") for phase in PHASES}
    told = {phase: ns for phase, ns in spent.items() if ns is not None}
    whole, commands, r2ts = sum(told.values()), grown("commands"), grown("r2ts")
    found = {f"{phase}_percent": 100 * told[phase] / whole if phase in told and whole else NAN for phase in PHASES}
    found["r2ts_per_command"] = r2ts / commands if r2ts is not None and commands else NAN
    found["command_ms_mean"] = whole / commands / 1e6 if told and commands else NAN
    return found


def _tcp(repetition: Repetition, setup: Setup) -> dict[str, float]:
    def grown(name: str) -> float | None:
        return _growth(repetition, sender_series(repetition, setup, name))

    span = (repetition.window[1] - repetition.window[0]) * max(1, setup.sessions)
    clocks = [grown(n) for n in ("busy_ns", "receive_window_limited_ns", "send_buffer_limited_ns")]
    found = {f"tcp_{share}_percent": NAN for share in SHARES}
    if None not in clocks and span > 0:
        # The kernel's clocks tick in jiffies: what they say may pass the span by a few.
        busy, window, buffer = (min(100.0, 100 * (ns or 0.0) / span) for ns in clocks)
        shares = (100 - busy, window, buffer, max(0.0, busy - window - buffer))
        found = {f"tcp_{name}_percent": share for name, share in zip(SHARES, shares, strict=True)}
    sent, again = grown("sent_bytes"), grown("retransmitted_bytes")
    found["retransmitted_percent"] = 100 * again / sent if again is not None and sent else NAN
    timeouts, waited, began = grown("timeouts"), grown("timeout_wait_ns"), grown("timeout_recoveries")
    found["timeouts"] = NAN if timeouts is None else round(timeouts)
    wait_s = None if waited is None or began is None else waited / 1e9 + began * TIMER_LEAST_S
    found["timeout_wait_s"] = NAN if wait_s is None else wait_s
    found["congestion_window_mb_mean"] = _gauge(repetition, setup, "congestion_window_bytes_now", np.mean) / 1e6
    found["in_flight_mb_max"] = _gauge(repetition, setup, "unacked_bytes_now", np.max) / 1e6
    return found


def _gauge(repetition: Repetition, setup: Setup, name: str, of: Callable[[Any], Any]) -> float:
    """Of what the gauge showed within the measuring phase, all sessions together."""
    series = sender_series(repetition, setup, name)
    start, end = repetition.window
    shown = [s.value[(s.at_ns >= start) & (s.at_ns <= end)] for s in series]
    least = min((len(v) for v in shown), default=0)
    if least == 0:
        return NAN
    return float(of(np.sum([v[:least] for v in shown], axis=0)))


def _network(repetition: Repetition, setup: Setup) -> dict[str, float]:
    counted = hops.of_repetition(repetition)
    if not counted:
        return {"dropped_frames": NAN, "link_busy_percent": NAN}
    own = [counted[entity] for entity in (f"link/{h.link}/{h.direction}" for h in setup.hops) if entity in counted]
    busy = [c["busy_percent"] for c in own if "busy_percent" in c]
    return {
        "dropped_frames": sum(c["dropped"] for c in counted.values()),
        "link_busy_percent": max(busy, default=NAN),
    }
