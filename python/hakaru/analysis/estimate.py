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

    def to_json(self) -> dict[str, Any]:
        """`{mean, low, high, n, unit}`."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "unit": self.unit}


def finite(value: float | None) -> float | None:
    """The value, or None for NaN and infinities."""
    return None if value is None or not math.isfinite(value) else float(value)
