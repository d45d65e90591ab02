"""Searches over ordered levels, on systems whose answer is known."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from functools import cache

import pytest
from hakaru.search import LevelRange, LevelResult, LevelSearch, Verdict
from hakaru.study.goal import GoalSearch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

LIMIT = 10.0


@cache
def quantile(least: int, most: int, n: int) -> float:
    """The quantile of Student's t for the intervals of a goal."""
    confidence = GoalSearch((), "highest", least, most, None).confidence
    return float(stats.t.ppf((1 + confidence) / 2, n - 1))


def judge(values: list[float], search: LevelSearch) -> LevelResult:
    """Judge a level as a study's goal does, by the interval of the mean of its values."""
    mean, n = statistics.fmean(values), len(values)
    if n == 1:
        return LevelResult(n, meets=mean <= LIMIT, is_sure=False)
    half = quantile(search.least, search.most, n) * statistics.stdev(values) / n**0.5
    return LevelResult(n, meets=mean <= LIMIT, is_sure=mean + half <= LIMIT or mean - half > LIMIT)


def run(search: LevelSearch, measure: Callable[[int], float]) -> tuple[LevelRange, dict[int, list[float]]]:
    """Run a search; return its outcome and all values by step."""
    values: dict[int, list[float]] = {}
    while (step := search.next({s: judge(v, search) for s, v in values.items()})) is not None:
        values.setdefault(step, []).append(measure(step))
        assert len(values) <= search.levels_most
        assert sum(map(len, values.values())) <= search.repetitions_most
    return search.outcome({s: judge(v, search) for s, v in values.items()}), values


def noisy(seed: int) -> Callable[[int], float]:
    """A system whose mean response time is 1.4 ms for each VM, with noise of 6 %."""
    noise = random.Random(seed)
    return lambda step: 1.4 * (step + 1) * noise.gauss(1, 0.06)


@given(st.integers(2, 300), st.floats(0.1, 400.0), st.integers(2, 4), st.integers(0, 4))
def test_without_noise_the_range_is_exactly_the_known_answer(
    steps: int, capacity: float, least: int, more: int
) -> None:
    search = LevelSearch(steps, least, least + more)
    found, values = run(search, lambda step: LIMIT * (step + 1) / capacity)
    last = sum(LIMIT * (step + 1) / capacity <= LIMIT for step in range(steps)) - 1
    if last < 0:
        assert (found.verdict, found.answer, found.missing) == (Verdict.BELOW_RANGE, None, 0)
    elif last == steps - 1:
        assert (found.verdict, found.answer, found.low, found.high) == (Verdict.AT_LEAST, last, last, None)
    else:
        assert (found.verdict, found.answer, found.low, found.high) == (Verdict.BRACKETED, last, last, last)
        assert {step for step, each in values.items() if len(each) > 1} == {last, last + 1}
    assert found.contradiction is None


def test_with_noise_the_range_contains_the_known_answer() -> None:
    # 7 VMs (step 6) are the answer, with 9.8 ms. With values that vary by 6 %, a few of
    # them do not distinguish this from the limit.
    contained = exact = 0
    for seed in range(300):
        found, _ = run(LevelSearch(32, 3, 6), noisy(seed))
        low, high = 0 if found.low is None else found.low, 31 if found.high is None else found.high
        assert found.answer is not None and found.verdict is Verdict.BRACKETED
        contained += low <= 6 <= high
        exact += found.answer == 6
        assert high - low <= 5
    assert contained >= 0.9 * 300, contained
    assert exact >= 0.7 * 300, exact


@pytest.mark.parametrize(("least", "most", "spread"), [(3, 6, 0.06), (3, 10, 0.06), (3, 10, 0.15)])
def test_range_contains_the_known_answer_where_many_levels_are_close_to_the_limit(
    least: int, most: int, spread: float
) -> None:
    # 8 ms at the first level and 0.07 ms more at each: step 28 is the answer, with 9.96 ms.
    contained = 0
    for seed in range(300):
        noise = random.Random(seed)
        search = LevelSearch(64, least, most)
        found, _ = run(search, lambda step, noise=noise: (8 + 0.07 * step) * noise.gauss(1, spread))  # type: ignore[misc]
        low, high = 0 if found.low is None else found.low, 63 if found.high is None else found.high
        contained += low <= 28 <= high
    assert contained >= 0.9 * 300, contained


