"""Intervals of what knobs are worth: against cases worked out by hand."""

from __future__ import annotations

import math

import pytest
from hakaru.tune.contribution import contributions


def test_loss_and_interval_by_hand() -> None:
    """Two settings of two measurements, 100 and 110 against 50 and 55: t of 2 degrees of freedom is 4.3027."""
    (found,) = contributions([100.0, 110.0], {"knob": [50.0, 55.0]})
    assert found.loss_percent == pytest.approx(50.0)
    spread = math.sqrt(2 * 2 * (math.log(1.1) / 2) ** 2 / 2)
    half = 4.30265 * spread
    assert found.low == pytest.approx(100 * (1 - 0.5 * math.exp(half)), rel=1e-4)
    assert found.high == pytest.approx(100 * (1 - 0.5 * math.exp(-half)), rel=1e-4)
    assert found.n == 2 and found.mb_per_s == pytest.approx(52.5)


def test_more_knobs_make_intervals_narrower() -> None:
    def width(knobs: int) -> float:
        switched = {f"knob{i}": [50.0, 55.0] for i in range(knobs)}
        first = contributions([100.0, 110.0], switched)[0]
        assert first.low is not None and first.high is not None
        return first.high - first.low

    assert width(8) < 0.7 * width(1)


def test_loss_within_what_repetitions_differ_contributes_nothing() -> None:
    found = {
        c.knob: c for c in contributions([100, 96, 104], {"a": [97, 93, 101], "b": [60, 58, 62], "c": [99, 99, 99]})
    }
    assert found["b"].contributes
    assert not found["a"].contributes and found["a"].loss_percent > 2
    assert not found["c"].contributes


def test_one_measurement_each_has_no_interval() -> None:
    (found,) = contributions([100.0], {"knob": [50.0]})
    assert found.low is None and found.high is None and found.contributes


def test_largest_loss_comes_first_and_what_was_not_measured_is_left_out() -> None:
    found = contributions([100.0], {"small": [99.0], "large": [20.0], "none": []})
    assert [c.knob for c in found] == ["large", "small"]
