"""Requests that wait in the guests for the rings of their disks, and commands that wait in the
hosts for their sessions.

The initiator integrates both numbers over time (docs/reference/metrics.md). An integral divided by
that of everything outstanding is the share that waits; divided by the number of completed requests
or commands it is the mean wait (Little's law).
"""

from __future__ import annotations

import math

from hakaru.analysis.run_data import Repetition
from hakaru.kinds.vms.analysis.flows import PHASES
from hakaru.kinds.vms.analysis.metrics import quotient
from hakaru.kinds.vms.entities import TOTAL

UNITS: dict[str, str] = {
    "guest_queue_percent": "percent",
    "guest_queue_ms_mean": "ms",
    "host_queue_percent": "percent",
    "host_queue_ms_mean": "ms",
}
"""Every metric of queues and its unit, in the order of the report."""


def of_repetition(repetition: Repetition) -> dict[str, float]:
    """Metric → value; NaN if the initiators did not count it."""

    def rate(name: str) -> float:
        return repetition.counters.total_rate(repetition.window, engine="initiator", entity=TOTAL, name=name)

    guest_ns, host_ns = rate("guest_queued_ns"), rate("host_queued_ns")
    sessions_ns = sum(phase for name in PHASES if math.isfinite(phase := rate(f"{name}_ns_sum")))
    return {
        "guest_queue_percent": 100 * quotient(guest_ns, rate("outstanding_ns")),
        "guest_queue_ms_mean": quotient(guest_ns, rate("reads") + rate("writes")) / 1e6,
        "host_queue_percent": 100 * quotient(host_ns, host_ns + sessions_ns),
        "host_queue_ms_mean": quotient(host_ns, rate("commands")) / 1e6,
    }