def test_noise_makes_the_range_wider_than_the_answer_only_next_to_the_limit() -> None:
    noise = random.Random(1)
    clear, _ = run(LevelSearch(32, 3, 6), lambda step: (5 if step <= 6 else 20) * noise.gauss(1, 0.06))
    assert (clear.answer, clear.low, clear.high) == (6, 6, 6)


def test_search_that_is_interrupted_after_any_repetition_continues_alike() -> None:
    def values_of(step: int, number: int) -> float:
        return 1.4 * (step + 1) * random.Random(f"{step}-{number}").gauss(1, 0.06)

    search = LevelSearch(32, 3, 6)
    values: dict[int, list[float]] = {}
    order: list[int] = []
    while (step := search.next({s: judge(v, search) for s, v in values.items()})) is not None:
        order.append(step)
        values.setdefault(step, []).append(values_of(step, len(values.get(step, []))))
    for stopped in range(len(order)):
        kept: dict[int, list[float]] = {}
        for step in order[:stopped]:
            kept.setdefault(step, []).append(values_of(step, len(kept.get(step, []))))
        shuffled = {step: judge(kept[step], search) for step in random.Random(stopped).sample(sorted(kept), len(kept))}
        assert LevelSearch(32, 3, 6).next(shuffled) == order[stopped]


def test_budget_ends_the_search_and_the_verdict_says_so() -> None:
    found, values = run(LevelSearch(32, 2, 4, budget=4), lambda step: 1.4 * (step + 1))
    assert sum(map(len, values.values())) == 4
    assert found.verdict is Verdict.UNFINISHED
    assert found.low is None and found.high is None


def test_explicit_budget_is_the_only_limit_of_levels() -> None:
    usual, budgeted = LevelSearch(64, 3, 6), LevelSearch(64, 3, 6, budget=300)
    assert (usual.levels_most, budgeted.levels_most) == (14, 64)
    unfinished = dict.fromkeys((usual, budgeted), 0)
    for seed in range(60):
        for search in unfinished:
            noise = random.Random(seed)
            found, _ = run(search, lambda step, noise=noise: (8 + 0.07 * step) * noise.gauss(1, 0.06))  # type: ignore[misc]
            unfinished[search] += found.verdict is Verdict.UNFINISHED
    assert unfinished[budgeted] == 0 < unfinished[usual]


def test_level_that_was_measured_first_with_bad_luck_moves_the_bounds_when_it_is_confirmed() -> None:
    unlucky = iter([11.0])

    def measure(step: int) -> float:
        usual = 5.0 + 0.01 * step if step <= 8 else 20.0
        return next(unlucky, usual) if step == 7 else usual

    found, _ = run(LevelSearch(16, 3, 5), measure)
    assert found.answer == 8, "step 7 misses once and then meets"


def test_contradiction_of_monotony_is_reported() -> None:
    results = {0: LevelResult(3, meets=False, is_sure=True), 5: LevelResult(3, meets=True, is_sure=True)}
    assert LevelSearch(8, 2, 3).outcome(results).contradiction == (0, 5)


def test_level_at_which_the_load_generator_is_the_limit_ends_the_search_below_it() -> None:
    search = LevelSearch(16, 2, 3)
    results: dict[int, LevelResult] = {}
    while (step := search.next(results)) is not None:
        times = results[step].repetitions + 1 if step in results else 1
        results[step] = LevelResult(times, meets=step < 10, is_sure=step < 10 and times > 1, is_usable=step < 10)
    found = search.outcome(results)
    assert (found.verdict, found.answer, found.missing, found.high) == (Verdict.TESTER_LIMIT, 9, 10, None)


@pytest.mark.parametrize(
    ("meeting", "measured", "contradiction"),
    [((), {0, 7, 15}, None), ((15,), {0, 15}, (0, 15)), ((5, 6, 7, 8, 9), {0, 7, 15}, (0, 7))],
)
def test_search_that_misses_at_the_easiest_level_looks_at_the_hardest_and_the_middle(
    meeting: tuple[int, ...], measured: set[int], contradiction: tuple[int, int] | None
) -> None:
    found, values = run(LevelSearch(16, 2, 3), lambda step: 5.0 if step in meeting else 20.0)
    assert (found.verdict, found.missing) == (Verdict.BELOW_RANGE, 0)
    assert (set(values), found.contradiction) == (measured, contradiction)


@pytest.mark.parametrize("arguments", [(1, 1, 1), (2, 0, 1), (2, 3, 2), (2, 1, 1, 0)])
def test_impossible_searches_are_refused(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        LevelSearch(*arguments)
