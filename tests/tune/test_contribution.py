"""What knobs are worth: cases worked out by hand, intervals that hold, and disturbances that must
not count.
"""

from __future__ import annotations

import math
import random

import pytest
from hakaru.tune.contribution import Contribution, contributions, without_rounds


def test_loss_and_interval_by_hand() -> None:
    """Three rounds, and a knob that is d above in the second and d below in the third: half of that
    is the rounds'.
    """
    d = 0.02
    (found,) = contributions([100.0] * 3, {"knob": [50.0, 50.0 * math.exp(d), 50.0 * math.exp(-d)]})
    assert found.loss_percent == pytest.approx(50.0)
    # Left are 0, -d/2, d/2 and 0, d/2, -d/2: of six distances four are d/2, the others d. Four
    # degrees of freedom less two for the rounds, of which half count: t is 12.706.
    spread = math.sqrt(4 / 2) * (d / 2) / 0.9539
    half = 12.7062 * spread * 1.16 * math.sqrt(2 / 3)
    assert found.low == pytest.approx(100 * (1 - 0.5 * math.exp(half)), rel=1e-4)
    assert found.high == pytest.approx(100 * (1 - 0.5 * math.exp(-half)), rel=1e-4)
    assert found.n == 3 and found.mb_per_s == pytest.approx(50.0)


def measured(drawn: random.Random, worth: list[float], rounds: list[float], outliers: float) -> list[Contribution]:
    """Settings with these losses in percent, measured with 2 % noise in rounds that are slower by
    so much.
    """

    def row(loss: float) -> list[float | None]:
        def one(slower: float) -> float:
            out = drawn.uniform(0.1, 0.5) if drawn.random() < outliers else 0.0
            return 100 * (1 - loss / 100) * math.exp(drawn.gauss(0, 0.02) - slower - out)

        return [one(slower) for slower in rounds]

    return contributions(row(0), {f"knob{i}": row(loss) for i, loss in enumerate(worth)})


@pytest.mark.parametrize(("outliers", "hold"), [(0.0, 0.93), (0.1, 0.88)])
def test_intervals_hold_what_knobs_are_worth(outliers: float, hold: float) -> None:
    """Also where a round is a quarter slower than the others, and where one trial of ten falls
    out.
    """
    drawn, worth = random.Random(5), [0.0, 0.0, 0.0, 5.0, 20.0, 60.0]
    inside = count = 0
    for _ in range(150):
        for one in measured(drawn, worth, [0.0, 0.25, 0.05], outliers):
            true = worth[int(one.knob[4:])]
            assert one.low is not None and one.high is not None
            inside, count = inside + (one.low <= true <= one.high), count + 1
    assert inside >= hold * count


def test_one_trial_that_falls_out_is_not_taken_for_what_a_knob_is_worth() -> None:
    good = [100.0, 101.0, 99.0]
    rows = {"a": [99.0, 100.0, 101.0], "b": [60.0, 61.0, 59.0], "c": [100.5, 99.5, 62.0]}
    found = {c.knob: c for c in contributions(good, rows)}
    assert found["b"].contributes
    for name in ("a", "c"):
        assert not found[name].measurable and not found[name].contributes
        assert abs(found[name].loss_percent) < 1.5


def test_rounds_that_are_slower_altogether_make_no_interval_wider() -> None:
    even = contributions([100.0, 101.0, 99.0], {"a": [90.0, 89.0, 91.0], "b": [50.0, 50.5, 49.5]})
    slow = contributions([100.0, 101.0, 99.0 * 0.7], {"a": [90.0, 89.0, 91.0 * 0.7], "b": [50.0, 50.5, 49.5 * 0.7]})
    for one, other in zip(even, slow, strict=True):
        assert (one.loss_percent, one.low, one.high) == pytest.approx((other.loss_percent, other.low, other.high))


def test_what_is_left_without_rounds_has_no_effect_of_rounds() -> None:
    left = without_rounds([[1.0, 3.0, None], [2.0, 4.0, 9.0]])
    assert left[0][2] is None
    assert left[0][1] == pytest.approx(left[0][0]) and left[1][1] == pytest.approx(left[1][0])


def test_loss_within_what_repetitions_differ_contributes_nothing() -> None:
    rows = {"a": [94.0, 100.0, 92.0], "b": [60.0, 58.0, 62.0], "c": [97.0, 99.0, 104.0]}
    found = {c.knob: c for c in contributions([100.0, 96.0, 104.0], rows)}
    assert found["b"].contributes
    assert found["a"].loss_percent > 2 and not found["a"].measurable and not found["a"].contributes
    assert not found["c"].contributes


def test_one_measurement_each_has_no_interval() -> None:
    (found,) = contributions([100.0], {"knob": [50.0]})
    assert found.low is None and found.high is None and found.contributes


def test_largest_loss_comes_first_and_what_was_not_measured_is_left_out() -> None:
    found = contributions([100.0, 100.0], {"small": [99.0, None], "large": [20.0, 20.0], "none": [None, None]})
    assert [c.knob for c in found] == ["large", "small"]
    assert found[1].n == 1
    assert contributions([None, None], {"knob": [1.0, 1.0]}) == []
