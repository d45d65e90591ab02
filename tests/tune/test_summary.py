"""The findings of a tuning: sentences about the best setting and the defaults."""

from __future__ import annotations

from typing import Any

from hakaru.tune.knobs import Settings
from hakaru.tune.summary import describe, findings
from hakaru.tune.tuning import Phase, Trial

from tests.tune.model_run import small_setup

SETUP = small_setup(trials=2)
DEFAULT, SUGGESTED = SETUP.tuning.search.first_settings()


def trial(settings: Settings, mb_per_s: float | None, phase: Phase = "search") -> Trial:
    return Trial(phase, settings, None, mb_per_s, 4.0, error=None if mb_per_s else "refused")


def summary_of(*trials: Trial) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the part `tuning` of a summary, and the sentence about the best by language."""
    tuning = describe(SETUP, list(trials), {})
    found = findings(tuning, SETUP.tuning.kept(trials))
    return tuning, next(f.text for f in found if f.kind == "tuning_best")


def test_defaults_that_are_the_best_have_one_rate() -> None:
    """The trial of the search was lucky, the later ones were not."""
    later = [trial(DEFAULT, rate, "contribution") for rate in (40.0, 42.0)]
    tuning, text = summary_of(trial(DEFAULT, 50.0), trial(SUGGESTED, 45.0), *later)
    assert tuning["default"]["mb_per_s"] == tuning["best"]["mb_per_s"] == tuning["advised"]["mb_per_s"]
    assert tuning["best"]["mb_per_s"]["median"] == 41.0
    expected = "No settings found are better than the defaults, which reach 41 MB/s (median of 2 measurements"
    assert text["en"].startswith(expected)
    assert "times" not in text["en"] and "倍" not in text["ja"]


def test_best_is_not_compared_with_defaults_that_failed() -> None:
    tuning, text = summary_of(trial(DEFAULT, None), trial(SUGGESTED, 100.0))
    assert tuning["default"]["mb_per_s"]["median"] is None
    assert text["en"] == "The defaults gave no rate to compare with. The best settings found reach 100 MB/s."
    assert "–" not in text["en"] + text["ja"]


def test_best_is_compared_with_the_defaults() -> None:
    _, text = summary_of(trial(DEFAULT, 25.0), trial(SUGGESTED, 100.0))
    assert "4 times the 25 MB/s of the defaults" in text["en"]
