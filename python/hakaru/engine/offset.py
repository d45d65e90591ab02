"""Offset between two clocks, measured by exchanges. Pure, apart from `measure`.

    offset = await measure(ask)          `ask` returns the other clock's time in nanoseconds

Each exchange reads this clock, asks for the other one, and reads this clock again. The other clock
was read at some moment between, so the offset is known to half the round trip. The exchange of the
shortest round trip is used. This is how NTP measures (RFC 5905, section 8), without its filters:
the bound is a guarantee, not an estimate, as long as both clocks run at the same rate during one
exchange.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from hakaru.engine.clock import now_ns

EXCHANGES = 32


@dataclass(frozen=True)
class Exchange:
    """One exchange: this clock, the other clock, this clock again."""

    sent_ns: int
    other_ns: int
    received_ns: int


@dataclass(frozen=True)
class ClockOffset:
    """The other clock minus this one."""

    offset_ns: int
    bound_ns: int
    """The offset is off by at most this: half the round trip."""
    at_ns: int
    """Instant of this clock for which the offset holds."""
    exchanges: int
    """Number of exchanges from which the best was taken."""


@dataclass(frozen=True)
class ClockRecord:
    """Offsets at the start and the end of a use, to be stored with its results."""

    start: ClockOffset
    end: ClockOffset | None = None

    @property
    def drift_ppm(self) -> float | None:
        """Rate of the other clock minus that of this one, in millionths; None before the end."""
        if self.end is None or self.end.at_ns <= self.start.at_ns:
            return None
        return (self.end.offset_ns - self.start.offset_ns) / (self.end.at_ns - self.start.at_ns) * 1e6

    @property
    def drift_bound_ppm(self) -> float | None:
        """The drift is off by at most this; None before the end."""
        if self.end is None or self.end.at_ns <= self.start.at_ns:
            return None
        return (self.end.bound_ns + self.start.bound_ns) / (self.end.at_ns - self.start.at_ns) * 1e6

    @property
    def error_max_ns(self) -> int:
        """Instants that were converted with the offset at the start are off by at most this: its
        bound and, if it was measured again, the change with its own bound.
        """
        if self.end is None:
            return self.start.bound_ns
        return self.start.bound_ns + abs(self.end.offset_ns - self.start.offset_ns) + self.end.bound_ns

    def describe(self) -> dict[str, Any]:
        """Return the record as JSON, with its derived figures."""
        return {**asdict(self), "drift_ppm": self.drift_ppm, "drift_bound_ppm": self.drift_bound_ppm}


def estimate(exchanges: Iterable[Exchange]) -> ClockOffset:
    """Return the offset of the exchange with the shortest round trip."""
    measured = list(exchanges)
    best = min(measured, key=lambda exchange: exchange.received_ns - exchange.sent_ns)
    middle = (best.sent_ns + best.received_ns) // 2
    # Rounded up, as the middle is rounded down.
    bound = (best.received_ns - best.sent_ns + 1) // 2
    return ClockOffset(best.other_ns - middle, bound, middle, len(measured))


async def measure(ask: Callable[[], Awaitable[int]], *, exchanges: int = EXCHANGES) -> ClockOffset:
    """Exchange and estimate. The round trip includes this process's event loop."""
    measured = []
    for _ in range(exchanges):
        sent = now_ns()
        other = await ask()
        measured.append(Exchange(sent, other, now_ns()))
    return estimate(measured)
