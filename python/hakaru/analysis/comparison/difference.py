"""Statistics of differences between two sets of repetitions. Pure.

A difference is estimated on the scale of logarithms, as a ratio of two means: spread and change are
both relative, and an interval never leaves the possible values. The variance of the logarithm of a
mean is the square of its relative standard error (delta method). The degrees of freedom are those
of Welch and Satterthwaite, so the two sides may have different spreads. If a mean is not positive,
the difference of the means is tested instead. If a requested precision chose the number of
repetitions, variance and degrees of freedom are those of the first ones (`SampleMean`).

The test of several points together adds the logarithms of their ratios. It detects a small change
at all points that no single point shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hakaru.analysis.estimate import CONFIDENCE, SampleMean, freedom
from hakaru.analysis.student import quantile, upper_tail

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
    freedoms: tuple[float, float]


def of_ratio(before: SampleMean | None, after: SampleMean | None) -> Term | None:
    """Logarithm of the ratio of two means. None without two repetitions of each, or with a mean
    that is not positive.
    """
    if before is None or after is None or min(before.n, after.n) < 2 or min(before.value, after.value) <= 0:
        return None
    first, second = (max(side.variance / side.value**2, RESOLUTION**2 / side.n) for side in (before, after))
    return Term(math.log(after.value / before.value), (first, second), (before.freedom, after.freedom))


def relative(terms: Sequence[Term]) -> Difference:
    """The difference that is the mean of the logarithms of one or several ratios, in percent."""
    value = sum(term.value for term in terms) / len(terms)
    half, p = _student(value, terms)
    low, high = (100 * math.expm1(end) for end in (value - half, value + half))
    return Difference("welch_log", 100 * math.expm1(value), low, high, p)


def absolute(before: SampleMean | None, after: SampleMean | None, *, counts: bool) -> Difference | None:
    """Difference of two means in the unit of the metric; None without two repetitions of each.

    `counts`: the values are numbers of rare events. Their variance is assumed to be at least their
    mean, as for independent events, because a few repetitions without one do not show it.
    """
    if before is None or after is None or min(before.n, after.n) < 2:
        return None
    both = (before.n * before.value + after.n * after.value) / (before.n + after.n)
    floor = abs(both) if counts else (RESOLUTION * both) ** 2
    first, second = (max(side.variance, floor / side.n) for side in (before, after))
    value = after.value - before.value
    half, p = _student(value, [Term(value, (first, second), (before.freedom, after.freedom))])
    return Difference("welch", value, value - half, value + half, p)


def _student(value: float, terms: Sequence[Term]) -> tuple[float, float]:
    """Half the width of the 95 % interval of a mean of terms, and the p-value of the mean."""
    parts = [
        (variance / len(terms) ** 2, degrees)
        for term in terms
        for variance, degrees in zip(term.variances, term.freedoms, strict=True)
    ]
    total = sum(variance for variance, _ in parts)
    if total == 0.0:  # all values are zero
        return 0.0, 1.0 if value == 0.0 else 0.0
    error, degrees = math.sqrt(total), freedom(parts)
    half = quantile((1 + CONFIDENCE) / 2, degrees) * error
    return half, 2 * upper_tail(abs(value) / error, degrees)


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
