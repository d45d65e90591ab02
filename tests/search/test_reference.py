"""hakaru's MLRsearch takes the same decisions as the reference library (PyPI `MLRsearch`).

Both search on the same seeded device, and every trial is compared: load, duration and result. The
tests at the end show each known difference and which side follows the specification,
draft-ietf-bmwg-mlrsearch-15.
"""

from __future__ import annotations

import pytest
from hakaru.search import FORWARDING_GOALS, Controller, Goal, MlrSearch, RateGrid, Trial, TrialResult, Verdict
from hakaru.search.ledger import Tally, Target
from hakaru.search.simulated import SimulatedForwarder, run_simulated
from hypothesis import given
from hypothesis import strategies as st

from tests.search.reference import Measure, Recorder, own_search, reference_search

LINE = (9_001.0, 1_488_095.0)
"""Frames per second: the lowest load of FD.io CSIT, and 1 GbE with frames of 64 bytes."""


@st.composite
def goals(draw: st.DrawFn) -> tuple[Goal, ...]:
    """One to four goals.

    Binary fractions hold all durations, exceed ratios e and factors e / (1 - e) exactly, because
    the reference library computes with them. `test_reference_loses_nanoseconds` and
    tests/search/test_ledger.py have the differences for other values. Widths have four decimals,
    and none divides a range of loads: otherwise the last of 16 digits decides how many steps it
    has.
    """
    chosen = []
    for _ in range(draw(st.integers(1, 4))):
        initial_s = draw(st.sampled_from([0.25, 0.5, 1.0, 2.0]))
        final_s = initial_s * draw(st.sampled_from([1, 1, 2, 5.5]))
        chosen.append(
            Goal(
                loss_ratio=draw(st.sampled_from([0.0, 1e-4, 0.005, 0.03, 0.1, 0.5])),
                exceed_ratio=draw(st.sampled_from([0.0, 0.5, 0.75])),
                relative_width=draw(st.one_of(st.sampled_from([30, 50, 100]), st.integers(30, 5000))) / 1e4,
                initial_trial_s=initial_s,
                final_trial_s=final_s,
                duration_sum_s=final_s * draw(st.sampled_from([1, 2, 4, 7, 21])),
                preceding_targets=draw(st.integers(1, 3)),
                expansion=draw(st.integers(2, 4)),
            )
        )
    return tuple(dict.fromkeys(chosen))


@st.composite
def devices(draw: st.DrawFn, loads: tuple[float, float]) -> tuple[int, dict[str, object]]:
    """Seed and settings of a device whose capacity may lie outside the loads."""
    low, high = loads
    settings = {
        "capacity_per_s": low * (high / low) ** draw(st.floats(-0.05, 1.05)),
        "jitter": draw(st.sampled_from([0.0, 0.004, 0.1])),
        "bursts_per_s": draw(st.sampled_from([0.0, 0.02, 0.1, 0.5])),
        "burst_loss": draw(st.sampled_from([(0.0005, 0.01), (0.1, 0.9)])),
        "overhead_s": draw(st.sampled_from([0.0, 0.25, 0.5])),
    }
    return draw(st.integers(0, 10**6)), settings


@given(st.data(), goals(), st.sampled_from([LINE, (100.0, 10_000.0), (500.0, 1_001.0), (10.0, 1e9)]))
def test_every_trial_and_every_result_is_that_of_the_reference(
    data: st.DataObject, chosen: tuple[Goal, ...], loads: tuple[float, float]
) -> None:
    seed, settings = data.draw(devices(loads))
    warmup_s = data.draw(st.sampled_from([0.0, 1.0]))
    theirs = Recorder(SimulatedForwarder(seed, **settings).measure)
    ours = Recorder(SimulatedForwarder(seed, **settings).measure)
    search, expected = reference_search(chosen, loads, theirs, warmup_s=warmup_s)
    # `RateGrid.for_widths` has as many steps, but for the exceptions in tests/search/test_grid.py.
    grid = RateGrid(*loads, search.rounding.max_int_load)
    outcome = own_search(chosen, grid, ours, warmup_s=warmup_s)

    assert ours.log == theirs.log
    for result, (lower, upper, throughput) in zip(outcome.goals, expected, strict=True):
        assert result.lower == pytest.approx(lower)
        assert result.upper == pytest.approx(upper)
        if lower is None:
            assert result.verdict is Verdict.BELOW_RANGE
            continue
        try:
            assert result.throughput == pytest.approx(throughput())
        except RuntimeError:
            # The difference of `test_reference_loses_nanoseconds`, with an irrational sum.
            assert result.throughput is not None and result.throughput >= lower * (1 - result.goal.loss_ratio)


def trials_of(recorder: Recorder) -> list[tuple[float, float]]:
    return [(load, duration_s) for load, duration_s, _ in recorder.log]


def perfect(trial: Trial) -> TrialResult:
    """Return the result of a device that loses nothing."""
    return TrialResult(trial, offered=10_000, lost=0)


