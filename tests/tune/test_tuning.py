"""A tuning of a model of a path from the closed forms: its end, its order and its advice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hakaru.tune.knobs import changed, defaults_of, settle
from hakaru.tune.tuning import FAILURES_MAX, Limits, Trial, counted_rate

from tests.tune.path_model import PathModel, conditions, run


def test_search_ends_at_the_reachable_rate_and_every_knob_is_reverted() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model)
    assert tuning.search_ended(trials) == "reached"
    assert [t.phase for t in trials].count("search") == 2
    best = tuning.best(trials)
    assert best is not None
    changed_knobs = set(tuning.switched(best))
    measured = [t for t in trials if t.phase == "contribution"]
    # Each knob is measured as often as the best settings, and every round has all of them.
    for knob in (None, *changed_knobs):
        assert [t.knob for t in measured].count(knob) == 3
    round_of = len(changed_knobs) + 1
    assert all(
        {t.knob for t in measured[i : i + round_of]} == {None, *changed_knobs} for i in range(0, 3 * round_of, round_of)
    )


def test_contributions_match_the_model_within_their_intervals() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model)
    best = tuning.best(trials)
    assert best is not None
    inside = 0
    contributions = tuning.contributions(trials)
    for contribution in contributions:
        true = 100 * (1 - model.exact(tuning.switched(best)[contribution.knob]) / model.exact(best))
        assert contribution.low is not None and contribution.high is not None
        inside += contribution.low <= true <= contribution.high
        assert contribution.loss_percent == pytest.approx(true, abs=5)
    # 95 % of the intervals contain the true value, so one of about ten may not.
    assert inside >= len(contributions) - 2
    by_name = {contribution.knob: contribution for contribution in contributions}
    # A send buffer of 512 KiB limits the rate over 20 ms to 26 MB/s, far below the rate of the
    # link.
    assert by_name["send_buffer"].loss_percent > 70 and by_name["send_buffer"].contributes
    assert not by_name["slow_start_after_idle"].contributes


def test_knobs_without_contribution_are_reverted_and_the_advice_is_measured() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model)
    best, (advised, measured) = tuning.best(trials), tuning.advised(trials)
    assert best is not None and advised is not None and measured
    assert model.exact(advised) >= 0.96 * model.exact(best)
    changed_knobs = {knob.name for knob in changed(model.space, advised)}
    assert changed_knobs < {knob.name for knob in changed(model.space, best)}
    assert "slow_start_after_idle" not in changed_knobs and "send_buffer" in changed_knobs
    assert [t.settings for t in trials if t.phase == "advice"].count(advised) == 3


def interchangeable() -> PathModel:
    """Return a model of two knobs of which either alone suffices, so that neither contributes by
    itself, but reverting both costs the whole gain.
    """
    model = PathModel(conditions(20), noise=0.0)
    first, second = "send_buffer", "receive_buffer"
    default = defaults_of(model.space)

    def exact(settings: dict[str, object]) -> float:
        return 100.0 if settings[first] != default[first] or settings[second] != default[second] else 30.0

    model.exact = exact  # type: ignore[method-assign, assignment]
    return model


def test_interchangeable_knobs_are_not_both_reverted() -> None:
    model = interchangeable()
    tuning = model.tuning(limits=Limits(trials=2, budget_s=1e9))
    trials = run(tuning, model)
    assert all(not c.contributes for c in tuning.contributions(trials))
    advised, measured = tuning.advised(trials)
    assert advised is not None and measured
    assert model.exact(advised) == 100.0
    assert len(changed(model.space, advised)) < len(changed(model.space, tuning.best(trials) or {}))


def test_knobs_are_kept_as_slower_only_if_a_measured_setting_reverted_them() -> None:
    model = interchangeable()
    tuning = model.tuning(limits=Limits(trials=2, budget_s=1e9))
    trials = run(tuning, model)
    advised, _ = tuning.advised(trials)
    assert advised is not None
    (reason, knobs), *others = tuning.kept(trials).items()
    assert reason == "slower" and not others
    assert set(knobs) == {knob.name for knob in changed(model.space, advised)}
    # The tuning ended before all repetitions of the first setting without them.
    first_advice = next(i for i, t in enumerate(trials) if t.phase == "advice")
    for cut in (first_advice, first_advice + 1):
        assert list(tuning.kept(trials[:cut])) == ["unmeasured"]


def test_knob_whose_default_needs_more_memory_is_kept_for_that_reason() -> None:
    model = PathModel(conditions(20), noise=0.0)
    model.exact = lambda settings: 100.0  # type: ignore[method-assign]
    tuning = model.tuning("memory", limits=Limits(trials=2, budget_s=1e9))
    default = settle(model.space, defaults_of(model.space))
    small = {**default, "receive_buffer": 128 << 10}
    searched = [Trial("search", settings, None, 100.0, 4.0) for settings in (default, small)]
    trials = run(tuning, model, searched)
    assert tuning.advised(trials) == (small, True)
    assert tuning.kept(trials) == {"memory": ["receive_buffer"]}


def test_failed_repetition_does_not_discard_accepted_advice() -> None:
    model = PathModel(conditions(20), noise=0.0)
    tuning = model.tuning()
    trials = run(tuning, model)
    advised, _ = tuning.advised(trials)
    assert trials[-1].phase == "advice" and trials[-1].settings == advised
    trials[-1] = replace(trials[-1], mb_per_s=None, error="refused")
    assert tuning.next(trials) is None
    assert tuning.advised(trials) == (advised, True)


def test_advice_may_be_slower_by_the_measurement_noise() -> None:
    """Noise of 8 % does not keep knobs changed that contribute nothing."""
    changed_by_noise = {0.0: 0, 0.08: 0}
    for noise in changed_by_noise:
        model = PathModel(conditions(20), noise=noise, seed=4)
        tuning = model.tuning()
        trials = run(tuning, model)
        advised, measured = tuning.advised(trials)
        assert advised is not None and measured
        changed_by_noise[noise] = len(changed(model.space, advised))
        assert model.exact(advised) >= 0.9 * model.optimum()[1]
    assert changed_by_noise[0.08] <= changed_by_noise[0.0] + 1


def test_tuning_interrupted_anywhere_continues_identically() -> None:
    model = PathModel(conditions(20), noise=0.0)
    tuning = model.tuning(seed=5, limits=Limits(trials=6, budget_s=1e9))
    whole = run(tuning, model)
    for cut in range(0, len(whole), 3):
        assert run(tuning, model, whole[:cut], len(whole)) == whole


def test_search_leaves_time_for_the_contributions() -> None:
    # With packet loss neither bound can be reached, so only the budget ends the search.
    model = PathModel(conditions(20, loss=0.5), noise=0.02)
    tuning = model.tuning(limits=Limits(budget_s=400, patience=100, trials=100))
    trials = run(tuning, model)
    assert tuning.search_ended(trials) == "time"
    # The last step may exceed the budget by a few seconds.
    assert sum(t.seconds for t in trials) <= 400 + 8
    assert {None} < {t.knob for t in trials if t.phase == "contribution"}
    best = tuning.best(trials)
    assert best is not None
    assert [t.phase for t in trials].count("contribution") == 3 * (1 + len(tuning.switched(best)))


def test_search_does_not_continue_during_the_contributions() -> None:
    """Their trials are shorter here, so that their mean duration would leave time for more."""
    model = PathModel(conditions(20, loss=0.5), noise=0.02)
    tuning = model.tuning(limits=Limits(budget_s=400, patience=100, trials=100))
    trials: list[Trial] = []
    while (step := tuning.next(trials)) is not None:
        seconds = 8.0 if step.phase == "search" else 1.0
        trials.append(Trial(step.phase, step.settings, step.knob, model.measure(step.settings), seconds))
    phases = [t.phase for t in trials]
    assert tuning.search_ended(trials) == "time"
    assert "contribution" in phases and "search" not in phases[phases.index("contribution") :]


def test_search_without_progress_ends() -> None:
    model = PathModel(conditions(20, loss=0.5), noise=0.0)
    model.exact = lambda settings: 10.0  # type: ignore[method-assign]
    tuning = model.tuning(limits=Limits(patience=4, budget_s=1e9))
    trials = run(tuning, model)
    assert tuning.search_ended(trials) == "patience"
    assert [t.phase for t in trials].count("search") == 5


def test_consecutive_failures_end_the_tuning() -> None:
    model = PathModel(conditions(20))
    tuning = model.tuning(limits=Limits(budget_s=1e9))
    trials: list[Trial] = []
    for _ in range(FAILURES_MAX):
        step = tuning.next(trials)
        assert step is not None
        trials.append(Trial(step.phase, step.settings, step.knob, None, 4.0, error="refused"))
    assert tuning.next(trials) is None and tuning.search_ended(trials) == "failed"
    assert tuning.advised(trials) == (None, False)


def test_later_failures_end_the_tuning_but_are_not_why_the_search_ended() -> None:
    model = PathModel(conditions(20), noise=0.01)
    tuning = model.tuning()
    trials = run(tuning, model, most=3)
    assert [t.phase for t in trials] == ["search", "search", "contribution"]
    for _ in range(FAILURES_MAX):
        step = tuning.next(trials)
        assert step is not None and step.phase == "contribution"
        trials.append(Trial(step.phase, step.settings, step.knob, None, 4.0, error="refused"))
    assert tuning.next(trials) is None
    assert tuning.search_ended(trials) == "reached"


INVALID = ({"caveat": "fabric_saturated", "severity": "invalid"},)


def test_invalid_trial_counts_only_without_a_valid_one_of_its_setting_and_phase() -> None:
    model = PathModel(conditions(20), noise=0.0)
    tuning = model.tuning()
    trials = run(tuning, model)
    place = next(i for i, t in enumerate(trials) if t.phase == "contribution" and t.knob is None)
    disturbed, failed = list(trials), list(trials)
    disturbed[place] = replace(trials[place], mb_per_s=1.0, caveats=INVALID)
    failed[place] = replace(trials[place], mb_per_s=None, error="refused")
    assert not disturbed[place].valid and trials[place].valid
    assert counted_rate(disturbed[place], disturbed) is None
    assert tuning.contributions(disturbed) == tuning.contributions(failed)
    assert tuning.advised(disturbed) == tuning.advised(failed)
    # Without a valid one it counts.
    alone = [replace(t, caveats=INVALID) if t.settings == trials[place].settings else t for t in trials]
    assert counted_rate(alone[place], alone) == trials[place].mb_per_s
    assert tuning.contributions(alone) == tuning.contributions(trials)


def test_invalid_trial_of_the_search_is_not_the_best_if_its_setting_has_a_valid_one() -> None:
    model = PathModel(conditions(20), noise=0.0)
    tuning = model.tuning()
    default, suggested = tuning.search.first_settings()
    trials = [
        Trial("search", default, None, 500.0, 4.0, caveats=INVALID),
        Trial("search", suggested, None, 100.0, 4.0),
        Trial("search", default, None, 10.0, 4.0),
    ]
    assert tuning.best(trials[:2]) == default
    assert tuning.best(trials) == suggested


def test_best_defaults_are_advised_unchanged() -> None:
    model = PathModel(conditions(20), noise=0.0)
    default = settle(model.space, defaults_of(model.space))
    model.exact = lambda settings: 50.0 if settings == default else 20.0  # type: ignore[method-assign]
    tuning = model.tuning(limits=Limits(trials=4, budget_s=1e9))
    trials = run(tuning, model)
    assert tuning.switched(default) == {}
    assert tuning.advised(trials) == (default, True)
    assert tuning.contributions(trials) == []
