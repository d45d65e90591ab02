"""Counters of TCP: of each node's kernel (all sockets of its namespace) and of single ends of
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

Story = dict[str, dict[str, float]]
"""`nodes/NODE` or `connections/END` → counter → growth while it was measured."""


def of_nodes(repetition: Repetition, nodes: Iterable[str]) -> Story:
    """Growth of the counters of whole nodes; counters that the kernel does not have are left
    out.
    """
    found: Story = {}
    for node in dict.fromkeys(nodes):
        counted = {}
        for name in NODE_NAMES:
            series = repetition.counters.get(node, "watch", "tcp", name)
            if series is not None:
                counted[name] = series.grown(*repetition.window)
        if counted:
            found[f"nodes/{node}"] = counted
    return found


def of_connections(sums: Mapping[str, Mapping[str, float | None]]) -> Story:
    """Sums over connections by their end; counters that the kernel does not have are left out."""
    known = {end: {name: v for name, v in values.items() if v is not None} for end, values in sums.items()}
    return {f"connections/{end}": values for end, values in known.items() if values}


def to_json(stories: list[Story]) -> dict[str, Any]:
    """`{nodes: {NODE: {NAME: estimate}}, connections: {source|destination: {NAME: estimate}}}`,
    over repetitions.
    """
    found: dict[str, Any] = {"nodes": {}, "connections": {}}
    for place in dict.fromkeys(p for story in stories for p in story):
        kind, _, whose = place.partition("/")
        names = dict.fromkeys(n for story in stories for n in story.get(place, {}))
        found[kind][whose] = {
            n: Estimate.over([s[place][n] for s in stories if n in s.get(place, {})], _unit(n)).to_json() for n in names
        }
    return found


def _unit(name: str) -> str:
    return UNIT_OF.get(name.rpartition("_")[2], "count")
