"""Runs a procedure: time budget, trials that the tester could not send or count, and the log.

The controller has no clock. Its user passes the time and runs the trials that it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from statistics import fmean

from hakaru.search.goal import GoalResult, Verdict
from hakaru.search.grid import Grid
from hakaru.search.mlr import MlrSearch
from hakaru.search.procedure import LoadRange, Procedure, Request, Requests
from hakaru.search.trial import Trial, TrialResult

LOWER_LEAST = 0.02
"""Least share by which the highest load falls when the tester cannot offer it."""
LOWER_MOST = 0.5
"""Largest of these shares, which doubles each time."""
DISTURBED_MAX = 3
"""How often in a row a load may fail all attempts, while the tester has offered higher ones, before
the search continues below it: something disturbs the tester, which is not at its limit.
"""


MISSED_TRIALS = 3
"""Full-length trials of higher loads that must miss a goal before the device counts as their limit,
unless the goal refuses a load by fewer.
"""


class Ended(Enum):
    """Reason for the end of a search."""

    DONE = "done"
    """The procedure has no further trial."""
    BUDGET = "budget"
    """The next trial would have ended after the time budget."""
    TESTER = "tester"
    """The tester could not even offer the lowest load."""


@dataclass(frozen=True)
class LoggedTrial:
    """One trial of the log."""

    result: TrialResult
    is_valid: bool
    """False: the tester could not send or count the trial, so it says nothing about the device."""


@dataclass(frozen=True)
class Outcome:
    """Everything that a search found."""

    goals: tuple[GoalResult, ...]
    ended: Ended | None
    """None while the search has further trials."""
    trials: tuple[LoggedTrial, ...]

    @property
    def trial_time_s(self) -> float:
        """Time of all trials with their overhead, in seconds."""
        return sum(logged.result.cost_s for logged in self.trials)


class Controller:
    """One search.

    Call `next_trial` and `record` in turn; None ends the search. The parameters are:

    - `budget_s`: no trial is started that would end later than this after the first call of
      `next_trial`, in seconds. None: no limit.
    - `shortfall_max`: share of the intended work that the tester may leave unsent, from 0 to 1. A
      trial with a larger share is invalid, and so is one whose tester cannot account for all work:
      the procedure does not learn its result.
    - `attempts`: an invalid trial is repeated until it was run this often, at least once. If all
      are invalid, the tester cannot offer this load, and the search continues below it. If the
      tester has offered a higher load before, it is disturbed and not at its limit: the load is
      tried this often again, up to three times.
    - `relative_width`: precision of the tester's own limit, (upper - lower) / upper, above 0. It is
      searched only as far as it limits the result.

    The draft of MLRsearch recommends to count unsent frames as lost. Then the result of a weak
    tester would look like the result of a weak device, and `Verdict.TESTER_LIMIT` could not exist.
    """

    def __init__(
        self,
        procedure: Procedure,
        grid: Grid,
        *,
        budget_s: float | None = None,
        shortfall_max: float = 0.001,
        attempts: int = 3,
        relative_width: float = 0.005,
    ) -> None:
        self._procedure = procedure
        self._loads = LoadRange(grid, grid.steps)
        self._budget_s = budget_s
        self._shortfall_max = shortfall_max
        self._attempts_max = attempts
        self._width = grid.width(relative_width)
        self._deadline_s: float | None = None
        self._log: list[LoggedTrial] = []
        self._ended: Ended | None = None
        self._requests: Requests = procedure.requests(self._loads)
        self._request: Request | None = None
        self._sent_ratios: list[float] = []
        self._lowered = 0
        self._disturbed = 0
        self._offered: set[int] = set()
        """Steps that the tester offered."""
        self._refused: int | None = None
        """Step that the tester could not offer; the search continues below it."""
        self._completed: tuple[LoadRange, tuple[GoalResult, ...]] | None = None
        """Range whose search was completed, with its results, while one with a higher top is
        searched.
        """
        self._advance(None)
        # MLRsearch makes this request once: below a load that the tester could not offer, it begins
        # without a warm-up.
        has_warmup = isinstance(procedure, MlrSearch) and procedure._warmup_s > 0
        self._warmup = self._request if has_warmup else None
        self._warmup_result: TrialResult | None = None
        """Result of the warm-up, if it was valid. It says nothing about the device."""

    def next_trial(self, now_s: float) -> Trial | None:
        """Return the next trial, or None at the end of the search.

        `now_s` is the time in seconds on any clock that does not step. The same trial is returned
        until its result is recorded.
        """
        if self._request is None or self._ended is not None:
            return None
        if self._deadline_s is None and self._budget_s is not None:
            self._deadline_s = now_s + self._budget_s
        if self._deadline_s is not None and now_s + self._request.duration_s > self._deadline_s:
            self._ended = Ended.BUDGET
            return None
        return Trial(self._loads.grid.load(self._request.step), self._request.duration_s)

    def record(self, result: TrialResult) -> None:
        """Accept the result of the trial that `next_trial` returned."""
        request = self._request
        assert request is not None and self._ended is None, "a result follows a trial"
        assert result.trial == Trial(self._loads.grid.load(request.step), request.duration_s)
        is_valid = result.sent_ratio >= 1.0 - self._shortfall_max and result.tester_ratio == 1.0
        self._log.append(LoggedTrial(result, is_valid))
        if is_valid:
            if request is self._warmup:
                self._warmup_result = result
            self._sent_ratios.clear()
            self._lowered = self._disturbed = 0
            self._offered.add(request.step)
            self._advance(result)
            return
        self._sent_ratios.append(result.sent_ratio * result.tester_ratio)
        if len(self._sent_ratios) >= self._attempts_max:
            best = max(self._sent_ratios)
            self._sent_ratios.clear()
            if max(self._offered, default=-1) > request.step and self._disturbed < DISTURBED_MAX:
                self._disturbed += 1
                return
            self._disturbed = 0
            self._lower_top(request.step, best)

    def outcome(self) -> Outcome:
        """Return the results so far; they are final after `next_trial` returned None.

        Throughputs are those of the work that was offered: a tester may leave `shortfall_max` of a
        load unsent.
        """
        results = self._procedure.results(self._loads)
        if self._ended is Ended.BUDGET and self._completed is not None:
            results = tuple(map(_with_later, self._completed[1], results))
        goals = tuple(self._as_offered(self._as_seen(goal)) for goal in results)
        return Outcome(goals, self._ended, tuple(self._log))

    def _as_seen(self, goal: GoalResult) -> GoalResult:
        """Return a result that is not limited by the tester if valid trials of higher loads refuse
        them: those that missed the goal took more time than those that met it, and as long as
        `MISSED_TRIALS` or the goal demands. The device was at its limit there, so the search is
        unfinished. The warm-up does not count.
        """
        lower, limits = goal.lower, goal.goal
        if goal.verdict is not Verdict.TESTER_LIMIT or lower is None:
            return goal
        missed_s = met_s = 0.0
        for logged in self._log:
            counts = logged.is_valid and logged.result is not self._warmup_result
            if counts and logged.result.trial.load > lower:
                if logged.result.loss_ratio > limits.loss_ratio:
                    missed_s += logged.result.trial.duration_s
                else:
                    met_s += logged.result.trial.duration_s
        # A single trial may have met a burst, which the goal accepts.
        enough_s = min(limits.exceed_ratio * limits.duration_sum_s, MISSED_TRIALS * limits.final_trial_s)
        is_refused = missed_s >= enough_s and missed_s > met_s
        return replace(goal, verdict=Verdict.UNFINISHED) if is_refused else goal

    def _as_offered(self, goal: GoalResult) -> GoalResult:
        """Return a result whose throughput is reduced by what was left unsent at its loads."""
        loads = {goal.lower, *goal.repeats}
        sent = [t.result.sent_ratio for t in self._log if t.is_valid and t.result.trial.load in loads]
        if goal.throughput is None or not sent:
            return goal
        return replace(goal, throughput=goal.throughput * fmean(sent))

    def _advance(self, result: TrialResult | None) -> None:
        """Hand a result to the procedure (None: start it) and fetch its next request."""
        try:
            self._request = next(self._requests) if result is None else self._requests.send(result)
        except StopIteration:
            if not self._raise_top():
                self._request, self._ended = None, Ended.DONE

    def _lower_top(self, step: int, sent_ratio: float) -> None:
        """Continue below a step at which the tester sent at most `sent_ratio` of the work.

        A tester at its limit often sends nearly all of it. The load therefore falls by at least 2 %
        the first time, and by twice as much each further time, at most to half, until the tester
        can offer one. Then the interval between both is halved.
        """
        grid = self._loads.grid
        self._refused = step
        if self._completed is not None and step <= self._completed[0].top:
            self._completed = None
        if (middle := self._middle()) is not None:
            self._continue_below(middle)
            return
        least = min(LOWER_MOST, LOWER_LEAST * 2**self._lowered)
        self._lowered += 1
        top = min(step - 1, grid.step_at_or_below(grid.load(step) * min(sent_ratio, 1.0 - least)))
        if top < 0:
            self._ended = Ended.TESTER
            return
        self._continue_below(top)

    def _raise_top(self) -> bool:
        """Continue with a higher top, if the tester limits a result and its own limit is not known
        precisely. Returns whether it is so.
        """
        top = self._middle()
        if top is None or top <= self._loads.top:
            return False
        results = self._procedure.results(self._loads)
        if all(goal.verdict is not Verdict.TESTER_LIMIT for goal in results):
            return False
        self._completed = self._loads, results
        self._continue_below(top)
        return True

    def _middle(self) -> int | None:
        """Return the middle between the step that the tester could not offer and the highest below
        it that it could, or the latter if they are close enough. None if one is missing.
        """
        if self._refused is None:
            return None
        offered = max((step for step in self._offered if step < self._refused), default=None)
        if offered is None:
            return None
        distance = self._refused - offered
        return offered + (distance // 2 if distance > self._width else 0)

    def _continue_below(self, top: int) -> None:
        """Let the procedure continue with the steps up to `top`."""
        self._loads = LoadRange(self._loads.grid, top, is_lowered=True)
        self._requests = self._procedure.requests(self._loads)
        self._advance(None)


def _with_later(completed: GoalResult, later: GoalResult) -> GoalResult:
    """Return the result of a completed search, with what an unfinished one of a higher range has
    shown since.
    """
    if completed.lower is None or later.upper is None:
        return completed
    if later.lower is not None and later.lower >= completed.lower:
        return later
    if later.upper > completed.lower:
        return replace(completed, upper=later.upper, verdict=Verdict.UNFINISHED)
    return completed
