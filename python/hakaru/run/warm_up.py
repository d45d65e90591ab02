"""The end of the warm-up of a load that has to be steady before it is measured.

`SteadyWarmUp` is pure: it learns the samples of all loads and says whether the load is steady.
`end_when_steady` orders the loads to begin measuring, all at one instant.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hakaru.caveats import Caveat
from hakaru.engine import clock, contract
from hakaru.engine.session import EngineSession
from hakaru.steadiness import PARTS, Steadiness, limits_of_counts, steadiness
from hakaru.study.model import Measure, Steady

SPREAD_MAX = 0.05
"""Largest difference between the instants at which hosts begin to measure, as a share of the
measuring time."""

Work = Callable[[contract.Sample], float | None]
"""Sample of a load → requests completed since the start; None if the sample has no count."""


class SteadyWarmUp:
    """Judges the rate of all loads together over the last window.

    The warm-up starts with that of the last load. The rate of a window is judged once all loads
    have sent a sample at its end. A window begins at the earliest when the least warm-up has
    passed, and ends at the latest with the longest one; both instants are exact to half a sample
    interval.
    """

    def __init__(self, measure: Measure, steady: Steady, loads: Sequence[str]) -> None:
        self._steady = steady
        self._warmup_ns = measure.warmup_ns
        self._window_ns = steady.window_of(measure)
        self._step_ns = measure.intervals.hosts // 2
        self._started: dict[str, int] = {}
        self._begin_ns = self._limit_ns = 0
        self._counts: dict[str, list[tuple[int, float]]] = {load: [] for load in loads}
        self._judged_ns = 0
        self.newest: Steadiness | None = None
        """Steadiness of the newest window; None without one, or if it has no request."""
        self.is_steady = False
        """Whether a window was steady."""

    def start(self, load: str, at_ns: int) -> None:
        """Learn the instant of CLOCK_MONOTONIC at which the warm-up of a load began."""
        self._started[load] = at_ns
        if len(self._started) == len(self._counts):
            start_ns = max(self._started.values())
            # Samples keep to their grid if the load begins late, and the last one may be late.
            self._begin_ns = start_ns + self._warmup_ns - self._step_ns
            self._limit_ns = start_ns + self._steady.within + self._step_ns
            # A load that prepared for long has sent many samples.
            self._forget(self._begin_ns)

    def learn(self, load: str, at_ns: int, count: float) -> bool:
        """Learn the requests that a load has completed since the start, at an instant of
        CLOCK_MONOTONIC. Returns whether the load has become steady by it.
        """
        if self.is_steady:
            return False
        self._counts[load].append((at_ns, count))
        if not self._limit_ns or not all(self._counts.values()):
            return False
        end = min(counts[-1][0] for counts in self._counts.values())
        is_new = end - self._judged_ns >= self._step_ns
        if not is_new or end - self._window_ns < self._begin_ns or end > self._limit_ns:
            return False
        self._judged_ns = end
        self._forget(end - self._window_ns)
        counts = self._parts(end)
        found = self.newest = steadiness(counts)
        if found is not None:
            self.is_steady = found.is_within(*limits_of_counts(counts, self._steady.range, self._steady.drift))
        return self.is_steady

    def end(self, at_ns: int) -> None:
        """Judge no windows that end later: a load has begun to measure."""
        self._limit_ns = min(self._limit_ns, at_ns + self._step_ns)

    def _forget(self, before_ns: int) -> None:
        """Drop samples that no later window needs."""
        for counts in self._counts.values():
            del counts[: max(0, bisect_right(counts, before_ns, key=lambda sample: sample[0]) - 1)]

    def _parts(self, end_ns: int) -> list[float]:
        """Requests of all loads in each part of the window, in order."""
        borders = end_ns - self._window_ns + self._window_ns * np.arange(PARTS + 1) / PARTS
        done = np.zeros(PARTS)
        for counts in self._counts.values():
            instants, values = zip(*counts, strict=True)
            done += np.diff(np.interp(borders, instants, values))
        return [float(part) for part in done]

    def _unseen(self) -> list[str]:
        """Loads without a sample at which a window could end."""
        first = self._begin_ns + self._window_ns
        return [
            load
            for load, counts in self._counts.items()
            if not any(first <= at_ns <= self._limit_ns for at_ns, _ in counts)
        ]

    def describe(self, measure_ns: int) -> dict[str, Any]:
        """The record of the repetition: time under load before measuring, and whether the
        load was steady by then.
        """
        found = self.newest
        shares = {"range_percent": found.range_percent, "drift_percent": found.drift_percent} if found else {}
        start_ns = max(self._started.values(), default=measure_ns)
        return {"seconds": (measure_ns - start_ns) / 1e9, "steady": self.is_steady, **shares}

    def caveat(self) -> Caveat | None:
        """The caveat of a load that was measured although it was not steady; None if it was."""
        if self.is_steady:
            return None
        seconds = self._steady.within / 1e9
        if not self._judged_ns:
            return Caveat("warm_up_unjudged", {"seconds": seconds, "hosts": ", ".join(self._unseen())})
        if self.newest is None:
            return Caveat("warm_up_idle", {"seconds": seconds})
        values: Mapping[str, Any] = {
            "seconds": seconds,
            "range_percent": self.newest.range_percent,
            "drift_percent": self.newest.drift_percent,
        }
        return Caveat("never_steady", values)


async def end_when_steady(
    warm_up: SteadyWarmUp, engine: EngineSession, work: float, at_ns: int, loads: Sequence[EngineSession]
) -> None:
    """Learn a sample of a load. Once the load is steady, order all loads to begin measuring."""
    if warm_up.learn(engine.node, at_ns, work):
        begin_ns = clock.gang_start_ns(max(load.start_lead_ns for load in loads))
        await asyncio.gather(*(load.measure(begin_ns) for load in loads))


def uneven_begin(begun_ns: Sequence[int], time_ns: int) -> Caveat | None:
    """The caveat of loads that began to measure at instants too far apart, because the order
    reached some of them late; None if the difference is a small share of the measuring time.
    """
    spread_ns = max(begun_ns, default=0) - min(begun_ns, default=0)
    if spread_ns <= SPREAD_MAX * time_ns:
        return None
    return Caveat("began_apart", {"spread_ms": spread_ns / 1e6, "percent": 100 * spread_ns / time_ns})
