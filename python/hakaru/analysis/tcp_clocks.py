"""Waiting for retransmission timers, from the kernel's counters of a connection."""

from __future__ import annotations

TIMER_LEAST_S = 0.2
"""The shortest retransmission timer of Linux (TCP_RTO_MIN); the silence before each is as long at
least.
"""


def timer_wait_s(recoveries: float | None, recovering_ns: float | None, timeouts: float | None) -> float | None:
    """Time lost to retransmission timeouts, at least, in seconds; None where the kernel counts none
    of it.

    The kernel counts from the instant at which a timer ran out until the recovery ended; the
    silence before is the timer's length, at least 0.2 s for the first of each recovery (later ones
    are within it).
    """
    if recovering_ns is not None and recoveries is not None:
        return recoveries * TIMER_LEAST_S + recovering_ns / 1e9
    return timeouts * TIMER_LEAST_S if timeouts is not None else None
