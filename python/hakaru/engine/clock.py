"""The one clock of a run: `CLOCK_MONOTONIC`, which Python and every engine of this machine read
alike.

Python sets start instants with it and never measures with it (ARCHITECTURE.md, invariant 4).
"""

from __future__ import annotations

import time

# Time for a `start` to reach every engine of a gang, and for the slowest of them to have read it: a
# line through a pipe takes well under a millisecond, a busy machine may take a scheduling round or
# two.
GANG_LEAD_NS = 250_000_000


def now_ns() -> int:
    """Nanoseconds of `CLOCK_MONOTONIC`."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def gang_start_ns(lead_ns: int = GANG_LEAD_NS) -> int:
    """An instant far enough ahead that the order to start reaches every engine in time."""
    return now_ns() + lead_ns
