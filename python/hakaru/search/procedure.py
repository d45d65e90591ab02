"""Protocol of a procedure, the part of a search that chooses loads.

A procedure is a generator of requests. It receives the result of each request, and ends when its
goals are met or cannot be met. `hakaru.search.controller` runs it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from hakaru.search.goal import GoalResult, Verdict
from hakaru.search.grid import Grid
from hakaru.search.ledger import Bounds
from hakaru.search.trial import TrialResult


@dataclass(frozen=True)
class Request:
    """Request for a trial of `duration_s` seconds at a step of the grid."""

    step: int
    duration_s: float


@dataclass(frozen=True)
class LoadRange:
    """Loads that a search may use: the steps of `grid` from 0 to `top`."""

    grid: Grid
    top: int
    is_lowered: bool = False
    """The tester could not offer the loads above `top`."""

    def verdict(self, bounds: Bounds, width: int) -> Verdict:
        """Return the verdict for relevant bounds and a demanded width in steps."""
        lower, upper = bounds
        if bounds.distance is not None and bounds.distance <= width:
            return Verdict.BRACKETED
        if lower is not None and upper is None and lower >= self.top:
            return Verdict.TESTER_LIMIT if self.is_lowered else Verdict.AT_LEAST
        return Verdict.BELOW_RANGE if upper == 0 else Verdict.UNFINISHED

    def load(self, step: int | None) -> float | None:
        """Return the load of a step; None for None."""
        return None if step is None else self.grid.load(step)


Requests = Generator[Request, TrialResult, None]


class Procedure(Protocol):
    """One way to search. It may keep results between calls of `requests`."""

    def requests(self, loads: LoadRange) -> Requests:
        """Yield requests within `loads`, and receive the result of each.

        The controller calls it again with a lower top if the tester cannot offer a load.
        """

    def results(self, loads: LoadRange) -> tuple[GoalResult, ...]:
        """Return the results so far, in the order of the goals."""
