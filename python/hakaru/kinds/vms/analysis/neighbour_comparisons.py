"""Noisy neighbours: the service of the victims alone, beside aggressors, and with each remedy.

Among the points with the same victims, those without an aggressor VM show the victims *alone*. Each
other point belongs to the point alone that differs from it in the fewest factors. Among those with
the same aggressors, one is the cost: that without caps and shares whose settings differ least from
those of the point alone, the first one if several do. Every other one is a *remedy*: it may set
caps, move LUs to other drives, or change anything else. If all have caps or shares, the cost is not
known, and there is no comparison.

All ratios are those of means over repetitions, with their 95 % interval. The aggressors *increase*
the victims' 99th percentile if the entire interval of its ratio is above 1; with one repetition,
which has no interval, if the ratio is at least 1.2. A remedy takes back the share of this increase
that it avoids; without an increase there is no share. It *restores* the service if the percentile
is at most 20 % above its value alone, and that is open if the interval contains this bound. A
remedy costs the aggressors the part of their rate beside the victims that they lose with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.analysis.roles import PARTS

P99 = "victim_latency_ms_p99"
RATE = "victim_iops"
AGGRESSORS = "aggressor_iops"
OUTSIDE = "outside"
"""Name of the part of a request's time that it does not spend in the array's timing model."""
RESTORED_RATIO = 1.2
SINGLE_RATIO = 1.2
"""Smallest ratio of two single repetitions that counts as a difference."""


@dataclass(frozen=True)
class Comparison:
    """The victims alone, beside their aggressors, and with remedies."""

    alone: VmsPoint
    beside: VmsPoint
    remedies: tuple[VmsPoint, ...]

    def times(self, point: VmsPoint) -> Estimate:
        """The victims' 99th percentile at a point, as a multiple of that alone."""
        return point.ratio_to(self.alone, P99)

    def rate(self, point: VmsPoint) -> Estimate:
        """The victims' rate at a point, as a share of that alone."""
        return point.ratio_to(self.alone, RATE)

    def kept(self, point: VmsPoint) -> Estimate:
        """The aggressors' rate at a point, as a share of that without a remedy."""
        return point.ratio_to(self.beside, AGGRESSORS)

    @property
    def every(self) -> tuple[VmsPoint, ...]:
        """All its points."""
        return (self.alone, self.beside, *self.remedies)

    @property
    def fixed(self) -> dict[str, Any]:
        """Factors that do not vary in it, with their levels."""
        levels = self.beside.factors.items()
        return {f: v for f, v in levels if len({str(p.factors.get(f)) for p in self.every}) == 1}

    def label(self, point: VmsPoint, language: str) -> str:
        """The levels of a point that vary in the comparison."""
        fixed = self.fixed
        return sentences.series({f: v for f, v in point.factors.items() if f not in fixed}, language) or point.id

    @property
    def is_increased(self) -> bool:
        """Whether the aggressors increase the victims' 99th percentile by more than chance does."""
        return _is_above(self.times(self.beside))

    def restores(self, point: VmsPoint) -> bool | None:
        """Whether the 99th percentile is at most 20 % above its value alone; None if the interval
        contains this bound.
        """
        times = self.times(point)
        if times.mean is None:
            return None
        if times.low is None or times.high is None:
            return times.mean <= RESTORED_RATIO
        return None if times.low <= RESTORED_RATIO < times.high else times.high <= RESTORED_RATIO

    def taken_back_percent(self, remedy: VmsPoint) -> float | None:
        """The share of the increase of the 99th percentile that a remedy avoids; None if there is
        no increase.
        """
        alone, beside, now = (p.mean(P99) for p in (self.alone, self.beside, remedy))
        if alone is None or beside is None or now is None or beside <= alone or not self.is_increased:
            return None
        return 100 * (beside - now) / (beside - alone)

    def added_ms(self) -> dict[str, float]:
        """Part of the array → increase of the time that a request spends there; the increase of the
        rest of its response time is that of `OUTSIDE`.
        """
        ends = [_parts_ms(point) for point in (self.alone, self.beside)]
        return {part: ends[1][part] - ms for part, ms in ends[0].items() if part in ends[1]}

    def best(self) -> VmsPoint | None:
        """The remedy that takes back most, if it takes back more than half and its 99th percentile
        is below that beside the aggressors by more than chance; None otherwise.
        """
        shares = {
            p.id: share
            for p in self.remedies
            if (share := self.taken_back_percent(p)) is not None and _is_above(self.beside.ratio_to(p, P99))
        }
        best = max(self.remedies, key=lambda p: shares.get(p.id, -math.inf), default=None)
        return best if best is not None and shares.get(best.id, 0.0) > 50 else None


