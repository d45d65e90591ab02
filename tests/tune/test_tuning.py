"""The course of a tuning against a path that answers by the closed forms: its ends, its order, what
it advises.
"""

from __future__ import annotations

import pytest
from hakaru.tune.knobs import changed, defaults_of, settle
from hakaru.tune.tuning import FAILURES_MAX, Limits, Trial

from tests.tune.path_model import PathModel, conditions, run


def test_search_ends_where_nothing_more_can_be_reached_and_knobs_are_switched_back() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model)
    assert tuning.search_ended(trials) == "reached"
    assert [t.phase for t in trials].count("search") == 2
    best = tuning.best(trials)
    assert best is not None
    turned = set(tuning.switched(best))
    measured = [t for t in trials if t.phase == "contribution"]
    # Each as often as the best itself, every round has them all.
    for knob in (None, *turned):
        assert [t.knob for t in measured].count(knob) == 3
    round_of = len(turned) + 1
    assert all(
        {t.knob for t in measured[i : i + round_of]} == {None, *turned} for i in range(0, 3 * round_of, round_of)
    )


def test_contributions_are_what_the_model_says_within_their_intervals() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model)
    best = tuning.best(trials)
    assert best is not None
    inside = 0
    found = tuning.contributions(trials)
    for one in found:
        true = 100 * (1 - model.exact(tuning.switched(best)[one.knob]) / model.exact(best))
        assert one.low is not None and one.high is not None
        inside += one.low <= true <= one.high
        assert one.loss_percent == pytest.approx(true, abs=5)
    # 95 % of intervals hold; of about ten one may not.
    assert inside >= len(found) - 2
    by_name = {one.knob: one for one in found}
    # 4 MiB through a send buffer of 512 KiB: 26 MB/s over 20 ms instead of what the link carries.
    assert by_name["send_buffer"].loss_percent > 70 and by_name["send_buffer"].contributes
    assert not by_name["slow_start_after_idle"].contributes


def test_knobs_that_contribute_nothing_go_back_and_that_is_measured() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model)
    best, (advised, measured) = tuning.best(trials), tuning.advised(trials)
    assert best is not None and advised is not None and measured
    assert model.exact(advised) >= 0.96 * model.exact(best)
    turned = {knob.name for knob in changed(model.space, advised)}
    assert turned < {knob.name for knob in changed(model.space, best)}
    assert "slow_start_after_idle" not in turned and "send_buffer" in turned
    assert [t.settings for t in trials if t.phase == "advice"].count(advised) == 3


def test_knobs_that_stand_in_for_each_other_do_not_both_go() -> None:
    """Either knob alone is enough: each contributes nothing by itself, both together everything."""
    model = PathModel(conditions(20), noise=0.0)
    one, other = "send_buffer", "receive_buffer"
    default = defaults_of(model.space)

    def exact(settings: dict[str, object]) -> float:
        return 100.0 if settings[one] != default[one] or settings[other] != default[other] else 30.0

    model.exact = exact  # type: ignore[method-assign, assignment]
    tuning = model.tuning(limits=Limits(trials=2, budget_s=1e9))
    trials = run(tuning, model)
    assert all(not c.contributes for c in tuning.contributions(trials))
    advised, measured = tuning.advised(trials)
    assert advised is not None and measured
    assert exact(dict(advised)) == 100.0
    assert len(changed(model.space, advised)) < len(changed(model.space, tuning.best(trials) or {}))


def test_advice_may_be_slower_by_what_cannot_be_told_apart() -> None:
    """Where a trial differs by 8 %, knobs that are worth nothing do not stay turned for the sake of
    noise.
    """
    turned = {0.0: 0, 0.08: 0}
    for noise in turned:
        model = PathModel(conditions(20), noise=noise, seed=4)
        tuning = model.tuning()
        trials = run(tuning, model)
        advised, measured = tuning.advised(trials)
        assert advised is not None and measured
        turned[noise] = len(changed(model.space, advised))
        assert model.exact(advised) >= 0.9 * model.optimum()[1]
    assert turned[0.08] <= turned[0.0] + 1


def test_run_that_was_cut_anywhere_goes_on_the_same_way() -> None:
    model = PathModel(conditions(20), noise=0.0)
    tuning = model.tuning(seed=5, limits=Limits(trials=6, budget_s=1e9))
    whole = run(tuning, model)
    for cut in range(0, len(whole), 3):
        assert run(tuning, model, whole[:cut], len(whole)) == whole


def test_budget_of_time_leaves_room_for_the_contributions() -> None:
    # Loss with neither bound in reach: the search would go on.
    model = PathModel(conditions(20, loss=0.5), noise=0.02)
    tuning = model.tuning(limits=Limits(budget_s=400, patience=100, trials=100))
    trials = run(tuning, model)
    assert tuning.search_ended(trials) == "time"
    # A few seconds beyond are what the last step takes.
    assert sum(t.seconds for t in trials) <= 400 + 8
    assert {None} < {t.knob for t in trials if t.phase == "contribution"}
    best = tuning.best(trials)
    assert best is not None
    assert [t.phase for t in trials].count("contribution") == 3 * (1 + len(tuning.switched(best)))


def test_search_without_progress_ends() -> None:
    model = PathModel(conditions(20, loss=0.5), noise=0.0)
    model.exact = lambda settings: 10.0  # type: ignore[method-assign]
    tuning = model.tuning(limits=Limits(patience=4, budget_s=1e9))
    trials = run(tuning, model)
    assert tuning.search_ended(trials) == "patience"
    assert [t.phase for t in trials].count("search") == 5


def test_failures_in_a_row_end_it_and_single_ones_do_not() -> None:
    model = PathModel(conditions(20))
    tuning = model.tuning(limits=Limits(budget_s=1e9))
    trials: list[Trial] = []
    for _ in range(FAILURES_MAX):
        step = tuning.next(trials)
        assert step is not None
        trials.append(Trial(step.phase, step.settings, step.knob, None, 4.0, error="refused"))
    assert tuning.next(trials) is None and tuning.search_ended(trials) == "failed"
    assert tuning.advised(trials) == (None, False)


def test_defaults_that_are_best_are_left_alone() -> None:
    model = PathModel(conditions(20), noise=0.0)
    default = settle(model.space, defaults_of(model.space))
    model.exact = lambda settings: 50.0 if settings == default else 20.0  # type: ignore[method-assign]
    tuning = model.tuning(limits=Limits(trials=4, budget_s=1e9))
    trials = run(tuning, model)
    assert tuning.switched(default) == {}
    assert tuning.advised(trials) == (default, True)
    assert tuning.contributions(trials) == []
