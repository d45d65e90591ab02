"""Loads of plain bisection and of the published procedure, trial by trial."""

from __future__ import annotations

import pytest
from hakaru.search import (
    Bisection,
    Controller,
    CountGrid,
    Ended,
    Goal,
    Outcome,
    Procedure,
    PublishedProcedure,
    Trial,
    TrialResult,
    Verdict,
)
from hakaru.search.simulated import run_simulated

GOAL = Goal(loss_ratio=1e-4, initial_trial_s=10.0, final_trial_s=10.0)
GRID = CountGrid(1, 100)


def search(
    procedure: Procedure, capacity: float, *, lossy_trials: tuple[int, ...] = (), budget_s: float | None = None
) -> Outcome:
    """Search on a device that carries `capacity`, except in the trials of these numbers."""
    trials = iter(range(1, 1000))

    def measure(trial: Trial) -> TrialResult:
        is_good = next(trials) not in lossy_trials and trial.load <= capacity
        return TrialResult(trial, offered=1000, lost=0 if is_good else 1)

    return run_simulated(Controller(procedure, GRID, budget_s=budget_s), measure)


def loads(outcome: Outcome) -> list[float]:
    return [logged.result.trial.load for logged in outcome.trials]


def test_bisection_halves_between_the_bounds() -> None:
    outcome = search(Bisection(GOAL), 37)
    assert loads(outcome) == [100, 50, 25, 37, 43, 40, 38]
    [result] = outcome.goals
    assert (result.lower, result.upper, result.throughput, result.trials) == (37, 38, 37, 7)
    assert result.verdict is Verdict.BRACKETED
    assert {logged.result.trial.duration_s for logged in outcome.trials} == {10.0}


def test_published_procedure_halves_the_load_after_loss_and_else_takes_the_mean() -> None:
    outcome = search(PublishedProcedure(GOAL, repeats=1), 37)
    assert loads(outcome) == [
        *(100, 50, 25, 37, 43),
        *(21, 32, 37, 40),
        *(20, 30, 35, 37, 38),
        *(19, 28, 33, 35, 36, 37),
    ]
    [result] = outcome.goals
    assert (result.lower, result.upper, result.repeats) == (37, 38, (37,))


def test_result_of_the_published_procedure_is_the_mean_of_its_searches() -> None:
    # The fourth trial loses frames by chance, so the first search ends below 37.
    outcome = search(PublishedProcedure(GOAL), 37, lossy_trials=(4,))
    [result] = outcome.goals
    assert result.repeats == (36, 37, 37)
    assert result.throughput == pytest.approx(110 / 3)
    assert (result.lower, result.upper, result.verdict) == (36, 38, Verdict.BRACKETED)


@pytest.mark.parametrize("procedure", [Bisection(GOAL), PublishedProcedure(GOAL)])
def test_device_that_carries_every_load_has_at_least_the_highest(procedure: Procedure) -> None:
    [result] = search(procedure, 1000).goals
    assert (result.verdict, result.throughput, result.upper) == (Verdict.AT_LEAST, 100, None)


@pytest.mark.parametrize("procedure", [Bisection(GOAL), PublishedProcedure(GOAL)])
def test_device_that_carries_no_load_has_no_result(procedure: Procedure) -> None:
    [result] = search(procedure, 0).goals
    assert (result.verdict, result.throughput, result.lower, result.upper) == (Verdict.BELOW_RANGE, None, None, 1)


@pytest.mark.parametrize("procedure", [Bisection(GOAL), PublishedProcedure(GOAL)])
def test_search_within_a_budget_is_unfinished(procedure: Procedure) -> None:
    outcome = search(procedure, 37, budget_s=40.0)
    assert outcome.ended is Ended.BUDGET
    assert loads(outcome) == [100, 50, 25, 37]
    assert outcome.goals[0].verdict is Verdict.UNFINISHED


@pytest.mark.parametrize("procedure", [Bisection(GOAL), PublishedProcedure(GOAL)])
def test_search_starts_again_below_a_load_that_the_tester_cannot_send(procedure: Procedure) -> None:
    def measure(trial: Trial) -> TrialResult:
        return TrialResult(trial, offered=min(60, round(trial.load)), lost=0, intended=round(trial.load))

    outcome = run_simulated(Controller(procedure, GRID), measure)
    assert outcome.goals[0].verdict is Verdict.TESTER_LIMIT
    assert outcome.goals[0].throughput == 60


def test_published_procedure_runs_at_least_once() -> None:
    with pytest.raises(ValueError, match="at least once"):
        PublishedProcedure(GOAL, repeats=0)
