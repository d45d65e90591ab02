"""What TCP says: of each end's kernel (all sockets of its namespace) and of the jobs' own connections."""

from __future__ import annotations

from typing import Any

from hakaru.analysis.backup.copies import socket_total
from hakaru.analysis.backup.setup import Setup
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
"""`nodes/NODE` or `connections/END` → counter → growth while images were copied."""


def of_repetition(repetition: Repetition, setup: Setup) -> Story:
    """What was counted in one repetition; what the kernel does not count is left out."""
    found: Story = {}
    for node in dict.fromkeys((setup.source, *setup.hosts, setup.destination)):
        counted = {}
        for name in NODE_NAMES:
            series = repetition.counters.get(node, "watch", "tcp", name)
            if series is not None:
                counted[name] = series.grown(*repetition.window)
        if counted:
            found[f"nodes/{node}"] = counted
    for end in ("source", "destination"):
        sums = {name: socket_total(repetition, end, name) for name in SOCKET_NAMES}
        told = {name: value for name, value in sums.items() if value is not None}
        if told:
            found[f"connections/{end}"] = told
    return found


def to_json(stories: list[Story]) -> dict[str, Any]:
    """`{nodes: {NODE: {NAME: estimate}}, connections: {source|destination: {NAME: estimate}}}`, over repetitions."""
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
