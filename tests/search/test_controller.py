"""Time budget, trials that the tester could not send, and the inputs of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hakaru.search import (
    Bisection,
    Controller,
    CountGrid,
    Ended,
    Goal,
    MlrSearch,
    RateGrid,
    Trial,
    TrialResult,
    Verdict,
    loss_ratio_of_percentile,
)
from hakaru.search.simulated import SimulatedForwarder, run_simulated

GRID = RateGrid.for_widths(9_001.0, 1_488_095.0, [0.005])
GOAL = Goal(loss_ratio=1e-4)


def controller(budget_s: float | None = None) -> Controller:
    return Controller(MlrSearch([GOAL]), GRID, budget_s=budget_s)


def test_trial_stays_the_same_until_its_result_is_recorded() -> None:
    search = controller()
    first = search.next_trial(0.0)
    assert first == search.next_trial(5.0) == Trial(1_488_095.0, 1.0)
    assert search.outcome().ended is None


def test_no_trial_starts_that_would_end_after_the_budget() -> None:
    search = controller(budget_s=10.0)
    first = search.next_trial(100.0)
    assert first is not None
    search.record(TrialResult(first, offered=1_488_095, lost=700_000))
    assert search.next_trial(109.0) is not None
    assert search.next_trial(109.1) is None
    assert search.next_trial(100.0) is None, "the end is final"
    outcome = search.outcome()
    assert outcome.ended is Ended.BUDGET
    assert [result.verdict for result in outcome.goals] == [Verdict.UNFINISHED]
    assert len(outcome.trials) == 1


def test_goal_that_was_reached_before_the_budget_ended_keeps_its_verdict() -> None:
    goals = (Goal(duration_sum_s=3.0), Goal(loss_ratio=0.3, duration_sum_s=300.0))
    search = Controller(MlrSearch(goals), GRID, budget_s=100.0)
    outcome = run_simulated(search, SimulatedForwarder(1, bursts_per_s=0.01).measure)
    assert outcome.ended is Ended.BUDGET
    assert [result.verdict for result in outcome.goals] == [Verdict.BRACKETED, Verdict.UNFINISHED]


def failing(device: Callable[[Trial], TrialResult], trials: set[int]) -> Callable[[Trial], TrialResult]:
    """Return `device`, with a tester that sends only half in the trials of these numbers."""
    count = 0

    def measure(trial: Trial) -> TrialResult:
        nonlocal count
        count += 1
        result = device(trial)
        if count not in trials:
            return result
        return TrialResult(trial, offered=result.offered // 2, lost=0, intended=result.offered)

    return measure


def test_invalid_trials_are_repeated_and_change_nothing() -> None:
    undisturbed = run_simulated(controller(), SimulatedForwarder(5, jitter=0.0, bursts_per_s=0.0).measure)
    device = SimulatedForwarder(5, jitter=0.0, bursts_per_s=0.0).measure
    disturbed = run_simulated(controller(), failing(device, {1, 4, 5, 20}))
    assert disturbed.goals == undisturbed.goals
    assert [place for place, logged in enumerate(disturbed.trials, 1) if not logged.is_valid] == [1, 4, 5, 20]
    valid = [logged.result.trial for logged in disturbed.trials if logged.is_valid]
    assert valid == [logged.result.trial for logged in undisturbed.trials]


def test_search_continues_below_a_load_that_the_tester_cannot_send() -> None:
    device = SimulatedForwarder(5, capacity_per_s=900_000.0, bursts_per_s=0.0, sender_per_s=600_000.0)
    outcome = run_simulated(controller(), device.measure)
    [result] = outcome.goals
    assert result.verdict is Verdict.TESTER_LIMIT
    assert result.lower is not None and 597_000.0 <= result.lower <= 600_000.0
    assert [logged.is_valid for logged in outcome.trials[:4]] == [False, False, False, True]


def nearly_all_above(limit: float, share: float) -> Callable[[Trial], TrialResult]:
    """Return a device without loss, behind a tester that sends `share` of loads above `limit`."""

    def measure(trial: Trial) -> TrialResult:
        intended = round(trial.load)
        return TrialResult(
            trial, offered=intended if trial.load <= limit else int(intended * share), lost=0, intended=intended
        )

    return measure


def test_limit_of_a_tester_that_sends_nearly_all_is_halved_in() -> None:
    outcome = run_simulated(controller(), nearly_all_above(600_000.0, 0.995))
    [result] = outcome.goals
    assert result.verdict is Verdict.TESTER_LIMIT
    assert result.lower is not None and 597_000.0 <= result.lower <= 600_000.0
    assert min(logged.result.trial.load for logged in outcome.trials) < 400_000.0, "it has to rise again"


@pytest.mark.parametrize("exceed_ratio", [0.5, 0.0])
def test_lossy_warm_up_above_the_limit_of_the_tester_is_no_limit_of_the_device(exceed_ratio: float) -> None:
    """At an exceed ratio of 0, a single trial that counted would refuse the load."""
    behind, seen = nearly_all_above(600_000.0, 0.995), []

    def measure(trial: Trial) -> TrialResult:
        seen.append(trial)
        intended = round(trial.load)
        # The tester sends the first trial, the warm-up, of which cold caches lose frames.
        return behind(trial) if len(seen) > 1 else TrialResult(trial, offered=intended, lost=999, intended=intended)

    search = Controller(MlrSearch([replace(GOAL, exceed_ratio=exceed_ratio)]), GRID)
    [result] = run_simulated(search, measure).goals
    assert result.verdict is Verdict.TESTER_LIMIT


def test_lossy_first_trial_without_a_warm_up_counts() -> None:
    """The device is at its limit where the tester could send once."""
    behind, seen = nearly_all_above(600_000.0, 0.995), []

    def measure(trial: Trial) -> TrialResult:
        seen.append(trial)
        intended = round(trial.load)
        return behind(trial) if len(seen) > 1 else TrialResult(trial, offered=intended, lost=999, intended=intended)

    search = Controller(MlrSearch([replace(GOAL, exceed_ratio=0.0)], warmup_s=0.0), GRID)
    [result] = run_simulated(search, measure).goals
    assert result.verdict is not Verdict.TESTER_LIMIT


def test_budget_that_ends_in_a_higher_range_keeps_what_was_found_below() -> None:
    """The device loses frames close to the limit of the tester."""

    def measure(trial: Trial) -> TrialResult:
        intended = round(trial.load)
        offered = intended if trial.load <= 600_000.0 else int(intended * 0.995)
        return TrialResult(
            trial, offered=offered, lost=offered // 10 if trial.load > 580_000.0 else 0, intended=intended
        )

    whole = run_simulated(Controller(Bisection(GOAL), GRID), measure)
    best = 0.0
    for trials in range(1, len(whole.trials) + 1):
        budget_s = sum(logged.result.cost_s for logged in whole.trials[:trials])
        [result] = run_simulated(Controller(Bisection(GOAL), GRID, budget_s=budget_s), measure).goals
        if result.verdict is Verdict.TESTER_LIMIT:
            best = max(best, result.throughput or 0.0)
        assert (result.throughput or 0.0) >= best


def test_budget_that_ends_while_the_limit_of_the_tester_is_searched_keeps_the_result_below() -> None:
    device = nearly_all_above(600_000.0, 0.995)
    whole = run_simulated(controller(), device)
    first = next(place for place, logged in enumerate(whole.trials) if logged.is_valid)
    found = []
    for more in range(14, len(whole.trials) - first, 4):
        budget_s = sum(logged.result.cost_s for logged in whole.trials[: first + more])
        [result] = run_simulated(controller(budget_s), device).goals
        assert result.verdict is Verdict.TESTER_LIMIT
        found.append(result.lower)
    assert found == sorted(found)
    assert found[0] == whole.trials[first].result.trial.load


def test_bisection_keeps_its_result_when_the_budget_ends_during_the_search_for_the_limit_of_the_tester() -> None:
    device = nearly_all_above(600_000.0, 0.995)
    whole = run_simulated(Controller(Bisection(GOAL), GRID), device)
    first = next(place for place, logged in enumerate(whole.trials, 1) if logged.is_valid)
    for trials in range(first, len(whole.trials) + 1):
        budget_s = sum(logged.result.cost_s for logged in whole.trials[:trials])
        [result] = run_simulated(Controller(Bisection(GOAL), GRID, budget_s=budget_s), device).goals
        assert result.verdict is Verdict.TESTER_LIMIT and result.throughput is not None


def test_throughput_is_that_of_the_work_that_was_sent() -> None:
    search = Controller(MlrSearch([GOAL]), GRID, shortfall_max=0.0025)
    [result] = run_simulated(search, nearly_all_above(0.0, 0.998)).goals
    assert result.verdict is Verdict.AT_LEAST
    assert result.lower == pytest.approx(1_488_095.0)
    assert result.throughput == pytest.approx(0.998 * 1_488_095.0, rel=1e-5)


def test_capacity_below_the_limit_of_the_tester_is_found_as_usual() -> None:
    device = SimulatedForwarder(5, capacity_per_s=400_000.0, bursts_per_s=0.0, sender_per_s=600_000.0)
    [result] = run_simulated(controller(), device.measure).goals
    assert result.verdict is Verdict.BRACKETED
    assert result.throughput == pytest.approx(400_000.0, rel=0.01)


def test_disturbed_tester_tries_a_load_again_if_it_has_offered_a_higher_one() -> None:
    device = SimulatedForwarder(5, jitter=0.0, bursts_per_s=0.0).measure
    quiet = run_simulated(controller(), device)
    outcome = run_simulated(controller(), failing(device, {10, 11, 12}))
    disturbed = outcome.trials[9].result.trial
    assert [logged.result.trial for logged in outcome.trials[9:13]] == [disturbed] * 4
    assert [logged.is_valid for logged in outcome.trials[9:13]] == [False, False, False, True]
    assert outcome.goals == quiet.goals
    assert outcome.goals[0].verdict is Verdict.BRACKETED


def test_load_that_fails_for_long_lowers_the_top_and_keeps_the_results_below() -> None:
    device = SimulatedForwarder(5, jitter=0.0, bursts_per_s=0.0).measure
    outcome = run_simulated(controller(), failing(device, set(range(10, 22))))
    refused = outcome.trials[9].result.trial.load
    assert all(logged.result.trial.load == refused for logged in outcome.trials[9:21])
    assert all(logged.result.trial.load < refused for logged in outcome.trials[21:])
    # The device lost frames of loads above, so the tester is not what limits the result.
    assert any(t.is_valid and t.result.trial.load >= refused and t.result.lost for t in outcome.trials)
    assert outcome.goals[0].verdict in (Verdict.UNFINISHED, Verdict.BRACKETED)


def test_search_ends_if_the_tester_can_send_nothing() -> None:
    outcome = run_simulated(controller(), lambda trial: TrialResult(trial, offered=0, lost=0, intended=10))
    assert outcome.ended is Ended.TESTER
    assert [result.verdict for result in outcome.goals] == [Verdict.UNFINISHED]
    assert len(outcome.trials) == 6, "three times the highest and three times the lowest load"


def test_small_shortfall_is_valid() -> None:
    def measure(trial: Trial) -> TrialResult:
        return TrialResult(trial, offered=9_995, lost=0, intended=10_000)

    [result] = run_simulated(controller(), measure).goals
    assert result.verdict is Verdict.AT_LEAST


def test_whole_numbers_are_searched_to_the_exact_one() -> None:
    def measure(trial: Trial) -> TrialResult:
        assert trial.load == int(trial.load)
        return TrialResult(trial, offered=1_000, lost=0 if trial.load <= 23 else 500)

    [result] = run_simulated(Controller(MlrSearch([GOAL]), CountGrid(1, 64)), measure).goals
    assert (result.lower, result.upper, result.verdict) == (23, 24, Verdict.BRACKETED)


@pytest.mark.parametrize(
    "attributes",
    [
        {"loss_ratio": -0.1},
        {"loss_ratio": 1.0},
        {"exceed_ratio": 1.0},
        {"relative_width": 0.0},
        {"initial_trial_s": 0.0},
        {"final_trial_s": 0.5},
        {"duration_sum_s": 0.5},
        {"preceding_targets": 0},
        {"expansion": 1},
    ],
)
def test_goal_out_of_bounds_is_refused_by_name(attributes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(attributes))):
        Goal(**attributes)  # type: ignore[arg-type]


@pytest.mark.parametrize("goals", [[], [GOAL, GOAL]])
def test_search_needs_different_goals(goals: list[Goal]) -> None:
    with pytest.raises(ValueError, match="one or several different goals"):
        MlrSearch(goals)


@pytest.mark.parametrize(
    "counts",
    [
        {"offered": 5, "lost": 6},
        {"offered": 5, "lost": -1},
        {"offered": 5, "lost": 0, "intended": -1},
        {"offered": 5, "lost": 0, "effective_s": 0.0},
    ],
)
def test_contradictory_counts_are_refused(counts: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|takes time"):
        TrialResult(Trial(1.0, 1.0), **counts)  # type: ignore[arg-type]


def test_percentile_is_a_share_of_late_requests() -> None:
    assert [loss_ratio_of_percentile(percentile) for percentile in (99, 99.9, 50)] == [
        0.01,
        pytest.approx(0.001),
        0.5,
    ]
    with pytest.raises(ValueError, match="percentile"):
        loss_ratio_of_percentile(0)