def _parts_ms(point: VmsPoint) -> dict[str, float]:
    """Part → mean time that a request spends there. Behind a cache, the drives are part of it."""
    times = {part: ms for part in PARTS if (ms := point.mean(f"{part}_ms_mean")) is not None}
    if "cache" in times:
        times.pop("drives", None)
    whole = point.mean("latency_ms_mean")
    # A request that waits for a cap or a share is in the array, but in none of its parts.
    if whole is not None and times and not _is_limited(point):
        times[OUTSIDE] = max(0.0, whole - sum(times.values()))
    return times


def comparisons(points: Sequence[VmsPoint]) -> list[Comparison]:
    """Every comparison of a run, in the order of the study. What a point is compared with is chosen
    among all points, so that one without results is not replaced by another.
    """
    with_groups = [p for p in points if p.setup.groups]
    alone = [p for p in with_groups if not _vms(p, "aggressor")]
    unlimited = [p for p in alone if not _is_limited(p)] or alone
    sets: dict[tuple[str, str], list[VmsPoint]] = {}
    origins: dict[str, VmsPoint] = {}
    for point in (p for p in with_groups if _vms(p, "aggressor")):
        origin = _closest(point, [p for p in unlimited if _members(p, "victim") == _members(point, "victim")])
        if origin is not None:
            origins[origin.id] = origin
            sets.setdefault((origin.id, _members(point, "aggressor")), []).append(point)
    found = [_comparison(origins[origin], members) for (origin, _), members in sets.items()]
    return [comparison for comparison in found if comparison is not None]


def _comparison(alone: VmsPoint, members: Sequence[VmsPoint]) -> Comparison | None:
    def differences(point: VmsPoint) -> int:
        others = alone.setup.settings
        return sum(others.get(place) != value for place, value in point.setup.settings.items())

    unlimited = [p for p in members if not _is_limited(p)]
    if not unlimited:
        return None
    beside = min(unlimited, key=differences)
    if not (_is_measured(alone) and _is_measured(beside)):
        return None
    return Comparison(alone, beside, tuple(p for p in members if p is not beside and _is_measured(p)))


def _is_measured(point: VmsPoint) -> bool:
    return point.valid and point.mean(P99) is not None


def _is_limited(point: VmsPoint) -> bool:
    return bool(point.setup.caps or point.setup.shares)


def _is_above(ratio: Estimate) -> bool:
    """Whether a ratio is above 1 by more than chance."""
    if ratio.low is not None:
        return ratio.low > 1
    return ratio.mean is not None and ratio.mean >= SINGLE_RATIO


def _vms(point: VmsPoint, role: str) -> int:
    return sum(group.vms for group in point.setup.groups.values() if group.role == role)


def _members(point: VmsPoint, role: str) -> str:
    """The VMs of a role as text. Points with the same text have the same VMs."""
    return ";".join(
        f"{name}: {group.vms} {group.pattern}"
        for name, group in point.setup.groups.items()
        if group.role == role and group.vms
    )


def _closest(point: VmsPoint, candidates: Sequence[VmsPoint]) -> VmsPoint | None:
    def differences(other: VmsPoint) -> int:
        return sum(str(other.factors.get(factor)) != str(level) for factor, level in point.factors.items())

    return min(candidates, key=differences, default=None)
