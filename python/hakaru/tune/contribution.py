"""What each knob is worth: the best setting against the same with one knob switched back. Pure.

Every setting is measured the same number of times; throughputs are compared by the logarithm, since what disturbs a
measurement does so in proportion. The variance is pooled over all settings (each brings n - 1 degrees of freedom), so
that a few repetitions of each give an interval that can be used: Student's t, 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CONFIDENCE = 0.95
NOTHING_PERCENT = 2.0
"""A knob whose switching back costs less than this contributes nothing."""


@dataclass(frozen=True)
class Contribution:
    """What switching one knob back costs, in percent of the best setting's throughput; `low` to `high`: 95 %."""

    knob: str
    loss_percent: float
    low: float | None
    high: float | None
    mb_per_s: float
    n: int

    @property
    def contributes(self) -> bool:
        """Whether the knob has to be turned: the loss is there beyond doubt, and more than nothing."""
        return self.loss_percent >= NOTHING_PERCENT and (self.low is None or self.low > 0)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "knob": self.knob,
            "loss_percent": self.loss_percent,
            "low": self.low,
            "high": self.high,
            "mb_per_s": self.mb_per_s,
            "n": self.n,
            "contributes": self.contributes,
        }


def contributions(best: Sequence[float], switched: Mapping[str, Sequence[float]]) -> list[Contribution]:
    """Of every knob that was measured, the largest loss first; `best` and each of `switched` in MB/s, all above 0."""
    groups = [_logs(best), *(_logs(values) for values in switched.values())]
    spread, freedom = _pooled(groups)
    found = []
    for knob, values in switched.items():
        if not values or not best:
            continue
        ratio = _mean(_logs(values)) - _mean(_logs(best))
        low = high = None
        if freedom > 0:
            half = _t(freedom) * spread * math.sqrt(1 / len(values) + 1 / len(best))
            low, high = _loss(ratio + half), _loss(ratio - half)
        mean = sum(values) / len(values)
        found.append(Contribution(knob, _loss(ratio), low, high, mean, len(values)))
    return sorted(found, key=lambda one: -one.loss_percent)


def interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Mean and 95 % interval of one setting's throughput, by itself."""
    from hakaru.analysis.estimate import Estimate

    found = Estimate.over(values, "MB/s")
    assert found.mean is not None, "there is at least one value"
    return found.mean, found.low, found.high


def _logs(values: Sequence[float]) -> list[float]:
    return [math.log(max(value, 1e-9)) for value in values]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _pooled(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Standard deviation over all groups about their own means, and its degrees of freedom."""
    freedom = sum(len(group) - 1 for group in groups if group)
    squares = sum((value - _mean(group)) ** 2 for group in groups if group for value in group)
    return (math.sqrt(squares / freedom), freedom) if freedom > 0 else (0.0, 0)


def _t(freedom: int) -> float:
    from scipy import stats  # takes a second to import

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))


def _loss(log_ratio: float) -> float:
    return 100 * (1 - math.exp(log_ratio))
