"""Means and intervals over repetitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hakaru.analysis.estimate import Estimate
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

values = st.lists(st.floats(-1e12, 1e12), min_size=0, max_size=30)


@given(values)
def test_interval_contains_the_mean(read: list[float]) -> None:
    found = Estimate.over(read, "1/s")
    assert found.n == len(read)
    if found.low is not None and found.high is not None and found.mean is not None:
        assert found.low <= found.mean <= found.high


@given(values, st.randoms())
def test_order_of_repetitions_does_not_matter(read: list[float], random: object) -> None:
    shuffled = list(read)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = Estimate.over(read, "1/s"), Estimate.over(shuffled, "1/s")
    assert one.n == two.n
    if one.mean is not None:
        assert two.mean == pytest.approx(one.mean, rel=1e-9, abs=1e-3)


def test_interval_is_students_t() -> None:
    read = [10.0, 12.0, 11.0]
    found = Estimate.over(read, "1/s")
    half = stats.t.ppf(0.975, 2) * np.std(read, ddof=1) / math.sqrt(3)
    assert found.low == pytest.approx(11.0 - half)
    assert found.high == pytest.approx(11.0 + half)


def test_one_repetition_has_no_interval() -> None:
    found = Estimate.over([5.0], "ms")
    assert (found.mean, found.low, found.high, found.n) == (5.0, None, None, 1)


def test_nothing_measured_is_null_and_not_zero() -> None:
    found = Estimate.over([float("nan"), float("inf")], "ms").to_json()
    assert found == {"mean": None, "low": None, "high": None, "n": 0, "unit": "ms"}


def test_equal_repetitions_have_an_interval_of_no_width() -> None:
    found = Estimate.over([7.0, 7.0, 7.0], "ms")
    assert (found.low, found.mean, found.high) == (7.0, 7.0, 7.0)
