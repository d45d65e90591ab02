"""Search for the last level of an ordered factor that meets a goal, by repetitions of whole
measurements.

The other searches of this package judge a load by one trial, or by the share of trial time that
misses the goal. Here a level is judged by all of its repetitions together: by their mean, and by
whether the interval of the mean lies on one side of the limit. The answer is therefore a range.

The order of repetitions:

    ends      the easiest level, then the hardest one; if both miss the goal, the one in the middle
    bisect    the level in the middle between the last that meets the goal and the first that misses
    confirm   once these two are neighbours, both are repeated until they are decided
    widen     if one is still undecided after all its repetitions, levels farther out, until one is
              decided on that side

Nothing is remembered between calls: the next step follows from the results alone, so a search that
was interrupted continues where it stopped. A mean that changes sides while a level is confirmed
moves the bounds. The search assumes that a level harder than one that misses the goal misses it too
(monotony), and reports results that contradict this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hakaru.search.goal import Verdict

WIDENING_MAX = 3
"""Levels on each side that `widen` may add. Their distance doubles: 1, 3 and 7 steps."""


@dataclass(frozen=True)
class LevelResult:
    """Judgement of a level by its repetitions."""

    repetitions: int
    """Repetitions that were run, at least 1."""
    meets: bool
    """Whether the mean meets the goal."""
    is_sure: bool
    """Whether the whole interval is on the side of the mean."""
    is_usable: bool = True
    """False: the repetitions say nothing about the system, because the load generator was at its
    limit or gave no value. Such a level does not meet the goal."""


@dataclass(frozen=True)
class LevelRange:
    """Result of a search, as steps. The range is empty where a bound is None."""

    verdict: Verdict
    answer: int | None
    """Last step that meets the goal, by its mean. None if the first one misses it."""
    low: int | None
    """Last step, up to the answer, that surely meets the goal."""
    missing: int | None
    """First step that misses the goal, by its mean."""
    sure_miss: int | None
    """First step above the answer that surely misses the goal."""
    contradiction: tuple[int, int] | None
    """A step that surely misses the goal, and a harder one that surely meets it. If even the first
    step misses the goal, a harder one that meets it by its mean is enough."""

    @property
    def high(self) -> int | None:
        """Last step that does not surely miss the goal; None if no step surely misses it."""
        return self.sure_miss - 1 if self.sure_miss else None


@dataclass(frozen=True)
class LevelSearch:
    """A search over the steps from 0 (the easiest) to `steps - 1`. Raises ValueError out of bounds.

    - `least`: repetitions that a level next to the answer gets in any case, at least 1.
    - `most`: repetitions of one level, at least `least`.
    - `budget`: repetitions of the whole search, at least 1. None: as many as a search with a few
      undecided levels needs.
    """

    steps: int
    least: int
    most: int
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.steps < 2 or not 1 <= self.least <= self.most or (self.budget is not None and self.budget < 1):
            raise ValueError(f"out of bounds: {self}")

    @property
    def levels_most(self) -> int:
        """Levels that are measured at most; with a budget, it alone limits them."""
        if self.budget is not None:
            return min(self.steps, self.repetitions_most)
        return min(self.steps, self._bisected + 2 * WIDENING_MAX, self.repetitions_most)

    @property
    def repetitions_most(self) -> int:
        """Repetitions that are run at most."""
        usual = self._bisected + (2 + 2 * WIDENING_MAX) * self.most
        return min(usual if self.budget is None else self.budget, self.steps * self.most)

    @property
    def _bisected(self) -> int:
        """Levels that ends and bisection take if no level is measured twice."""
        return 2 + (self.steps - 2).bit_length()

    def next(self, results: Mapping[int, LevelResult]) -> int | None:
        """Return the step to measure once more, or None at the end of the search."""
        if sum(result.repetitions for result in results.values()) >= self.repetitions_most:
            return None
        step = next(self._wanted(results), None)
        is_new = step is not None and step not in results
        return None if is_new and len(results) >= self.levels_most else step

    def outcome(self, results: Mapping[int, LevelResult]) -> LevelRange:
        """Return the results so far; they are final after `next` returned None."""
        lower, upper = _bounds(results)
        sure = {step: result.meets for step, result in results.items() if result.is_sure}
        met = [step for step, meets in sure.items() if meets]
        missed = [step for step, meets in sure.items() if not meets]
        low = max((step for step in met if lower is not None and step <= lower), default=None)
        above = min((step for step in missed if lower is None or step > lower), default=None)
        contradiction = None
        if met and missed and min(missed) < max(met):
            contradiction = (min(missed), max(met))
        elif lower is None and upper is not None and results[upper].is_usable:
            harder = [step for step, result in results.items() if result.meets and result.is_usable and step > upper]
            contradiction = (upper, max(harder)) if harder else None
        return LevelRange(
            verdict=self._verdict(results, lower, upper),
            answer=lower,
            low=low,
            missing=upper,
            sure_miss=above,
            contradiction=contradiction,
        )

    def _wanted(self, results: Mapping[int, LevelResult]) -> Iterator[int]:
        """Yield the steps that the rules ask for, in order. Only the first is used."""
        lower, upper = _bounds(results)
        top = self.steps - 1
        if 0 not in results:
            yield 0
        if top not in results:
            yield top
        if upper == 0 and top // 2 not in results and _misses(results.get(0)) and _misses(results.get(top)):
            yield top // 2
        if lower is not None and upper is not None and upper - lower > 1:
            yield (lower + upper) // 2
        ends = [step for step in (lower, upper) if step is not None and not self._is_settled(results.get(step))]
        yield from sorted(ends, key=lambda step: results[step].repetitions if step in results else 0)
        if lower is not None:
            yield from self._widening(results, lower, -1, meets=True)
        if upper is not None:
            yield from self._widening(results, upper, 1, meets=False)

    def _widening(self, results: Mapping[int, LevelResult], end: int, sign: int, *, meets: bool) -> Iterator[int]:
        """Yield unsettled steps beyond an undecided end, until one is surely on its side."""
        for count in range(WIDENING_MAX + 1):
            step = end + sign * (2**count - 1)
            if not 0 <= step < self.steps:
                step = 0 if sign < 0 else self.steps - 1
            result = results.get(step)
            if not self._is_settled(result):
                yield step
            elif result is not None and (not result.is_usable or (result.is_sure and result.meets == meets)):
                return

    def _is_settled(self, result: LevelResult | None) -> bool:
        """Return whether further repetitions of a level would not be used."""
        if result is None or result.repetitions < self.least:
            return False
        return result.is_sure or not result.is_usable or result.repetitions >= self.most

    def _verdict(self, results: Mapping[int, LevelResult], lower: int | None, upper: int | None) -> Verdict:
        ends = [results[step] for step in (lower, upper) if step is not None]
        if not ends or not all(self._is_settled(end) for end in ends):
            return Verdict.UNFINISHED
        if upper is None:
            return Verdict.AT_LEAST if lower == self.steps - 1 else Verdict.UNFINISHED
        if lower is not None and upper - lower > 1:
            return Verdict.UNFINISHED
        if not results[upper].is_usable:
            return Verdict.TESTER_LIMIT
        return Verdict.BELOW_RANGE if lower is None else Verdict.BRACKETED


def _misses(result: LevelResult | None) -> bool:
    """Return whether a level is known to miss the goal by its mean."""
    return result is not None and result.is_usable and not result.meets


def _bounds(results: Mapping[int, LevelResult]) -> tuple[int | None, int | None]:
    """Return the last step that meets the goal below the first one that misses it, and the latter.

    Steps above it are ignored even if they meet the goal, so the result is conservative.
    """
    lower = None
    for step in sorted(results):
        if not results[step].meets or not results[step].is_usable:
            return lower, step
        lower = step
    return lower, None
