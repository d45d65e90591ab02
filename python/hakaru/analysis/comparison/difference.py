"""Statistics of differences between two sets of repetitions. Pure.

A difference is estimated on the scale of logarithms, as a ratio of two means: spread and change are
both relative, and an interval never leaves the possible values. The variance of the logarithm of a
mean is the square of its relative standard error (delta method). The degrees of freedom are those
of Welch and Satterthwaite, so the two sides may have different spreads. If a mean is not positive,
the difference of the means is tested instead.

The test of several points together adds the logarithms of their ratios. It detects a small change
at all points that no single point shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from hakaru.analysis.estimate import CONFIDENCE

RESOLUTION = 0.001
"""Smallest relative standard deviation that a test assumes. Latencies are recorded to three digits,
so equal values of two repetitions do not prove that there is no spread.
"""

Test = Literal["welch_log", "welch"]


@dataclass(frozen=True)
class Difference:
    """Difference of a metric: the second set of repetitions compared with the first.

    `change`, `low` and `high` are percent of the first mean for `welch_log`, otherwise in the unit
    of the metric. `p` is the two-sided probability of a difference of this size or more between
    equal distributions.
    """

    test: Test
    change: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Term:
    """An estimated difference with its variance, of which several can be averaged."""

    value: float
    variances: tuple[float, float]
    freedoms: tuple[int, int]


def of_ratio(before: Sequence[float], after: Sequence[float]) -> Term | None:
    """Logarithm of the ratio of two means. None without two repetitions of each, or with a mean
    that is not positive.
    """
    sides = [np.asarray(values, dtype=float) for values in (before, after)]
    if any(len(side) < 2 or np.mean(side) <= 0 for side in sides):
        return None
    relative = [max(float(np.std(side, ddof=1) / np.mean(side)), RESOLUTION) for side in sides]
    first, second = (spread**2 / len(side) for spread, side in zip(relative, sides, strict=True))
    value = math.log(float(np.mean(sides[1])) / float(np.mean(sides[0])))
    return Term(value, (first, second), (len(sides[0]) - 1, len(sides[1]) - 1))


def relative(terms: Sequence[Term]) -> Difference:
    """The difference that is the mean of the logarithms of one or several ratios, in percent."""
    value = sum(term.value for term in terms) / len(terms)
    half, p = _student(value, terms)
    low, high = (100 * math.expm1(end) for end in (value - half, value + half))
    return Difference("welch_log", 100 * math.expm1(value), low, high, p)


def absolute(before: Sequence[float], after: Sequence[float], *, counts: bool) -> Difference | None:
    """Difference of two means in the unit of the metric; None without two repetitions of each.

    `counts`: the values are numbers of rare events. Their variance is assumed to be at least their
    mean, as for independent events, because a few repetitions without one do not show it.
    """
    sides = [np.asarray(values, dtype=float) for values in (before, after)]
    if any(len(side) < 2 for side in sides):
        return None
    both = float(np.mean(np.concatenate(sides)))
    floor = abs(both) if counts else (RESOLUTION * both) ** 2
    first, second = (max(float(np.var(side, ddof=1)), floor) / len(side) for side in sides)
    value = float(np.mean(sides[1]) - np.mean(sides[0]))
    term = Term(value, (first, second), (len(sides[0]) - 1, len(sides[1]) - 1))
    half, p = _student(value, [term])
    return Difference("welch", value, value - half, value + half, p)


def _student(value: float, terms: Sequence[Term]) -> tuple[float, float]:
    """Half the width of the 95 % interval of a mean of terms, and the p-value of the mean."""
    parts = [
        (variance / len(terms) ** 2, freedom)
        for term in terms
        for variance, freedom in zip(term.variances, term.freedoms, strict=True)
    ]
    total = sum(variance for variance, _ in parts)
    if total == 0.0:  # all values are zero
        return 0.0, 1.0 if value == 0.0 else 0.0
    freedom = total**2 / sum(variance**2 / each for variance, each in parts)
    error = math.sqrt(total)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return half, float(2 * stats.t.sf(abs(value) / error, freedom))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number (Holm, 1979), in the same order: comparing each with 5 %
    keeps the probability of even one false difference at 5 %, however the values depend on each
    other.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [1.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected
