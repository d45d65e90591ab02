"""Contributions of knobs: cases calculated by hand, coverage of the intervals, and disturbances
that must not count.
"""

from __future__ import annotations

import math
import random

import pytest
from hakaru.tune.contribution import Contribution, contributions, without_rounds


def test_loss_and_interval_match_a_hand_calculation() -> None:
    """In three rounds, the knob is d above in the second and d below in the third. The effect of
    the rounds is half of that.
    """
    d = 0.02
    (contribution,) = contributions([100.0] * 3, {"knob": [50.0, 50.0 * math.exp(d), 50.0 * math.exp(-d)]})
    assert contribution.loss_percent == pytest.approx(50.0)
    # The residuals are 0, -d/2, d/2 and 0, d/2, -d/2: of their six distances four are d/2, the
    # others d. Four degrees of freedom less two for the rounds, of which half count: t is 12.706.
    spread = math.sqrt(4 / 2) * (d / 2) / 0.9539
    half = 12.7062 * spread * 1.16 * math.sqrt(2 / 3)
    assert contribution.low == pytest.approx(100 * (1 - 0.5 * math.exp(half)), rel=1e-4)
    assert contribution.high == pytest.approx(100 * (1 - 0.5 * math.exp(-half)), rel=1e-4)
    assert contribution.n == 3 and contribution.mb_per_s == pytest.approx(50.0)


def measured(drawn: random.Random, worth: list[float], rounds: list[float], outliers: float) -> list[Contribution]:
    """Measure settings with losses `worth` (%) and 2 % noise, in rounds slower by `rounds`."""

    def row(loss: float) -> list[float | None]:
        def trial(slower: float) -> float:
            outlier = drawn.uniform(0.1, 0.5) if drawn.random() < outliers else 0.0
            return 100 * (1 - loss / 100) * math.exp(drawn.gauss(0, 0.02) - slower - outlier)

        return [trial(slower) for slower in rounds]

    return contributions(row(0), {f"knob{i}": row(loss) for i, loss in enumerate(worth)})


@pytest.mark.parametrize(("outliers", "hold"), [(0.0, 0.93), (0.1, 0.88)])
def test_intervals_cover_the_true_contributions(outliers: float, hold: float) -> None:
    """This holds even if a round is a quarter slower, or if one trial of ten is an outlier."""
    drawn, worth = random.Random(5), [0.0, 0.0, 0.0, 5.0, 20.0, 60.0]
    inside = count = 0
    for _ in range(150):
        for contribution in measured(drawn, worth, [0.0, 0.25, 0.05], outliers):
            true = worth[int(contribution.knob[4:])]
            assert contribution.low is not None and contribution.high is not None
            inside, count = inside + (contribution.low <= true <= contribution.high), count + 1
    assert inside >= hold * count


def test_outlier_is_not_attributed_to_a_knob() -> None:
    good = [100.0, 101.0, 99.0]
    rows = {"a": [99.0, 100.0, 101.0], "b": [60.0, 61.0, 59.0], "c": [100.5, 99.5, 62.0]}
    by_knob = {c.knob: c for c in contributions(good, rows)}
    assert by_knob["b"].contributes
    for name in ("a", "c"):
        assert not by_knob[name].measurable and not by_knob[name].contributes
        assert abs(by_knob[name].loss_percent) < 1.5


def test_slow_round_widens_no_interval() -> None:
    even = contributions([100.0, 101.0, 99.0], {"a": [90.0, 89.0, 91.0], "b": [50.0, 50.5, 49.5]})
    slow = contributions([100.0, 101.0, 99.0 * 0.7], {"a": [90.0, 89.0, 91.0 * 0.7], "b": [50.0, 50.5, 49.5 * 0.7]})
    for expected, slowed in zip(even, slow, strict=True):
        assert (expected.loss_percent, expected.low, expected.high) == pytest.approx(
            (slowed.loss_percent, slowed.low, slowed.high)
        )


def test_residuals_have_no_effect_of_rounds() -> None:
    residuals = without_rounds([[1.0, 3.0, None], [2.0, 4.0, 9.0]])
    assert residuals[0][2] is None
    assert residuals[0][1] == pytest.approx(residuals[0][0]) and residuals[1][1] == pytest.approx(residuals[1][0])


def test_loss_within_the_spread_of_repetitions_is_no_contribution() -> None:
    rows = {"a": [94.0, 100.0, 92.0], "b": [60.0, 58.0, 62.0], "c": [97.0, 99.0, 104.0]}
    by_knob = {c.knob: c for c in contributions([100.0, 96.0, 104.0], rows)}
    assert by_knob["b"].contributes
    assert by_knob["a"].loss_percent > 2 and not by_knob["a"].measurable and not by_knob["a"].contributes
    assert not by_knob["c"].contributes


def test_one_measurement_each_has_no_interval() -> None:
    (contribution,) = contributions([100.0], {"knob": [50.0]})
    assert contribution.low is None and contribution.high is None and contribution.contributes


def test_largest_loss_comes_first_and_unmeasured_knobs_are_left_out() -> None:
    in_order = contributions([100.0, 100.0], {"small": [99.0, None], "large": [20.0, 20.0], "none": [None, None]})
    assert [c.knob for c in in_order] == ["large", "small"]
    assert in_order[1].n == 1
    assert contributions([None, None], {"knob": [1.0, 1.0]}) == []
