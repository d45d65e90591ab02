"""Student's t distribution: the same values as `scipy.stats`, which is too slow to import."""

from __future__ import annotations

import pytest
from hakaru.analysis.student import quantile, upper_tail
from scipy import stats

FREEDOMS = [0.3, 1, 1.5, 2, 3, 7.3, 29, 1e3, 1e9]


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_values_are_those_of_scipy(freedom: float) -> None:
    for probability in (0.5, 0.75, 0.95, 0.975, 0.9995):
        assert quantile(probability, freedom) == stats.t.ppf(probability, freedom)
    for value in (0.0, 0.1, 2.5, 30.0, float("inf")):
        assert upper_tail(value, freedom) == stats.t.sf(value, freedom)


def test_value_of_a_printed_table() -> None:
    assert quantile(0.975, 2) == pytest.approx(4.303, abs=0.0005)
    assert upper_tail(4.303, 2) == pytest.approx(0.025, abs=0.00001)
