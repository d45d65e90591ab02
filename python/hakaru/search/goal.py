"""Goals of a search, and the result per goal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Goal:
    """Limits that a load must meet. Raises ValueError outside the bounds given below.

    A trial is *high-loss* for a goal if its loss ratio is above `loss_ratio`. Durations are in
    seconds, ratios from 0 to 1. The defaults are those of the reference library, except for
    `loss_ratio`.
    """

    loss_ratio: float = 1e-4
    """Loss that is still accepted in one trial; at least 0, below 1."""
    exceed_ratio: float = 0.5
    """Share of `duration_sum_s` that high-loss trials may take; at least 0, below 1. At 0.5, the
    result describes the typical trial. At 0, a single high-loss trial rejects a load."""
    relative_width: float = 0.005
    """Precision: the search for the goal ends when the distance of its bounds is at most this share
    of the upper one; above 0, below 1. Should not be below `loss_ratio`."""
    initial_trial_s: float = 1.0
    """Shortest trial for this goal; above 0."""
    final_trial_s: float = 1.0
    """Duration from which on a trial counts as full-length; at least `initial_trial_s`."""
    duration_sum_s: float = 21.0
    """Trial time, with overhead, that classifies a load; at least `final_trial_s`."""
    preceding_targets: int = 2
    """Coarser targets that are reached first to save time; each doubles the width. At least 1 if
    `initial_trial_s` is below `duration_sum_s`."""
    expansion: int = 2
    """Factor by which steps grow while a bound is missing; at least 2."""

    def __post_init__(self) -> None:
        limits = {
            "loss_ratio": 0 <= self.loss_ratio < 1,
            "exceed_ratio": 0 <= self.exceed_ratio < 1,
            "relative_width": 0 < self.relative_width < 1,
            "initial_trial_s": self.initial_trial_s > 0,
            "final_trial_s": self.final_trial_s >= self.initial_trial_s,
            "duration_sum_s": self.duration_sum_s >= self.final_trial_s,
            "preceding_targets": self.preceding_targets >= (self.initial_trial_s < self.duration_sum_s),
            "expansion": self.expansion >= 2,
        }
        for name, is_met in limits.items():
            if not is_met:
                raise ValueError(f"{name} of a goal is out of bounds: {getattr(self, name)}")


FORWARDING_GOALS = (
    Goal(loss_ratio=1e-4, exceed_ratio=0.5, relative_width=0.003, duration_sum_s=15.0),
    Goal(loss_ratio=1e-4, exceed_ratio=0.0, relative_width=0.003, duration_sum_s=15.0),
    Goal(loss_ratio=0.0, exceed_ratio=0.5, relative_width=0.003, duration_sum_s=15.0),
    Goal(loss_ratio=0.005, exceed_ratio=0.5, relative_width=0.005, duration_sum_s=15.0),
)
"""Goals for packet forwarding: typical loss of at most 0.01 %, the same in every trial, no loss,
and loss of at most 0.5 %.

Width and sum are tuned: with the defaults of `Goal`, some results are more than 0.5 % too low, and
some searches take more than 60 s. docs/methodology/search.md shows both. The loss of the last goal
is a lower limit of its width.
"""


def loss_ratio_of_percentile(percentile: float) -> float:
    """Return the share of requests that may exceed a time if `percentile` of them may not.

    "p99 at most 20 ms" is the same as "at most 1 % of the requests over 20 ms", so a search counts
    requests over 20 ms as lost and has a goal with a loss ratio of 0.01. `percentile` is above 0
    and at most 100; otherwise raises ValueError.
    """
    if not 0 < percentile <= 100:
        raise ValueError(f"a percentile is above 0 and at most 100: {percentile}")
    return (100 - percentile) / 100


class Verdict(Enum):
    """How far the search for a goal came. All but BRACKETED are irregular and must be marked."""

    BRACKETED = "bracketed"
    """Both bounds exist and are as close as the goal demands."""
    AT_LEAST = "at least"
    """The highest load of the grid meets the goal."""
    TESTER_LIMIT = "tester limit"
    """The highest load that the tester can offer meets the goal."""
    BELOW_RANGE = "below range"
    """The lowest load of the grid does not meet the goal."""
    UNFINISHED = "unfinished"
    """The search ended before, by its time budget or because the tester could not offer a load
    below one that missed the goal.
    """


@dataclass(frozen=True)
class GoalResult:
    """Result of a search for one goal. Loads are in the unit of the grid."""

    goal: Goal
    verdict: Verdict
    throughput: float | None
    """The result: for MLRsearch the conditional throughput at `lower`, for the published procedure
    the mean of its searches, for bisection `lower`. None without a lower bound. Where the load is a
    count, `lower` is the answer."""
    lower: float | None
    """Relevant lower bound: the highest load below `upper` that meets the goal. Bounds are loads as
    intended; `throughput` is that of the work that the tester sent, which may be a little less."""
    upper: float | None
    """Relevant upper bound: the lowest load that does not meet the goal."""
    trials: int
    """Trials that were chosen for this goal. Those at the start of MLRsearch serve all goals and
    are not counted."""
    repeats: tuple[float, ...] = ()
    """Published procedure: result of each of its searches."""
