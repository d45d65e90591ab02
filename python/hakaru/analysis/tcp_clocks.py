"""Waiting for retransmission timers, from the kernel's counters of a connection."""

from __future__ import annotations

TIMER_LEAST_S = 0.2
"""The shortest retransmission timer of Linux (TCP_RTO_MIN), and so the least silence before a
timeout.
"""


def timer_wait_s(recoveries: float | None, recovering_ns: float | None, timeouts: float | None) -> float | None:
    """Lower bound of the time lost to retransmission timeouts, in seconds; None if the kernel has
    no such counters.

    The kernel counts the time from the expiry of a timer to the end of the recovery. The silence
    before the expiry adds the length of the timer, at least 0.2 s. It counts once per recovery,
    because later timeouts lie within the recovery.
    """
    if recovering_ns is not None and recoveries is not None:
        return recoveries * TIMER_LEAST_S + recovering_ns / 1e9
    return timeouts * TIMER_LEAST_S if timeouts is not None else None
