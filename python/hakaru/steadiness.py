"""Whether a rate is steady: its range and its drift over a window (SNIA, Solid State Storage
Performance Test Specification).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

PARTS = 5
"""Parts of a window whose rates are compared: the five rounds of the specification."""
RANGE_PERCENT_MAX = 20.0
"""Limit of the specification for the range."""
DRIFT_PERCENT_MAX = 10.0
"""Limit of the specification for the drift."""
RANGE_OF_COUNTS, DRIFT_OF_COUNTS = 430.0, 294.0
"""Range and drift of five independent Poisson counts with the mean n, in percent of it and times
sqrt(n), that 98 % of them do not exceed: 4.30 (the studentised range) and 2.326 x 4 / sqrt(10). Of
windows with a steady rate, 3.5 % exceed one of them.
"""


@dataclass(frozen=True)
class Steadiness:
    """Range and drift of a rate, percent of its mean."""

    range_percent: float
    """Difference between the highest and the lowest rate."""
    drift_percent: float
    """Difference between the ends of the line of least squares, in either direction."""

    def is_within(self, range_percent: float = RANGE_PERCENT_MAX, drift_percent: float = DRIFT_PERCENT_MAX) -> bool:
        """Return whether both are below their limits."""
        return self.range_percent < range_percent and self.drift_percent < drift_percent


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """Return the steadiness of rates over intervals of equal length, at least 2; None if nothing
    was done.
    """
    mean = fmean(rates)
    if mean <= 0:
        return None
    middle = (len(rates) - 1) / 2
    places = [i - middle for i in range(len(rates))]
    slope = sum(place * rate for place, rate in zip(places, rates, strict=True)) / sum(place**2 for place in places)
    return Steadiness(100 * (max(rates) - min(rates)) / mean, 100 * abs(slope) * (len(rates) - 1) / mean)


def limits_of_counts(
    counts: Sequence[float], range_percent: float = RANGE_PERCENT_MAX, drift_percent: float = DRIFT_PERCENT_MAX
) -> tuple[float, float]:
    """The limits of range and drift for requests counted in `PARTS` parts of a window, raised to
    what the counts of a steady rate scatter by. Few requests cannot show that a rate is not steady.
    """
    scatter = math.sqrt(max(1.0, fmean(counts)))
    return max(range_percent, RANGE_OF_COUNTS / scatter), max(drift_percent, DRIFT_OF_COUNTS / scatter)
