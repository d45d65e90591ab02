"""TCP counters of each node's kernel (all sockets of its namespace) and of the ends of
connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hakaru.analysis.estimate import Estimate
from hakaru.analysis.run_data import Repetition

NODE_NAMES = (
    "segments_out",
    "retransmits",
    "timeouts",
    "fast_retransmits",
    "loss_probes",
    "slow_start_retransmits",
    "spurious_timeouts",
    "out_of_order",
    "delivered_ce",
)
SOCKET_NAMES = (
    "sent_bytes",
    "acked_bytes",
    "retransmits",
    "retransmitted_bytes",
    "timeouts",
    "timeout_recoveries",
    "timeout_wait_ns",
    "busy_ns",
    "receive_window_limited_ns",
    "send_buffer_limited_ns",
    "ecn_echoes",
)
UNIT_OF = {"bytes": "bytes", "ns": "ns"}

Growth = dict[str, dict[str, float]]
"""`nodes/NODE` or `connections/END` → counter → growth during the measuring phase."""


def of_nodes(repetition: Repetition, nodes: Iterable[str]) -> Growth:
    """Growth of the counters of whole nodes, without the counters that the kernel lacks."""
    growth: Growth = {}
    for node in dict.fromkeys(nodes):
        counted = {}
        for name in NODE_NAMES:
            series = repetition.counters.get(node, "watch", "tcp", name)
            if series is not None:
                counted[name] = series.grown(*repetition.window)
        if counted:
            growth[f"nodes/{node}"] = counted
    return growth


def of_connections(sums: Mapping[str, Mapping[str, float | None]]) -> Growth:
    """Sums over the connections at each end, without the counters that the kernel lacks."""
    known = {end: {name: v for name, v in values.items() if v is not None} for end, values in sums.items()}
    return {f"connections/{end}": values for end, values in known.items() if values}


def to_json(growths: list[Growth]) -> dict[str, Any]:
    """`{nodes: {NODE: {NAME: estimate}}, connections: {source|destination: {NAME: estimate}}}`,
    over repetitions.
    """
    report: dict[str, Any] = {"nodes": {}, "connections": {}}
    for place in dict.fromkeys(p for growth in growths for p in growth):
        kind, _, owner = place.partition("/")
        names = dict.fromkeys(n for growth in growths for n in growth.get(place, {}))
        report[kind][owner] = {
            n: Estimate.over([growth[place][n] for growth in growths if n in growth.get(place, {})], _unit(n)).to_json()
            for n in names
        }
    return report


def _unit(name: str) -> str:
    return UNIT_OF.get(name.rpartition("_")[2], "count")
