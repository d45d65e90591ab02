"""Contribution of each knob: the best setting against the same with that knob reverted. Pure.

All settings are measured in rounds, each once in every round, in shuffled order. The throughputs
are compared by their logarithms because disturbances are proportional. Other work on the machine
disturbs in two ways, and neither may be attributed to a knob:

whole rounds    slow down together: the common effect of a round is subtracted from all its values
                (Tukey's median polish)
single trials   are outliers: the median of its rounds represents a setting, and the median distance
                of pairs gives the spread

The spread is pooled over all settings: the median distance of two measurements of one setting,
divided by its value for normal errors of standard deviation 1. Pooling makes the interval usable
after a few rounds. The interval is that of Student's t at 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

from hakaru.analysis.student import quantile

CONFIDENCE = 0.95
NOTHING_PERCENT = 2.0
"""A knob contributes nothing if reverting it costs less than this."""
POLISH_MAX = 10
"""Maximum iterations of the median polish."""
PAIR_MEDIAN = 0.9539
"""Median distance of two normal variates of standard deviation 1: sqrt(2) x 0.6745."""
EFFICIENCY = 0.5
"""Share of the degrees of freedom that the median distance of pairs retains. A test checks the
coverage of the intervals.
"""
MEDIAN_SPREAD = {1: 1.0, 2: 1.0, 3: 1.16, 4: 1.092, 5: 1.197, 6: 1.135, 7: 1.214}
"""Standard error of the median of n normal variates over that of their mean; 1.2533 for many."""


@dataclass(frozen=True)
class Contribution:
    """Loss from reverting one knob, in percent of the best setting's throughput; `low` to `high`:
    95 % confidence interval.
    """

    knob: str
    loss_percent: float
    low: float | None
    high: float | None
    mb_per_s: float
    """Median of the measurements with the knob reverted, without correction."""
    n: int

    @property
    def measurable(self) -> bool:
        """Whether the interval excludes 0. Without an interval the value is a single difference."""
        return self.low is None or self.high is None or self.low > 0 or self.high < 0

    @property
    def contributes(self) -> bool:
        """Whether the knob has to be changed: the loss is measurable and at least
        `NOTHING_PERCENT`.
        """
        return self.loss_percent >= NOTHING_PERCENT and self.measurable

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            "knob": self.knob,
            "loss_percent": self.loss_percent,
            "low": self.low,
            "high": self.high,
            "mb_per_s": self.mb_per_s,
            "n": self.n,
            "measurable": self.measurable,
            "contributes": self.contributes,
        }


Rounds = Sequence[float | None]
"""One setting's throughput in MB/s, round by round; None where it failed or was not measured."""


def contributions(best: Rounds, switched: Mapping[str, Rounds]) -> list[Contribution]:
    """Return the contribution of every measured knob, largest loss first. Throughputs must be
    positive.
    """
    names = [name for name, values in switched.items() if _present(values)]
    if not _present(best) or not names:
        return []
    table = [_logs(best), *(_logs(switched[name]) for name in names)]
    polished = without_rounds(table)
    spread, freedom = _spread(polished)
    contributions = []
    for name, row in zip(names, polished[1:], strict=True):
        of_best, of_knob = _present(polished[0]), _present(row)
        ratio = median(of_knob) - median(of_best)
        low = high = None
        if freedom > 0:
            half = _t(freedom) * spread * math.hypot(_error(len(of_knob)), _error(len(of_best)))
            low, high = _loss(ratio + half), _loss(ratio - half)
        measured = _present(switched[name])
        contributions.append(Contribution(name, _loss(ratio), low, high, median(measured), len(measured)))
    return sorted(contributions, key=lambda contribution: -contribution.loss_percent)


def without_rounds(table: Sequence[Rounds]) -> list[list[float | None]]:
    """Return the table less the common effect of each round; rows are settings, columns rounds."""
    rows = [list(row) for row in table]
    for _ in range(POLISH_MAX):
        medians = [median(_present(row)) if _present(row) else 0.0 for row in rows]
        changed = 0.0
        for column in range(max(len(row) for row in rows)):
            residuals = [
                value - row_median
                for row, row_median in zip(rows, medians, strict=True)
                if column < len(row) and (value := row[column]) is not None
            ]
            effect = median(residuals) if len(residuals) > 1 else 0.0
            changed = max(changed, abs(effect))
            for row in rows:
                if column < len(row) and (value := row[column]) is not None:
                    row[column] = value - effect
        if changed < 1e-9:
            break
    return rows


def _spread(table: Sequence[Rounds]) -> tuple[float, float]:
    """Return the standard deviation of one measurement, pooled, and its degrees of freedom."""
    groups = [_present(row) for row in table]
    distances = [abs(a - b) for group in groups for a, b in combinations(group, 2)]
    rounds = max(len(group) for group in groups)
    # Every setting has its own median, every round but one its own effect.
    freedom = sum(len(group) - 1 for group in groups) - (rounds - 1)
    if not distances or freedom <= 0:
        return 0.0, 0.0
    # Fitting the medians and the effects of rounds has made the residuals smaller.
    fitted = math.sqrt(sum(len(group) - 1 for group in groups) / freedom)
    return fitted * median(distances) / PAIR_MEDIAN, max(1.0, EFFICIENCY * freedom)


def _error(n: int) -> float:
    return MEDIAN_SPREAD.get(n, 1.2533) / math.sqrt(n)


def _logs(values: Rounds) -> list[float | None]:
    return [None if value is None else math.log(max(value, 1e-9)) for value in values]


def _present(values: Rounds) -> list[float]:
    return [value for value in values if value is not None]


def _t(freedom: float) -> float:
    return quantile((1 + CONFIDENCE) / 2, freedom)


def _loss(log_ratio: float) -> float:
    return 100 * (1 - math.exp(log_ratio))
