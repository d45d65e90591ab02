"""The next repetition of a run.

    Fixed     the order that the study was expanded to
    Precise   the same, then further rounds of the points whose intervals are too wide
    Searches  the searches for its goal, whose next repetition follows from the results so far

A schedule remembers nothing. It is asked with the names of the finished repetitions, and reads
results through a function, so a run that was interrupted continues where it stopped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from hakaru.study import Expanded, Point, Repetition, kind
from hakaru.study.expand import Searched
from hakaru.study.goal import GoalSearch
from hakaru.study.model import Measure
from hakaru.study.results import PointResults, half_percent

Results = Callable[[Point, int], PointResults | None]
"""(point, number of its repetitions) → its results over them; None if they may not be used."""


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
        """Return the repetitions that are left; if results decide, as many as may be left."""
        ...

    def planned(self, point: Point, done: Collection[str]) -> int:
        """Return the repetitions of a point that are done or certain; 0: it may not be measured."""
        ...


@dataclass(frozen=True)
class Fixed:
    """All repetitions, in a given order."""

    repetitions: Sequence[Repetition]
    measure: Measure
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

    def planned(self, point: Point, done: Collection[str]) -> int:
        """Return those of the study."""
        return self.measure.repetitions


@dataclass(frozen=True)
class Precise:
    """All points, until their intervals are as narrow as requested or they have the most
    repetitions.

    The width of these intervals follows from the spread of the first repetitions alone
    (`Estimate.two_stage`), so that further ones do not end early by chance.

    Further rounds have an order of their own, like the first ones. A point whose results may not be
    used gets no further repetitions.
    """

    expanded: Expanded
    is_fixed = False

    @property
    def most(self) -> int:
        """The most repetitions of all points."""
        return len(self.expanded.points) * self.expanded.measure.most

    def next(self, done: Collection[str], results: Results) -> Repetition | None:
        """Return the next of the first rounds, then of the point that has fewest."""
        first = Fixed(self.expanded.repetitions, self.expanded.measure).left(done)
        if first:
            return first[0]
        times = {point.id: times_of(point, done) for point in self.expanded.points}
        for number in range(self.expanded.measure.repetitions, self.expanded.measure.most):
            order = random.Random(f"{self.expanded.seed}-{number}")
            for point in order.sample(self.expanded.points, len(self.expanded.points)):
                if times[point.id] == number and not self._is_enough(number, results(point, number)):
                    return Repetition(point, _first_missing(point, done), len(done) + 1)
        return None

    def _is_enough(self, number: int, found: PointResults | None) -> bool:
        measure = self.expanded.measure
        return found is None or (number >= measure.first_stage and is_precise(measure, found))

    def left(self, done: Collection[str]) -> list[Repetition]:
        """Return as many repetitions as may be left."""
        left = Fixed(self.expanded.repetitions, self.expanded.measure).left(done)
        most = self.expanded.measure.most
        for point in self.expanded.points:
            numbers = range(max(times_of(point, done), self.expanded.measure.repetitions) + 1, most + 1)
            left += [Repetition(point, number, 0) for number in numbers]
        return left

    def planned(self, point: Point, done: Collection[str]) -> int:
        """Return those of the first rounds, or as many as were run."""
        return max(self.expanded.measure.repetitions, times_of(point, done))


def is_precise(measure: Measure, found: PointResults) -> bool:
    """Return whether all intervals are as narrow as requested."""
    return all(
        (half := half_percent(found.metrics.get(metric))) is not None and half <= percent
        for metric, percent in measure.precisions(found.chief).items()
    )


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
                step: self.goal.judge(found.metrics if (found := results(steps[step], number)) else {}, number)
                for step, number in times.items()
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

    def planned(self, point: Point, done: Collection[str]) -> int:
        """Return those that were run."""
        return times_of(point, done)


def schedule_of(expanded: Expanded) -> Schedule:
    """Return the schedule of a run."""
    study, measure = expanded.study, expanded.measure
    if study.goal is None:
        return Fixed(expanded.repetitions, measure) if measure.precision is None else Precise(expanded)
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
