"""All results of a search by load, and what they say about a target.

The classification and the conditional throughput are those of draft-ietf-bmwg-mlrsearch-15,
appendices A and B. Sums of time are whole nanoseconds and ratios are fractions, because both depend
on equality: with binary fractions, ten trials of 0.1 s do not add up to 1 s.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from hakaru.search.goal import Goal
from hakaru.search.grid import Grid
from hakaru.search.trial import TrialResult


@dataclass(frozen=True)
class Target:
    """One stage on the way to a goal, in steps of a grid. The last one is the goal itself."""

    loss_ratio: float
    exceed_ratio: float
    width: int
    trial_s: float
    duration_sum_s: float
    expansion: int


def targets_of(goal: Goal, grid: Grid) -> tuple[Target, ...]:
    """Return the stages of a goal, from the coarsest to the goal itself.

    The sums of durations form a geometric sequence that begins with the initial trial.
    """
    stages = []
    count = goal.preceding_targets
    shrink = (goal.initial_trial_s / goal.duration_sum_s) ** (1.0 / count) if count else 1.0
    for back in range(count + 1):
        duration_sum_s = goal.initial_trial_s if 0 < back == count else goal.duration_sum_s * shrink**back
        stages.append(
            Target(
                loss_ratio=goal.loss_ratio,
                exceed_ratio=goal.exceed_ratio,
                width=grid.width(goal.relative_width) << back,
                trial_s=min(goal.final_trial_s, duration_sum_s) if back else goal.final_trial_s,
                duration_sum_s=duration_sum_s,
                expansion=goal.expansion,
            )
        )
    return tuple(reversed(stages))


class Bound(Enum):
    """Classification of a load for a target."""

    LOWER = "lower"
    UPPER = "upper"
    UNDECIDED = "undecided"


class Bounds(NamedTuple):
    """Relevant bounds for a target, as steps."""

    lower: int | None
    upper: int | None

    @property
    def distance(self) -> int | None:
        """Steps between the bounds; None if one is missing."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower


def nanoseconds(time_s: float) -> int:
    """Return a time in seconds as whole nanoseconds."""
    return round(time_s * 1e9)


@dataclass
class Tally:
    """Trial time at one load for one target, in nanoseconds, by length and loss of the trials."""

    target: Target
    low_full: int = 0
    high_full: int = 0
    low_short: int = 0
    high_short: int = 0
    losses: list[tuple[float, int]] = field(default_factory=list)
    """Loss ratio and time of every full-length trial, sorted."""
    bound: Bound = Bound.UNDECIDED
    """Class that no result within the missing time can change."""

    def add(self, result: TrialResult) -> None:
        """Count one trial. Its intended duration decides whether it is full-length."""
        time = nanoseconds(result.cost_s)
        is_high = result.loss_ratio > self.target.loss_ratio
        if nanoseconds(result.trial.duration_s) >= nanoseconds(self.target.trial_s):
            insort(self.losses, (result.loss_ratio, time))
            if is_high:
                self.high_full += time
            else:
                self.low_full += time
        elif is_high:
            self.high_short += time
        else:
            self.low_short += time
        self.bound = self._classify()

    def _classify(self) -> Bound:
        ratio = self._exceed_ratio()
        high = self.high_full + max(Fraction(0), self.high_short - self.low_short * ratio / (1 - ratio))
        whole = max(self.low_full + high, Fraction(nanoseconds(self.target.duration_sum_s)))
        holds_at_best = high <= whole * ratio
        holds_at_worst = whole - self.low_full <= whole * ratio
        if holds_at_best == holds_at_worst:
            return Bound.LOWER if holds_at_best else Bound.UPPER
        return Bound.UNDECIDED

    def quantile_loss(self) -> float:
        """Return the loss ratio that the share `1 - exceed_ratio` of the time does not exceed. Time
        without a trial counts as complete loss.
        """
        whole = max(nanoseconds(self.target.duration_sum_s), self.low_full + self.high_full)
        remaining = whole * (1 - self._exceed_ratio())
        loss_ratio = 1.0
        for trial_loss, time in self.losses:
            if remaining <= 0:
                break
            loss_ratio, remaining = trial_loss, remaining - time
        return 1.0 if remaining > 0 else loss_ratio

    def _exceed_ratio(self) -> Fraction:
        """Return the exceed ratio as the decimal fraction that was meant."""
        return Fraction(self.target.exceed_ratio).limit_denominator(1_000_000)


class Ledger:
    """Results of a search by step and target."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._targets = tuple(dict.fromkeys(targets))
        self._tallies: dict[int, dict[Target, Tally]] = {}
        self._steps: list[int] = []

    def add(self, step: int, result: TrialResult) -> None:
        """Count the result of a trial at `step` for every target."""
        if step not in self._tallies:
            self._tallies[step] = {target: Tally(target) for target in self._targets}
            insort(self._steps, step)
        for tally in self._tallies[step].values():
            tally.add(result)

    def forget_above(self, top: int) -> None:
        """Remove the results of all steps above `top`."""
        self._steps = [step for step in self._steps if step <= top]
        self._tallies = {step: self._tallies[step] for step in self._steps}

    def bounds(self, target: Target) -> Bounds:
        """Return the lowest upper bound, and the highest lower bound below it.

        Loads above an upper bound are ignored even if their trials had little loss, so the result
        is conservative.
        """
        lower = None
        for step in self._steps:
            bound = self._tallies[step][target].bound
            if bound is Bound.UPPER:
                return Bounds(lower, step)
            if bound is Bound.LOWER:
                lower = step
        return Bounds(lower, None)

    def quantile_loss(self, step: int, target: Target) -> float:
        """Return the loss ratio for the conditional throughput at a step with results."""
        return self._tallies[step][target].quantile_loss()
