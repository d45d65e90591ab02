"""The single clock of a run: `CLOCK_MONOTONIC`, which Python and every engine on this machine
share.

Python sets start instants with it and never measures with it (ARCHITECTURE.md, invariant 4).
"""

from __future__ import annotations

import time

# Time for `start` to reach every engine of a gang and to be read by the slowest of them. A line
# takes well under a millisecond through a pipe; a busy machine may add one or two scheduling
# rounds.
GANG_LEAD_NS = 250_000_000


def now_ns() -> int:
    """Return the time of `CLOCK_MONOTONIC` in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def gang_start_ns(lead_ns: int = GANG_LEAD_NS) -> int:
    """Return an instant `lead_ns` (default 250 ms) ahead, so that the order to start reaches every
    engine in time.
    """
    return now_ns() + lead_ns