def test_reference_loses_nanoseconds() -> None:
    """Appendix A compares sums of durations. Ten trials of 0.1 s reach a sum of 1 s, but not in
    binary fractions: the reference runs an eleventh.
    """
    goal = Goal(exceed_ratio=0.0, initial_trial_s=0.1, final_trial_s=0.1, duration_sum_s=1.0)
    theirs, ours = Recorder(perfect), Recorder(perfect)
    reference_search([goal], LINE, theirs, warmup_s=0.0)
    outcome = own_search([goal], RateGrid.for_widths(*LINE, [0.005]), ours, warmup_s=0.0)
    assert (len(ours.log), len(theirs.log)) == (10, 11)
    assert outcome.goals[0].throughput == LINE[1]


def test_reference_has_no_throughput_where_sums_differ_in_the_last_digit() -> None:
    """Appendix B subtracts durations from their sum. With exceed ratio 0, a remainder of a
    femtosecond counts as complete loss in the reference, which then raises an error.
    """
    goal = Goal(loss_ratio=0.5, exceed_ratio=0.0, initial_trial_s=0.1, final_trial_s=0.1, duration_sum_s=0.6)
    losses = iter(range(1_000_000))
    device: Measure = lambda trial: TrialResult(trial, offered=1_000_000, lost=next(losses))  # noqa: E731
    _, [(lower, _, throughput)] = reference_search([goal], LINE, Recorder(device), warmup_s=0.0)
    assert lower == LINE[1]
    with pytest.raises(RuntimeError, match="Not positive"):
        throughput()
    tally = Tally(Target(0.5, 0.0, 1, 0.1, 0.6, 2))
    for lost in range(6):
        tally.add(TrialResult(Trial(1.0, 0.1), offered=1_000_000, lost=lost))
    assert tally.quantile_loss() == 5e-6


def test_unsent_frames_are_loss_only_for_the_reference() -> None:
    """The draft recommends to count a severe shortfall as loss, and leaves the choice. Here the
    device carries every frame of a tester that sends at most 500 kframes/s.
    """
    theirs = Recorder(SimulatedForwarder(1, capacity_per_s=2e6, bursts_per_s=0.0, sender_per_s=5e5).measure)
    ours = Recorder(SimulatedForwarder(1, capacity_per_s=2e6, bursts_per_s=0.0, sender_per_s=5e5).measure)
    _, [(lower, upper, _)] = reference_search([Goal()], LINE, theirs)
    assert lower is not None and upper is not None and lower < 5e5 < upper
    [result] = own_search([Goal()], RateGrid.for_widths(*LINE, [0.005]), ours).goals
    assert (result.verdict, result.upper) == (Verdict.TESTER_LIMIT, None)
    assert result.throughput == pytest.approx(5e5, rel=0.01)


def test_trial_that_offered_nothing_is_good_only_for_the_reference() -> None:
    """The draft recommends loads that forward at least one frame. The reference counts no frames as
    no loss; here the tester has failed.
    """
    device: Measure = lambda trial: TrialResult(trial, offered=0, lost=0)  # noqa: E731
    _, [(lower, _, _)] = reference_search([Goal()], LINE, Recorder(device))
    assert lower == LINE[1]
    [result] = own_search([Goal()], RateGrid.for_widths(*LINE, [0.005]), Recorder(device)).goals
    assert (result.verdict, result.throughput) == (Verdict.UNFINISHED, None)


def test_goal_that_no_load_meets_ends_only_the_search_of_the_reference() -> None:
    """The draft asks for irregular results. The reference raises an error for all goals, by
    default (`fail_fast`); the trials up to that point are the same.
    """
    chosen = (Goal(loss_ratio=0.0), Goal(loss_ratio=0.2))

    def device() -> Recorder:
        return Recorder(SimulatedForwarder(7, bursts_per_s=1.0, burst_loss=(0.1, 0.1)).measure)

    theirs, ours = device(), device()
    with pytest.raises(RuntimeError, match="No lower bound"):
        reference_search(chosen, LINE, theirs, fail_fast=True)
    outcome = own_search(chosen, RateGrid.for_widths(*LINE, [0.005]), ours)
    assert trials_of(theirs) == trials_of(ours)[: len(theirs.log)]
    assert [result.verdict for result in outcome.goals] == [Verdict.BELOW_RANGE, Verdict.BRACKETED]


def test_time_limit_leaves_results_only_here() -> None:
    """The draft asks for irregular results. The reference raises an error at its time limit."""
    theirs = Recorder(SimulatedForwarder(3).measure)
    with pytest.raises(RuntimeError, match="takes too long"):
        reference_search(FORWARDING_GOALS, LINE, theirs, budget_s=1e-9)
    grid = RateGrid.for_widths(*LINE, [goal.relative_width for goal in FORWARDING_GOALS])
    controller = Controller(MlrSearch(FORWARDING_GOALS), grid, budget_s=60.0)
    outcome = run_simulated(controller, SimulatedForwarder(3).measure)
    assert Verdict.UNFINISHED in {result.verdict for result in outcome.goals}
    assert outcome.trial_time_s <= 60.5, "the overhead of the last trial"
