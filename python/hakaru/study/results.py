"""Results of a point, as far as the choice of further repetitions needs them. Pure.

Analysis computes them (`hakaru.analysis.kind.AnalysisKind.results`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class Interval(Protocol):
    """A mean over repetitions with its 95 % interval; None where it does not exist."""

    @property
    def mean(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...

    def at(self, confidence: float) -> Interval:
        """The same mean with the interval of another confidence, above 0 and below 1."""
        ...


@dataclass(frozen=True)
class PointResults:
    """The metrics of a point, and the name of the chief one."""

    metrics: Mapping[str, Interval]
    chief: str


def half_percent(interval: Interval | None) -> float | None:
    """Half the width of an interval in percent of its mean; None without an interval or with a mean
    of 0. An interval without width has 0.
    """
    if interval is None or interval.mean is None or interval.low is None or interval.high is None:
        return None
    half = (interval.high - interval.low) / 2
    if half == 0:
        return 0.0
    return 100 * half / abs(interval.mean) if interval.mean else None
