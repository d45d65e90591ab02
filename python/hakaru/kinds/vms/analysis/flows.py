"""Shares of time in one repetition of a load of VMs: of its commands by phase, and of its TCP
connections by state.

**Phases** (of the initiator, docs/reference/metrics.md): every instant of a command belongs to
exactly one phase, so the shares add up to 100 % of the time of commands.

**TCP** of the sender of the data: idle, stalled by the receive window, stalled by the send buffer,
and `path`: the rest of the time with data to send or unacknowledged, which the path and the
congestion window determine. These shares refer to the measuring phase and add up to 100 %, too.
With several sessions they are means. The array sends reads, the initiators send writes; a mix has a
flow in each direction.
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
from hakaru.kinds.vms.analysis.equipment import hosts_of
from hakaru.kinds.vms.analysis.setup import OPS, Setup
from hakaru.kinds.vms.entities import STREAM_ENGINE, TOTAL
from hakaru.kinds.vms.stream_meter import delivered_bytes_per_s

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
"""Phases of a command in order: the first of all commands, then those of writes, then those of
reads.
"""
SHARES = ("idle", "receive_window", "send_buffer", "path")
"""States of the sender's TCP."""

FLOW_UNITS: dict[str, str] = {
    **{f"tcp_{share}_percent": "percent" for share in SHARES},
    "congestion_window_mb_mean": "MB",
    "in_flight_mb_max": "MB",
    "retransmitted_percent": "percent",
    "timeouts": "timeouts",
    "timeout_wait_s": "s",
    "link_busy_percent": "percent",
}
"""Every metric of one direction of the data, with its unit. A point has those of the direction with
most bytes.
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
"""Every metric of a load of VMs in addition to `metrics.UNITS`, with its unit."""


def payload(repetition: Repetition, setup: Setup) -> dict[Op, float]:
    """Bytes of data per second in each direction, the larger first, without directions that carry
    none.
    """
    if setup.is_stream:
        rate = delivered_bytes_per_s(repetition.counters, repetition.window)
        return {"write": rate} if rate > 0 else {}
    rates: dict[Op, float] = {
        op: repetition.counters.total_rate(repetition.window, engine="initiator", entity=TOTAL, name=f"{op}_bytes")
        for op in OPS
    }
    return {op: rates[op] for op in sorted(OPS, key=lambda op: -rates[op]) if rates[op] > 0}


def of_repetition(repetition: Repetition) -> dict[str, float]:
    """Metrics of commands and of the whole network; NaN if nothing was counted."""
    hop_counts = hops.of_repetition(repetition)
    return _commands(repetition) | {
        "dropped_frames": sum(c["dropped"] for c in hop_counts.values()) if hop_counts else NAN
    }


def device_s(repetition: Repetition) -> float:
    """Mean time of a request in the arrays' timing models with queueing, in seconds; 0 without a
    model.

    The sum of `queue_ns` of controller, ports and groups (or cache, if there is one) is the sum of
    latencies.
    """
    counters, window = repetition.counters, repetition.window
    spent_ns = 0.0
    for node in counters.nodes("array"):
        inner = "cache" if counters.get(node, "array", "cache", "queue_ns") else "group/"
        for entity in ("controller", "port/", inner):
            selected = counters.select(engine="array", node=node, entity=entity, name="queue_ns")
            spent_ns += sum(series.increase(*window) for _, series in selected)
    completed = sum(
        series.increase(*window)
        for name in ("reads", "writes")
        for _, series in counters.select(engine="initiator", entity=TOTAL, name=name)
    )
    return spent_ns / 1e9 / completed if completed > 0 else 0.0


def of_flow(repetition: Repetition, setup: Setup, op: Op, use: dict[str, Use]) -> dict[str, float]:
    """Metrics of one direction of the data (`FLOW_UNITS`), and `rtt_ms`, TCP's own estimate, mean
    over the senders; NaN if not counted.
    """
    return _tcp(repetition, setup, op) | {"link_busy_percent": _link_busy(setup, op, use)}


def sender_series(repetition: Repetition, setup: Setup, op: Op, name: str) -> list[Series]:
    """A TCP counter at the sender of the data: one series per VM, or per host with many VMs, at an
    initiator; one per host for plain streams; or one for all sessions at an array.
    """
    if op == "read":
        node = setup.array if setup.paths else None
        selected = repetition.counters.select(engine="array", entity="tcp/sessions", name=name, node=node)
        return [series for _, series in selected]
    engine = STREAM_ENGINE if setup.is_stream else "initiator"
    # A host with more than 16 VMs counts only their sum, `tcp/vms`.
    selected = repetition.counters.select(engine=engine, entity="tcp/", name=name)
    return [series for _, series in selected]


def _growth(repetition: Repetition, series: list[Series]) -> float | None:
    return sum(s.increase(*repetition.window) for s in series) if series else None


def _commands(repetition: Repetition) -> dict[str, float]:
    def grown(name: str) -> float | None:
        selected = repetition.counters.select(engine="initiator", entity=TOTAL, name=name)
        return _growth(repetition, [series for _, series in selected])

    spent = {phase: grown(f"{phase}_ns_sum") for phase in PHASES}
    known = {phase: ns for phase, ns in spent.items() if ns is not None}
    total_ns, commands, r2ts = sum(known.values()), grown("commands"), grown("r2ts")
    values = {
        f"{phase}_percent": 100 * known[phase] / total_ns if phase in known and total_ns else NAN for phase in PHASES
    }
    values["r2ts_per_command"] = r2ts / commands if r2ts is not None and commands else NAN
    values["command_ms_mean"] = total_ns / commands / 1e6 if known and commands else NAN
    return values


def _tcp(repetition: Repetition, setup: Setup, op: Op) -> dict[str, float]:
    def grown(name: str) -> float | None:
        return _growth(repetition, sender_series(repetition, setup, op, name))

    def gauge(name: str, reduce: Callable[[Any], Any]) -> float:
        return _gauge(repetition, sender_series(repetition, setup, op, name), reduce)

    span = (repetition.window[1] - repetition.window[0]) * _connections(repetition, setup)
    clocks = [grown(n) for n in ("busy_ns", "receive_window_limited_ns", "send_buffer_limited_ns")]
    shares_percent = {f"tcp_{share}_percent": NAN for share in SHARES}
    if None not in clocks and span > 0:
        # The kernel's clocks count in jiffies, so their sums may exceed the span slightly.
        busy, window, buffer = (min(100.0, 100 * (ns or 0.0) / span) for ns in clocks)
        shares = (100 - busy, window, buffer, max(0.0, busy - window - buffer))
        shares_percent = {f"tcp_{name}_percent": share for name, share in zip(SHARES, shares, strict=True)}
    sent, retransmitted = grown("sent_bytes"), grown("retransmitted_bytes")
    timeouts = grown("timeouts")
    wait_s = timer_wait_s(grown("timeout_recoveries"), grown("timeout_wait_ns"), None)
    return shares_percent | {
        "retransmitted_percent": 100 * retransmitted / sent if retransmitted is not None and sent else NAN,
        "timeouts": NAN if timeouts is None else round(timeouts),
        "timeout_wait_s": NAN if wait_s is None else wait_s,
        "congestion_window_mb_mean": gauge("congestion_window_bytes_now", np.mean) / 1e6,
        "in_flight_mb_max": gauge("unacked_bytes_now", np.max) / 1e6,
        "rtt_ms": gauge("rtt_us_now", np.mean) / 1e3 / max(1, _reporters(repetition, setup, op)),
    }


def _reporters(repetition: Repetition, setup: Setup, op: Op) -> int:
    """Number of series that `_gauge` sums up, by which a sum of round-trip times must be
    divided.
    """
    return len(sender_series(repetition, setup, op, "rtt_us_now"))


def _connections(repetition: Repetition, setup: Setup) -> int:
    """Number of connections whose clocks are summed: as the arrays counted, or else as the
    initiators opened them, or as the study configures.
    """
    start, end = repetition.window
    selected = repetition.counters.select(engine="array", entity="sessions", name="connections_now")
    values_by_array = [s.value[(s.at_ns >= start) & (s.at_ns <= end)] for _, s in selected]
    connections = sum(float(np.median(values)) for values in values_by_array if len(values))
    opened = sum(host.sessions for host in hosts_of(repetition))
    return round(connections) or round(opened) or max(1, setup.sessions)


def _gauge(repetition: Repetition, series: list[Series], reduce: Callable[[Any], Any]) -> float:
    """`reduce` of the gauge within the measuring phase, summed over all series; NaN without
    samples.
    """
    start, end = repetition.window
    values = [s.value[(s.at_ns >= start) & (s.at_ns <= end)] for s in series]
    length_min = min((len(v) for v in values), default=0)
    if length_min == 0:
        return NAN
    return float(reduce(np.sum([v[:length_min] for v in values], axis=0)))


def _link_busy(setup: Setup, op: Op, use: dict[str, Use]) -> float:
    """The busiest link that data of this direction passes, in that direction."""
    hops_of_op = setup.hops(op)
    named = [*(h.resource for h in hops_of_op), *(h.nic_resource for h in hops_of_op if h.node_sends is not None)]
    return max((use[name].percent for name in named if name in use), default=NAN)
