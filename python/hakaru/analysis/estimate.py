"""A value with its uncertainty: mean and 95 % interval over repetitions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


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
        finite = np.array([v for v in values if math.isfinite(v)], dtype=float)
        n = len(finite)
        if n == 0:
            return cls(None, None, None, 0, unit)
        mean = float(np.mean(finite))
        mean = min(max(mean, float(finite.min())), float(finite.max()))  # rounding must not leave the data's range
        if n == 1:
            return cls(mean, None, None, 1, unit)
        error = float(stats.sem(finite))
        if error == 0.0:
            return cls(mean, mean, mean, n, unit)
        low, high = stats.t.interval(CONFIDENCE, n - 1, loc=mean, scale=error)
        return cls(mean, float(low), float(high), n, unit)

    @classmethod
    def two_stage(cls, values: Iterable[float], first: int, unit: str) -> Estimate:
        """Return the estimate over values whose number follows from the spread of the `first` ones.

        The half width is that of the first values times √(first / n), as in Stein's two-stage
        procedure. It keeps its 95 %, unlike the interval of all values: a chance of a small spread
        leads to few repetitions, and so to an interval that is too narrow. A `first` without spread
        gives the interval of all values.
        """
        finite = [v for v in values if math.isfinite(v)]
        whole, start = cls.over(finite, unit), cls.over(finite[:first], unit)
        if whole.n <= first or whole.mean is None or start.low is None or start.high is None:
            return whole
        half = (start.high - start.low) / 2 * math.sqrt(start.n / whole.n)
        return cls(whole.mean, whole.mean - half, whole.mean + half, whole.n, unit) if half > 0 else whole

    def at(self, confidence: float) -> Estimate:
        """The same mean with the interval of another confidence, above 0 and below 1. `self` must
        have a 95 % interval of Student's t.
        """
        if self.mean is None or self.low is None or self.high is None or self.n < 2:
            return self
        usual, other = stats.t.ppf([(1 + CONFIDENCE) / 2, (1 + confidence) / 2], self.n - 1)
        factor = float(other / usual)
        low, high = self.mean - factor * (self.mean - self.low), self.mean + factor * (self.high - self.mean)
        return Estimate(self.mean, low, high, self.n, self.unit)

    def to_json(self) -> dict[str, Any]:
        """`{mean, low, high, n, unit}`."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "unit": self.unit}


def ratio(of: Iterable[float], to: Iterable[float]) -> Estimate:
    """Ratio of two means of positive values from independent repetitions.

    The interval is that of the difference of the logarithms (delta method), with the degrees of
    freedom of Welch and Satterthwaite. It needs at least two repetitions of each. `n` is the
    smaller number of repetitions.
    """
    sides = [np.array([v for v in values if math.isfinite(v)], dtype=float) for values in (of, to)]
    n = min(len(side) for side in sides)
    if n == 0 or any(np.mean(side) <= 0 for side in sides):
        return Estimate(None, None, None, 0, "ratio")
    value = float(np.mean(sides[0]) / np.mean(sides[1]))
    if n == 1:
        return Estimate(value, None, None, 1, "ratio")
    variances = [float((stats.sem(side) / np.mean(side)) ** 2) for side in sides]
    total = sum(variances)
    if total == 0.0:
        return Estimate(value, value, value, n, "ratio")
    freedom = total**2 / sum(v**2 / (len(side) - 1) for v, side in zip(variances, sides, strict=True))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(total)
    return Estimate(value, value * math.exp(-half), value * math.exp(half), n, "ratio")


def finite(value: float | None) -> float | None:
    """The value, or None for NaN and infinities."""
    return None if value is None or not math.isfinite(value) else float(value)
