"""Means and intervals over repetitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hakaru.analysis.estimate import Estimate, SampleMean, ratio
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

values = st.lists(st.floats(-1e12, 1e12), min_size=0, max_size=30)


@given(values)
def test_interval_contains_the_mean(samples: list[float]) -> None:
    estimate = Estimate.over(samples, "1/s")
    assert estimate.n == len(samples)
    if estimate.low is not None and estimate.high is not None and estimate.mean is not None:
        assert estimate.low <= estimate.mean <= estimate.high


@given(values, st.randoms())
def test_order_of_repetitions_does_not_matter(samples: list[float], random: object) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    in_order, in_random_order = Estimate.over(samples, "1/s"), Estimate.over(shuffled, "1/s")
    assert in_order.n == in_random_order.n
    if in_order.mean is not None:
        assert in_random_order.mean == pytest.approx(in_order.mean, rel=1e-9, abs=1e-3)


def test_interval_follows_students_t() -> None:
    samples = [10.0, 12.0, 11.0]
    estimate = Estimate.over(samples, "1/s")
    half = stats.t.ppf(0.975, 2) * np.std(samples, ddof=1) / math.sqrt(3)
    assert estimate.low == pytest.approx(11.0 - half)
    assert estimate.high == pytest.approx(11.0 + half)


def test_one_repetition_has_no_interval() -> None:
    estimate = Estimate.over([5.0], "ms")
    assert (estimate.mean, estimate.low, estimate.high, estimate.n) == (5.0, None, None, 1)


def test_estimate_without_values_is_null_and_not_zero() -> None:
    estimate = Estimate.over([float("nan"), float("inf")], "ms").to_json()
    assert estimate == {"mean": None, "low": None, "high": None, "n": 0, "unit": "ms"}


def test_equal_repetitions_have_an_interval_of_zero_width() -> None:
    estimate = Estimate.over([7.0, 7.0, 7.0], "ms")
    assert (estimate.low, estimate.mean, estimate.high) == (7.0, 7.0, 7.0)


def test_ratio_of_points_with_a_precision_has_the_spread_of_their_first_repetitions() -> None:
    values, other = [99.0, 100.0, 101.0, 100.0, 100.0, 100.0], [200.0, 203.0, 197.0]
    staged = ratio(SampleMean.over(other), SampleMean.over(values, 3))
    assert (staged.mean, staged.n) == (2.0, 3)
    variances = [1.0 / 6 / 100**2, 9.0 / 3 / 200**2]
    freedom = sum(variances) ** 2 / sum(v**2 / 2 for v in variances)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(sum(variances))
    assert (staged.low, staged.high) == pytest.approx((2.0 * math.exp(-half), 2.0 * math.exp(half)))


def test_average_of_means_has_the_variance_of_independent_ones() -> None:
    means = [SampleMean.over(values) for values in ([9.0, 10.0, 11.0], [20.0, 24.0])]
    average = SampleMean.average([mean for mean in means if mean])
    assert average is not None
    assert (average.value, average.n) == (16.0, 2)
    parts = [1.0 / 3 / 4, 8.0 / 2 / 4]
    assert average.variance == pytest.approx(sum(parts))
    assert average.freedom == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2))
    assert SampleMean.average([]) is None
