"""Searches that judge a load by one trial: plain bisection, and the published procedure.

Both search for one goal. They use its `loss_ratio`, `relative_width` and `final_trial_s`; the other
attributes have no meaning for them. One burst of loss at the wrong moment makes their result too
low, which docs/methodology/search.md shows beside MLRsearch.
"""

from __future__ import annotations

from hakaru.search.goal import Goal, GoalResult, Verdict
from hakaru.search.ledger import Bounds
from hakaru.search.procedure import LoadRange, Request, Requests


class Bisection:
    """Halves the interval between the highest load that met the goal and the lowest that did not.

    The first trial has the highest load. The result is the highest load that met the goal.
    """

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self._bounds = Bounds(None, None)
        self._trials = 0

    def requests(self, loads: LoadRange) -> Requests:
        self._bounds = Bounds(None, None)
        width = loads.grid.width(self._goal.relative_width)
        step: int | None = loads.top
        while step is not None:
            result = yield Request(step, self._goal.final_trial_s)
            self._trials += 1
            lower, upper = self._bounds
            is_good = result.loss_ratio <= self._goal.loss_ratio
            self._bounds = Bounds(step, upper) if is_good else Bounds(lower, step)
            step = self._next_step(loads, width)

    def _next_step(self, loads: LoadRange, width: int) -> int | None:
        """Return the middle between the bounds, or None at the end of the search."""
        lower, upper = self._bounds
        if not upper or (lower is not None and upper - lower <= width):
            return None
        return middle_step(loads, -1 if lower is None else lower, upper)

    def results(self, loads: LoadRange) -> tuple[GoalResult, ...]:
        lower = loads.load(self._bounds.lower)
        return (
            GoalResult(
                goal=self._goal,
                verdict=loads.verdict(self._bounds, loads.grid.width(self._goal.relative_width)),
                throughput=lower,
                lower=lower,
                upper=loads.load(self._bounds.upper),
                trials=self._trials,
            ),
        )


class PublishedProcedure:
    """The binary search of the published study of forwarding (Internet Week 2011, session S9).

    It starts with the highest load X. If a trial at X has too much loss, the next load is X / 2,
    and X is the nearest maximum. Otherwise the next load is the mean of X and the nearest maximum.
    The search ends when X meets the goal and is as close to the nearest maximum as the goal
    demands.
    Because X / 2 may be far below loads that met the goal before, the search takes more trials than
    bisection. It is repeated, and the result is the mean. The result has no throughput unless every
    search finds a load.

    The publication prints neither the duration of a trial nor when the search ends.
    """

    def __init__(self, goal: Goal, repeats: int = 3) -> None:
        if repeats < 1:
            raise ValueError(f"a search is run at least once: {repeats}")
        self._goal = goal
        self._repeats = repeats
        self._searches: list[Bounds] = []
        self._trials = 0

    def requests(self, loads: LoadRange) -> Requests:
        self._searches = []
        width = loads.grid.width(self._goal.relative_width)
        for _ in range(self._repeats):
            self._searches.append(Bounds(None, None))
            step: int | None = loads.top
            while step is not None:
                result = yield Request(step, self._goal.final_trial_s)
                self._trials += 1
                step = self._next_step(loads, width, step, result.loss_ratio <= self._goal.loss_ratio)

    def _next_step(self, loads: LoadRange, width: int, step: int, is_good: bool) -> int | None:
        """Return the load after a trial at `step`, or None at the end of one search."""
        if not is_good:
            self._searches[-1] = Bounds(None, step)
            return min(step - 1, loads.grid.step_at_or_below(loads.grid.load(step) / 2)) if step else None
        upper = self._searches[-1].upper
        self._searches[-1] = Bounds(step, upper)
        if upper is None or upper - step <= width:
            return None
        return middle_step(loads, step, upper)

    def results(self, loads: LoadRange) -> tuple[GoalResult, ...]:
        width = loads.grid.width(self._goal.relative_width)
        verdict = max((loads.verdict(bounds, width) for bounds in self._searches), key=list(Verdict).index)
        is_complete = verdict not in (Verdict.BELOW_RANGE, Verdict.UNFINISHED)
        lowers = [load for bounds in self._searches if (load := loads.load(bounds.lower)) is not None]
        uppers = [load for bounds in self._searches if (load := loads.load(bounds.upper)) is not None]
        return (
            GoalResult(
                goal=self._goal,
                verdict=verdict,
                throughput=sum(lowers) / len(lowers) if is_complete else None,
                lower=min(lowers) if is_complete else None,
                upper=max(uppers, default=None),
                trials=self._trials,
                repeats=tuple(lowers) if is_complete else (),
            ),
        )


def middle_step(loads: LoadRange, lower: int, upper: int) -> int:
    """Return the step of the mean load of two steps that are at least two apart, strictly between
    them. A lower step of -1 stands for the load of step 0, and may be one below the upper step.
    """
    mean = (loads.grid.load(max(lower, 0)) + loads.grid.load(upper)) / 2
    return min(max(loads.grid.step_at_or_below(mean), lower + 1), upper - 1)
