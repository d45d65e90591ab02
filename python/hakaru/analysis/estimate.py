"""A value with its uncertainty: mean and 95 % interval over repetitions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hakaru.analysis.student import quantile

CONFIDENCE = 0.95


@dataclass(frozen=True)
class SampleMean:
    """A mean over repetitions with the variance of the mean, from which intervals and tests follow.

    If the number of repetitions followed from the spread of the first ones (`precision` of a
    study), variance and degrees of freedom are those of the first ones, as in Stein's two-stage
    procedure: a chance of a small spread leads to few repetitions, so the spread of all of them
    would be too small.
    """

    value: float
    variance: float
    """Variance of the mean, not of the values; 0 with one repetition, which shows no spread."""
    freedom: float
    """Degrees of freedom of the variance; 0 with a single repetition."""
    n: int

    @classmethod
    def over(cls, values: Iterable[float], first: int | None = None) -> SampleMean | None:
        """Return the mean of one value per repetition, without NaN and infinities (a repetition
        that lacks the value); None without any.

        `first`: number of the repetitions whose spread chose the number of all; None: it was fixed.
        First ones without spread give the variance of all.
        """
        finite = np.array([v for v in values if math.isfinite(v)], dtype=float)
        n = len(finite)
        if n == 0:
            return None
        mean = float(np.mean(finite))
        mean = min(max(mean, float(finite.min())), float(finite.max()))  # rounding must not leave the data's range
        if n == 1:
            return cls(mean, 0.0, 0.0, 1)
        stage = finite if first is None or first < 2 else finite[:first]
        stage = stage if np.ptp(stage) > 0 else finite
        variance = 0.0 if np.ptp(stage) == 0 else float(np.var(stage, ddof=1)) / n
        return cls(mean, variance, len(stage) - 1.0, n)

    @classmethod
    def average(cls, means: Sequence[SampleMean]) -> SampleMean | None:
        """Return the mean of independent means, each with the same weight; None without any. `n` is
        the smallest number of repetitions.
        """
        if not means:
            return None
        value, n = sum(mean.value for mean in means) / len(means), min(mean.n for mean in means)
        parts = [(mean.variance / len(means) ** 2, mean.freedom) for mean in means]
        total = sum(variance for variance, _ in parts)
        if n == 1:
            return cls(value, 0.0, 0.0, 1)
        return cls(value, total, freedom(parts) if total > 0 else min(mean.freedom for mean in means), n)

    def half(self, confidence: float) -> float:
        """Half the width of the interval of Student's t; needs two repetitions."""
        return quantile((1 + confidence) / 2, self.freedom) * math.sqrt(self.variance)


@dataclass(frozen=True)
class Estimate:
    """Mean over `n` repetitions with the 95 % interval `low` to `high`; a value that does not exist
    is None.

    The interval is that of Student's t. Each repetition is one observation, because the samples
    within a repetition are not independent. A single repetition has a mean and no interval.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    unit: str

    @classmethod
    def over(cls, values: Iterable[float], unit: str) -> Estimate:
        """Return the estimate over one value per repetition, without NaN and infinities (a
        repetition that lacks the value).
        """
        return cls.of(SampleMean.over(values), unit)

    @classmethod
    def two_stage(cls, values: Iterable[float], first: int, unit: str) -> Estimate:
        """Return the estimate over values whose number follows from the spread of the `first` ones
        (`SampleMean`).
        """
        return cls.of(SampleMean.over(values, first), unit)

    @classmethod
    def of(cls, mean: SampleMean | None, unit: str) -> Estimate:
        """Return the estimate of a mean; None: there are no values."""
        if mean is None:
            return cls(None, None, None, 0, unit)
        if mean.n == 1:
            return cls(mean.value, None, None, 1, unit)
        half = mean.half(CONFIDENCE)
        return cls(mean.value, mean.value - half, mean.value + half, mean.n, unit)

    def at(self, confidence: float) -> Estimate:
        """The same mean with the interval of another confidence, above 0 and below 1. `self` must
        have a 95 % interval of Student's t.
        """
        if self.mean is None or self.low is None or self.high is None or self.n < 2:
            return self
        usual, other = (quantile((1 + each) / 2, self.n - 1) for each in (CONFIDENCE, confidence))
        factor = other / usual
        low, high = self.mean - factor * (self.mean - self.low), self.mean + factor * (self.high - self.mean)
        return Estimate(self.mean, low, high, self.n, self.unit)

    def to_json(self) -> dict[str, Any]:
        """`{mean, low, high, n, unit}`."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "unit": self.unit}


