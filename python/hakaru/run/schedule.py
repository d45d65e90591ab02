"""The next repetition of a run.

    Fixed     the order that the study was expanded to
    Searches  the searches for its goal, whose next repetition follows from the results so far

A schedule remembers nothing. It is asked with the names of the finished repetitions, and reads
results through a function, so a run that was interrupted continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from hakaru.study import Expanded, Point, Repetition, kind
from hakaru.study.expand import Searched
from hakaru.study.goal import GoalSearch, Interval

Results = Callable[[Point, int], Mapping[str, Interval] | None]
"""(point, number of its repetitions) → its metrics over them; None if they may not be used."""


class Schedule(Protocol):
    """Chooses the repetitions of a run."""

    @property
    def most(self) -> int:
        """Repetitions at most."""
        ...

    @property
    def is_fixed(self) -> bool:
        """Whether all repetitions are known before the run."""
        ...

    def next(self, done: Collection[str], results: Results) -> Repetition | None:
        """Return the repetition after those with the names `done`; None at the end."""
        ...

    def left(self, done: Collection[str]) -> list[Repetition]:
        """Return the repetitions that are left; of a search, as many as may be left."""
        ...


@dataclass(frozen=True)
class Fixed:
    """All repetitions, in a given order."""

    repetitions: Sequence[Repetition]
    is_fixed = True

    @property
    def most(self) -> int:
        """All of them."""
        return len(self.repetitions)

    def next(self, done: Collection[str], results: Results) -> Repetition | None:
        """Return the first that is not done."""
        return next(iter(self.left(done)), None)

    def left(self, done: Collection[str]) -> list[Repetition]:
        """Return those that are not done, in order."""
        return [turn for turn in self.repetitions if turn.name not in done]


@dataclass(frozen=True)
class Searches:
    """All searches of a run. The one with the fewest repetitions comes next, so that a drift during
    the run affects all alike.
    """

    searches: Sequence[Searched]
    goal: GoalSearch
    is_fixed = False

    @property
    def most(self) -> int:
        """The sum over all searches."""
        return sum(self.goal.over(len(search.points)).repetitions_most for search in self.searches)

    def next(self, done: Collection[str], results: Results) -> Repetition | None:
        """Return the next repetition of the unfinished search that has fewest."""
        for search in sorted(self.searches, key=lambda search: _made(search, done)):
            steps = self.goal.steps(search.points)
            times = {step: number for step, point in enumerate(steps) if (number := times_of(point, done))}
            judged = {
                step: self.goal.judge(results(steps[step], number) or {}, number) for step, number in times.items()
            }
            step = self.goal.over(len(steps)).next(judged)
            if step is not None:
                return Repetition(steps[step], _first_missing(steps[step], done), len(done) + 1)
        return None

    def left(self, done: Collection[str]) -> list[Repetition]:
        """Return as many repetitions as may be left, of the highest levels, which take longest."""
        left: list[Repetition] = []
        for search in self.searches:
            levels = self.goal.over(len(search.points))
            highest = search.points[-levels.levels_most :]
            for made in range(_made(search, done), levels.repetitions_most):
                left.append(Repetition(highest[-1 - made % len(highest)], made + 1, 0))
        return left


def schedule_of(expanded: Expanded) -> Schedule:
    """Return the schedule of a run."""
    study, measure = expanded.study, expanded.measure
    if study.goal is None:
        return Fixed(expanded.repetitions)
    better = {metric: kind.of(study).better(study, metric) for metric in study.goal.written}
    return Searches(expanded.searches, study.goal.search(better, measure.repetitions, measure.most))


def _made(search: Searched, done: Collection[str]) -> int:
    return sum(times_of(point, done) for point in search.points)


def times_of(point: Point, done: Collection[str]) -> int:
    """Return how many repetitions of a point are done."""
    return sum(name.rpartition("-")[0] == point.id for name in done)


def _first_missing(point: Point, done: Collection[str]) -> int:
    """Return the lowest number of a repetition that the point lacks."""
    return next(number for number in count(1) if f"{point.id}-{number}" not in done)
