"""MLRsearch: several goals in one search, with many short trials.

The method is that of draft-ietf-bmwg-mlrsearch-15. Its results follow from the ledger
(`hakaru.search.ledger`); the order of trials is free, and here that of the reference library. All
trials serve all goals. Of the loads that the goals need next, the lowest is tried first.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from hakaru.search.goal import Goal, GoalResult
from hakaru.search.ledger import Bounds, Ledger, Target, targets_of
from hakaru.search.procedure import LoadRange, Request, Requests
from hakaru.search.selector import Selector, SharedStride, placed
from hakaru.search.trial import TrialResult


class MlrSearch:
    """Searches for the conditional throughput of every goal.

    `goals` are at least one, all different; otherwise raises ValueError. `warmup_s` is the duration
    of a first trial at the highest load whose result is ignored, in seconds; 0 leaves it out.
    """

    def __init__(self, goals: Iterable[Goal], warmup_s: float = 1.0) -> None:
        self._goals = tuple(goals)
        if not self._goals or len(set(self._goals)) < len(self._goals):
            raise ValueError(f"a search needs one or several different goals: {self._goals}")
        self._warmup_s = warmup_s
        self._trials = [0] * len(self._goals)
        self._targets: list[tuple[Target, ...]] = []
        self._ledger = Ledger(())

    def requests(self, loads: LoadRange) -> Requests:
        if self._targets:
            self._ledger.forget_above(loads.top)
        else:
            self._targets = [targets_of(goal, loads.grid) for goal in self._goals]
            self._ledger = Ledger(target for targets in self._targets for target in targets)
            if self._warmup_s > 0:
                yield Request(loads.top, self._warmup_s)
        start = yield from self._initial_trials(loads)
        yield from self._approach_goals(loads.top, start)

    def results(self, loads: LoadRange) -> tuple[GoalResult, ...]:
        return tuple(
            self._result(goal, targets[-1], trials, loads)
            for goal, targets, trials in zip(self._goals, self._targets, self._trials, strict=True)
        )

    def _trial(self, step: int, duration_s: float) -> Generator[Request, TrialResult, TrialResult]:
        result = yield Request(step, duration_s)
        self._ledger.add(step, result)
        return result

    def _initial_trials(self, loads: LoadRange) -> Generator[Request, TrialResult, Bounds]:
        """Run up to three trials, and return the interval between the last two.

        The rate that an overloaded device still forwards is a good guess of the load that it
        carries. The first trial has the highest load, the second its forwarding rate. The third
        narrows the interval, from above or below. Their duration and the width are the greatest
        that the first targets of the goals demand.
        """
        loss_ratio = min(goal.loss_ratio for goal in self._goals)
        duration_s = max(targets[0].trial_s for targets in self._targets)
        width = max(targets[0].width for targets in self._targets)
        top = loads.top

        def carried_step(result: TrialResult) -> int:
            """Return the load at which the forwarding rate would just meet the strictest goal."""
            return loads.grid.step_at_or_below(result.forwarding_rate / (1.0 - loss_ratio))

        result = yield from self._trial(top, duration_s)
        if result.loss_ratio <= loss_ratio or carried_step(result) >= top:
            return Bounds(top, top)
        second = placed(carried_step(result), width, Bounds(None, top), top)
        if second is None:
            return Bounds(top, top)
        result = yield from self._trial(second, duration_s)
        if result.loss_ratio > loss_ratio:
            third = placed(carried_step(result), width, Bounds(None, second), top)
        else:
            third = placed(second + width, width, Bounds(second, top), top)
        if third is None:
            return Bounds(second, second)
        yield from self._trial(third, duration_s)
        return Bounds(min(second, third), max(second, third))

    def _approach_goals(self, top: int, start: Bounds) -> Requests:
        """Run the most urgent nomination until no goal has one."""
        assert start.lower is not None and start.upper is not None
        shared = SharedStride(start.upper - start.lower)
        selectors = [Selector(targets, self._ledger, top, start, shared) for targets in self._targets]
        while True:
            nominations = [(n, place) for place, s in enumerate(selectors) if (n := s.nominate()) is not None]
            if not nominations:
                return
            nomination, place = min(nominations, key=lambda nominated: nominated[0].order)
            yield from self._trial(nomination.step, nomination.trial_s)
            self._trials[place] += 1
            shared.width = nomination.width
            selectors[place].settle()

    def _result(self, goal: Goal, target: Target, trials: int, loads: LoadRange) -> GoalResult:
        bounds = self._ledger.bounds(target)
        throughput = None
        if bounds.lower is not None:
            throughput = loads.grid.load(bounds.lower) * (1.0 - self._ledger.quantile_loss(bounds.lower, target))
        return GoalResult(
            goal=goal,
            verdict=loads.verdict(bounds, target.width),
            throughput=throughput,
            lower=loads.load(bounds.lower),
            upper=loads.load(bounds.upper),
            trials=trials,
        )