def variation(values: Iterable[float]) -> Estimate:
    """Coefficient of variation: the standard deviation of one value per repetition, in percent of
    their mean, without an interval.

    It has no value with fewer than two repetitions, or a mean that is not above 0. Values that are
    not finite are left out.
    """
    finite = [v for v in values if math.isfinite(v)]
    mean = float(np.mean(finite)) if finite else 0.0
    if len(finite) < 2 or mean <= 0:
        return Estimate(None, None, None, len(finite), "percent")
    return Estimate(100.0 * float(np.std(finite, ddof=1)) / mean, None, None, len(finite), "percent")


def ratio(of: SampleMean | None, to: SampleMean | None) -> Estimate:
    """Ratio of two means of positive values from independent repetitions.

    The interval is that of the difference of the logarithms (delta method), with the degrees of
    freedom of Welch and Satterthwaite. It needs at least two repetitions of each. `n` is the
    smaller number of repetitions.
    """
    if of is None or to is None or of.value <= 0 or to.value <= 0:
        return Estimate(None, None, None, 0, "ratio")
    value, n = of.value / to.value, min(of.n, to.n)
    if n == 1:
        return Estimate(value, None, None, 1, "ratio")
    parts = [(side.variance / side.value**2, side.freedom) for side in (of, to)]
    total = sum(variance for variance, _ in parts)
    if total == 0.0:
        return Estimate(value, value, value, n, "ratio")
    half = quantile((1 + CONFIDENCE) / 2, freedom(parts)) * math.sqrt(total)
    return Estimate(value, value * math.exp(-half), value * math.exp(half), n, "ratio")


def ratio_or_zero(of: SampleMean | None, to: SampleMean | None) -> Estimate:
    """As `ratio`, but 0 if the first mean is 0, as of a count that never grew."""
    if of is None or to is None or of.value != 0 or to.value <= 0:
        return ratio(of, to)
    n = min(of.n, to.n)
    end = None if n == 1 else 0.0
    return Estimate(0.0, end, end, n, "ratio")


def difference(of: SampleMean | None, to: SampleMean | None) -> Estimate:
    """Difference of two means from independent repetitions, with Welch's interval, which needs at
    least two repetitions of each. `n` is the smaller number of repetitions.
    """
    if of is None or to is None:
        return Estimate(None, None, None, 0, "")
    value, n = of.value - to.value, min(of.n, to.n)
    if n == 1:
        return Estimate(value, None, None, 1, "")
    total = of.variance + to.variance
    if total == 0.0:
        return Estimate(value, value, value, n, "")
    parts = [(of.variance, of.freedom), (to.variance, to.freedom)]
    half = quantile((1 + CONFIDENCE) / 2, freedom(parts)) * math.sqrt(total)
    return Estimate(value, value - half, value + half, n, "")


def freedom(parts: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of independent variances (Welch and Satterthwaite). `parts`:
    variances, not all 0, each with its degrees of freedom.
    """
    total = sum(variance for variance, _ in parts)
    return total**2 / sum(variance**2 / each for variance, each in parts if variance > 0)


def finite(value: float | None) -> float | None:
    """The value, or None for NaN and infinities."""
    return None if value is None or not math.isfinite(value) else float(value)
