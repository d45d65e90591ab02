"""Accuracy, repeatability and time of the searches on devices of known capacity."""

from __future__ import annotations

import math
import statistics

import pytest
from hakaru.search import (
    FORWARDING_GOALS,
    Bisection,
    Controller,
    CountGrid,
    Goal,
    MlrSearch,
    Outcome,
    Procedure,
    RateGrid,
    Trial,
    Verdict,
    loss_ratio_of_percentile,
)
from hakaru.search.simulated import SimulatedForwarder, SimulatedServer, run_simulated

CAPACITY = 800_000.0
GRID = RateGrid.for_widths(9_001.0, 1_488_095.0, [0.003])


def outcomes(procedure: type[MlrSearch] | type[Bisection], *arguments: object) -> list[Outcome]:
    """Return the outcome of a search for each of 20 seeds; a second has a burst of loss with a
    probability of 10 %.
    """

    def search(seed: int) -> Outcome:
        fresh: Procedure = procedure(*arguments)  # type: ignore[arg-type]
        device = SimulatedForwarder(seed, capacity_per_s=CAPACITY, bursts_per_s=0.1)
        return run_simulated(Controller(fresh, GRID), device.measure)

    return [search(seed) for seed in range(20)]


def throughputs(searches: list[Outcome]) -> list[float]:
    return [outcome.goals[0].throughput or 0.0 for outcome in searches]


def test_mlrsearch_finds_the_capacity_in_spite_of_bursts_within_a_minute() -> None:
    searches = outcomes(MlrSearch, FORWARDING_GOALS[:1])
    found = throughputs(searches)
    assert {outcome.goals[0].verdict for outcome in searches} == {Verdict.BRACKETED}
    assert max(abs(throughput / CAPACITY - 1) for throughput in found) < 0.005
    assert statistics.stdev(found) / statistics.mean(found) < 0.005
    assert max(outcome.trial_time_s for outcome in searches) < 60


def test_bisection_with_trials_of_10_s_is_not_repeatable_under_bursts() -> None:
    found = throughputs(outcomes(Bisection, Goal(initial_trial_s=10.0, final_trial_s=10.0)))
    assert statistics.stdev(found) / statistics.mean(found) > 0.2


def test_all_goals_are_searched_at_once_and_are_in_order() -> None:
    device = SimulatedForwarder(4, bursts_per_s=0.02)
    grid = RateGrid.for_widths(9_001.0, 1_488_095.0, [goal.relative_width for goal in FORWARDING_GOALS])
    outcome = run_simulated(Controller(MlrSearch(FORWARDING_GOALS), grid), device.measure)
    typical, always, none, half_percent = [result.throughput or 0.0 for result in outcome.goals]
    assert always <= none <= typical <= half_percent
    assert typical == pytest.approx(CAPACITY, rel=0.005)
    assert sum(result.trials for result in outcome.goals) == len(outcome.trials) - 4, "warm-up and initial trials"


SERVER = {"capacity_per_s": 5_000.0, "requests_per_vm": 100.0, "limit_ms": 20.0}
P99 = Goal(loss_ratio=loss_ratio_of_percentile(99))


def test_number_of_vms_with_a_p99_of_20_ms_is_found_exactly() -> None:
    for seed in range(20):
        server = SimulatedServer(seed, **SERVER)
        assert math.floor(server.max_load(P99.loss_ratio)) == 47
        outcome = run_simulated(Controller(MlrSearch([P99]), CountGrid(1, 64)), server.measure)
        assert (outcome.goals[0].lower, outcome.goals[0].upper) == (47, 48)


def test_rate_of_requests_with_a_p99_of_20_ms_is_found() -> None:
    server = SimulatedServer(1, **(SERVER | {"requests_per_vm": 1.0}))
    grid = RateGrid.for_widths(100.0, 20_000.0, [0.005])
    outcome = run_simulated(Controller(MlrSearch([Goal(loss_ratio=0.01)]), grid), server.measure)
    lower = outcome.goals[0].lower
    assert lower == pytest.approx(server.max_load(0.01), rel=0.005)


def test_share_of_late_requests_at_the_found_load_is_that_of_the_percentile() -> None:
    server = SimulatedServer(1, **SERVER)
    assert server.late_ratio(server.max_load(0.01)) == pytest.approx(0.01)
    assert server.late_ratio(50.0) == server.late_ratio(80.0) == 1.0, "saturated"


def test_forwarder_loses_what_is_above_its_capacity_and_one_share_per_burst() -> None:
    steady = SimulatedForwarder(1, jitter=0.0, bursts_per_s=0.0)
    result = steady.measure(Trial(1_000_000.0, 2.0))
    assert (result.offered, result.lost, result.cost_s) == (2_000_000, 400_000, 2.5)
    bursty = SimulatedForwarder(1, jitter=0.0, bursts_per_s=1.0, burst_loss=(0.01, 0.01))
    assert bursty.measure(Trial(100_000.0, 3.0)).loss_ratio == pytest.approx(0.01)
    assert bursty.measure(Trial(100_000.0, 0.5)).lost in (0, 500)


def test_same_seed_gives_the_same_search() -> None:
    assert outcomes(MlrSearch, FORWARDING_GOALS) == outcomes(MlrSearch, FORWARDING_GOALS)
