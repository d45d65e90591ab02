"""The end of the warm-up of a load that has to be steady before it is measured.

`SteadyWarmUp` is pure: it learns the samples of all loads and says whether the load is steady.
`end_when_steady` orders the loads to begin measuring, all at one instant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hakaru.caveats import Caveat
from hakaru.engine import clock, contract
from hakaru.engine.session import EngineSession
from hakaru.steadiness import PARTS, Steadiness, steadiness
from hakaru.study.model import Measure, Steady

Work = Callable[[contract.Sample], float | None]
"""Sample of a load → work done since the start, in any unit; None if the sample has no count."""


class SteadyWarmUp:
    """Judges the rate of all loads together over the last window.

    The rate of a window is judged once all loads have sent a sample at its end. A window begins at
    the earliest when the least warm-up has passed.
    """

    def __init__(self, measure: Measure, steady: Steady, start_ns: int, loads: Sequence[str]) -> None:
        self._steady = steady
        self._window_ns = steady.window_of(measure)
        self._begin_ns = start_ns + measure.warmup_ns
        self._counts: dict[str, list[tuple[int, float]]] = {load: [] for load in loads}
        self._judged_ns = 0
        self.newest: Steadiness | None = None
        """Steadiness of the window that was judged last; None before the first."""
        self.is_steady = False
        """Whether a window was steady."""

    def learn(self, load: str, at_ns: int, count: float) -> bool:
        """Learn the work that a load has done since the start, at an instant of CLOCK_MONOTONIC.
        Returns whether the load has become steady by it.
        """
        self._counts[load].append((at_ns, count))
        if self.is_steady or not all(self._counts.values()):
            return False
        end = min(counts[-1][0] for counts in self._counts.values())
        if end - self._window_ns < self._begin_ns or end <= self._judged_ns:
            return False
        self._judged_ns = end
        self.newest = steadiness(self._rates(end))
        self.is_steady = self.newest is not None and self.newest.is_within(self._steady.range, self._steady.drift)
        return self.is_steady

    def _rates(self, end_ns: int) -> list[float]:
        """Work of all loads in each part of the window, in order."""
        borders = end_ns - self._window_ns + self._window_ns * np.arange(PARTS + 1) / PARTS
        done = np.zeros(PARTS)
        for counts in self._counts.values():
            instants, values = zip(*counts, strict=True)
            done += np.diff(np.interp(borders, instants, values))
        return [float(part) for part in done]

    def describe(self, start_ns: int, measure_ns: int) -> dict[str, Any]:
        """The record of the repetition: time under load before measuring, and whether the
        load was steady by then.
        """
        found = self.newest
        shares = {"range_percent": found.range_percent, "drift_percent": found.drift_percent} if found else {}
        return {"seconds": (measure_ns - start_ns) / 1e9, "steady": self.is_steady, **shares}

    def caveat(self) -> Caveat | None:
        """The caveat of a load that was measured although it was not steady; None if it was."""
        if self.is_steady:
            return None
        found = self.newest or Steadiness(0.0, 0.0)
        values: Mapping[str, Any] = {
            "seconds": self._steady.within / 1e9,
            "range_percent": found.range_percent,
            "drift_percent": found.drift_percent,
        }
        return Caveat("never_steady", values)


async def end_when_steady(
    warm_up: SteadyWarmUp, engine: EngineSession, work: float, at_ns: int, loads: Sequence[EngineSession]
) -> None:
    """Learn a sample of a load. Once the load is steady, order all loads to begin measuring."""
    if warm_up.learn(engine.node, at_ns, work):
        begin_ns = clock.gang_start_ns(max(load.start_lead_ns for load in loads))
        await asyncio.gather(*(load.measure(begin_ns) for load in loads))
