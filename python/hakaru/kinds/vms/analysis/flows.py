"""Use of time in one repetition of a load of VMs: by its commands and by its TCP connections.

**Phases** (of the initiator, docs/reference/metrics.md): every instant of a command belongs to one,
so the shares add up to 100 % of the time of commands. **TCP** of the sender of the data: idle,
stalled by the receive window, stalled by the send buffer, and the rest of the time with something
to send or to be acknowledged, which the path and the congestion window take. Those shares are of
the measuring phase and add up to 100 %, too; of several sessions, means. Reads are sent by the
array, writes by the initiators; a mix has a flow in each direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hakaru.analysis import hops
from hakaru.analysis.bounds import Op
from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.tcp_clocks import timer_wait_s
from hakaru.analysis.utilisation import Use
from hakaru.kinds.vms.analysis.setup import OPS, Setup
from hakaru.kinds.vms.entities import TOTAL

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

FLOW_UNITS: dict[str, str] = {
    **{f"tcp_{share}_percent": "percent" for share in SHARES},
    "congestion_window_mb_mean": "MB",
    "in_flight_mb_max": "MB",
    "retransmitted_percent": "percent",
    "timeouts": "timeouts",
    "timeout_wait_s": "s",
    "link_busy_percent": "percent",
}
"""Every metric of one direction of the data, with its unit; a point shows that of the direction
with most bytes.
"""
UNITS: dict[str, str] = {
    "payload_percent": "percent",
    "bound_mb_per_s": "MB/s",
    "bound_share_percent": "percent",
    "r2ts_per_command": "R2Ts",
    "command_ms_mean": "ms",
    **{f"{phase}_percent": "percent" for phase in PHASES},
    **FLOW_UNITS,
    "dropped_frames": "frames",
}
"""Every metric of a load of VMs beside those of any load, with its unit."""


def payload(repetition: Repetition) -> dict[Op, float]:
    """Bytes of data per second in each direction, the larger first; a direction without any is left
    out.
    """
    rates: dict[Op, float] = {
        op: repetition.counters.total_rate(repetition.window, engine="initiator", entity=TOTAL, name=f"{op}_bytes")
        for op in OPS
    }
    return {op: rates[op] for op in sorted(OPS, key=lambda op: -rates[op]) if rates[op] > 0}


def of_repetition(repetition: Repetition) -> dict[str, float]:
    """Metrics of commands and of the whole network; NaN where nothing was counted."""
    counted = hops.of_repetition(repetition)
    return _commands(repetition) | {"dropped_frames": sum(c["dropped"] for c in counted.values()) if counted else NAN}


def device_s(repetition: Repetition) -> float:
    """Mean time of a request in the arrays' timing models, queueing in them included; 0 without a
    model.

    `queue_ns` of controller, port and groups (with a cache: of controller, port and cache) is the
    sum of latencies.
    """
    counters, window = repetition.counters, repetition.window
    present = 0.0
    for node in counters.nodes("array"):
        inner = "cache" if counters.get(node, "array", "cache", "queue_ns") else "group/"
        for entity in ("controller", "port/", inner):
            found = counters.select(engine="array", node=node, entity=entity, name="queue_ns")
            present += sum(series.increase(*window) for _, series in found)
    ended = sum(
        series.increase(*window)
        for name in ("reads", "writes")
        for _, series in counters.select(engine="initiator", entity=TOTAL, name=name)
    )
    return present / 1e9 / ended if ended > 0 else 0.0


def of_flow(repetition: Repetition, setup: Setup, op: Op, use: dict[str, Use]) -> dict[str, float]:
    """Metrics of one direction of the data (`FLOW_UNITS`), and `rtt_ms`, TCP's own estimate; NaN
    where not counted.
    """
    return _tcp(repetition, setup, op) | {"link_busy_percent": _link_busy(setup, op, use)}


def sender_series(repetition: Repetition, setup: Setup, op: Op, name: str) -> list[Series]:
    """A counter of the connections at the end that sends the data, one series per VM (initiator) or
    of all (array).
    """
    if op == "read":
        node = setup.array if setup.ways else None
        found = repetition.counters.select(engine="array", entity="tcp/sessions", name=name, node=node)
        return [series for _, series in found]
    found = repetition.counters.select(engine="initiator", entity="tcp/", name=name)
    each = [(key.entity, series) for key, series in found]
    # Beyond 16 VMs there is the sum alone.
    return [series for entity, series in each if entity != "tcp/vms"] or [series for _, series in each]


def _growth(repetition: Repetition, series: list[Series]) -> float | None:
    return sum(s.increase(*repetition.window) for s in series) if series else None


def _commands(repetition: Repetition) -> dict[str, float]:
    def grown(name: str) -> float | None:
        found = repetition.counters.select(engine="initiator", entity=TOTAL, name=name)
        return _growth(repetition, [series for _, series in found])

    spent = {phase: grown(f"{phase}_ns_sum") for phase in PHASES}
    told = {phase: ns for phase, ns in spent.items() if ns is not None}
    whole, commands, r2ts = sum(told.values()), grown("commands"), grown("r2ts")
    found = {f"{phase}_percent": 100 * told[phase] / whole if phase in told and whole else NAN for phase in PHASES}
    found["r2ts_per_command"] = r2ts / commands if r2ts is not None and commands else NAN
    found["command_ms_mean"] = whole / commands / 1e6 if told and commands else NAN
    return found


def _tcp(repetition: Repetition, setup: Setup, op: Op) -> dict[str, float]:
    def grown(name: str) -> float | None:
        return _growth(repetition, sender_series(repetition, setup, op, name))

    def gauge(name: str, of: Callable[[Any], Any]) -> float:
        return _gauge(repetition, sender_series(repetition, setup, op, name), of)

    span = (repetition.window[1] - repetition.window[0]) * _connections(repetition, setup)
    clocks = [grown(n) for n in ("busy_ns", "receive_window_limited_ns", "send_buffer_limited_ns")]
    found = {f"tcp_{share}_percent": NAN for share in SHARES}
    if None not in clocks and span > 0:
        # The kernel's clocks tick in jiffies: what they say may pass the span by a few.
        busy, window, buffer = (min(100.0, 100 * (ns or 0.0) / span) for ns in clocks)
        shares = (100 - busy, window, buffer, max(0.0, busy - window - buffer))
        found = {f"tcp_{name}_percent": share for name, share in zip(SHARES, shares, strict=True)}
    sent, again = grown("sent_bytes"), grown("retransmitted_bytes")
    timeouts = grown("timeouts")
    wait_s = timer_wait_s(grown("timeout_recoveries"), grown("timeout_wait_ns"), None)
    return found | {
        "retransmitted_percent": 100 * again / sent if again is not None and sent else NAN,
        "timeouts": NAN if timeouts is None else round(timeouts),
        "timeout_wait_s": NAN if wait_s is None else wait_s,
        "congestion_window_mb_mean": gauge("congestion_window_bytes_now", np.mean) / 1e6,
        "in_flight_mb_max": gauge("unacked_bytes_now", np.max) / 1e6,
        "rtt_ms": gauge("rtt_us_now", np.mean) / 1e3 / max(1, _reporters(repetition, setup, op)),
    }


def _reporters(repetition: Repetition, setup: Setup, op: Op) -> int:
    """Series that a gauge is summed over: a round-trip time is none to be added."""
    return len(sender_series(repetition, setup, op, "rtt_us_now"))


def _connections(repetition: Repetition, setup: Setup) -> int:
    """Connections that clocks are summed over: as many as the arrays counted, else as the study
    says.
    """
    start, end = repetition.window
    found = repetition.counters.select(engine="array", entity="sessions", name="connections_now")
    counted = [s.value[(s.at_ns >= start) & (s.at_ns <= end)] for _, s in found]
    open_ = sum(float(np.median(values)) for values in counted if len(values))
    return round(open_) or max(1, setup.vms * setup.sessions)


def _gauge(repetition: Repetition, series: list[Series], of: Callable[[Any], Any]) -> float:
    """Of what the gauge showed within the measuring phase, all sessions together."""
    start, end = repetition.window
    shown = [s.value[(s.at_ns >= start) & (s.at_ns <= end)] for s in series]
    least = min((len(v) for v in shown), default=0)
    if least == 0:
        return NAN
    return float(of(np.sum([v[:least] for v in shown], axis=0)))


def _link_busy(setup: Setup, op: Op, use: dict[str, Use]) -> float:
    """The busiest link that data of this direction passes, in that direction."""
    hops_of_op = setup.hops(op)
    named = [*(h.resource for h in hops_of_op), *(h.nic_resource for h in hops_of_op if h.node_sends is not None)]
    return max((use[name].percent for name in named if name in use), default=NAN)
