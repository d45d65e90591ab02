"""The universal scalability law."""

from __future__ import annotations

import numpy as np
import pytest
from hakaru.analysis import usl

LEVELS = [1.0, 4.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0]


def test_known_parameters_come_back() -> None:
    rates = list(usl.usl(np.array(LEVELS), 1200.0, 0.15, 0.012))
    fit = usl.fit(LEVELS, rates)
    assert fit is not None
    assert fit.lambda_[0] == pytest.approx(1200, rel=1e-3)
    assert fit.sigma[0] == pytest.approx(0.15, rel=1e-2)
    assert fit.kappa[0] == pytest.approx(0.012, rel=1e-2)
    assert fit.level_at_peak == pytest.approx(((1 - 0.15) / 0.012) ** 0.5, rel=1e-2)
    assert fit.r_squared == pytest.approx(1.0)


def test_published_table_fits_with_a_peak_between_its_levels() -> None:
    published = [1082.0, 2746.0, 3170.0, 3280.0, 2996.0, 2560.0, 2506.0, 2488.0, 2316.0]
    fit = usl.fit(LEVELS, published)
    assert fit is not None
    assert fit.level_at_peak is not None
    assert 5 < fit.level_at_peak < 9
    for value, low, high in (fit.lambda_, fit.sigma, fit.kappa):
        assert low <= value <= high


@pytest.mark.parametrize("rates", [[100.0, 200.0], [100.0, 0.0, 300.0, 350.0, 380.0]])
def test_too_few_points_or_a_rate_of_zero_give_no_fit(rates: list[float]) -> None:
    assert usl.fit([float(i + 1) for i in range(len(rates))], rates) is None
