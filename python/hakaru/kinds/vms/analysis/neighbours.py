"""Noisy neighbours: the service of the victims alone, beside aggressors, and with each remedy.

Among the points with the same victims, those without an aggressor VM show the victims *alone*. Each
other point belongs to the point alone that differs from it in the fewest factors. Among those with
the same aggressors, one is the cost: that without caps and shares whose settings differ least from
those of the point alone, the first one if several do. Every other one is a *remedy*: it may set
caps, move LUs to other drives, or change anything else.

All ratios are those of means over repetitions, with their 95 % interval. The aggressors *increase*
the victims' 99th percentile if the entire interval of its ratio is above 1; with one repetition,
which has no interval, if the ratio is at least 1.2. A remedy takes back the share of this increase
that it avoids; without an increase there is no share. It *restores* the service if the percentile
is at most 20 % above its value alone, and that is open if the interval contains this bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.analysis.roles import PARTS
from hakaru.wording import LANGUAGES, say

P99 = "victim_latency_ms_p99"
RATE = "victim_iops"
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
        """Part of the array → increase of the time that a request spends there."""
        added = {}
        for part in PARTS:
            alone, beside = (p.mean(f"{part}_ms_mean") for p in (self.alone, self.beside))
            if alone is not None and beside is not None:
                added[part] = beside - alone
        return added

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


def comparisons(points: Sequence[VmsPoint]) -> list[Comparison]:
    """Every comparison of a run, in the order of the study."""
    with_groups = [p for p in points if p.setup.groups and p.mean(P99) is not None]
    alone = [p for p in with_groups if not _vms(p, "aggressor")]
    unlimited = [p for p in alone if not _is_limited(p)] or alone
    sets: dict[tuple[str, str], list[VmsPoint]] = {}
    origins: dict[str, VmsPoint] = {}
    for point in (p for p in with_groups if _vms(p, "aggressor")):
        origin = _closest(point, [p for p in unlimited if _members(p, "victim") == _members(point, "victim")])
        if origin is not None:
            origins[origin.id] = origin
            sets.setdefault((origin.id, _members(point, "aggressor")), []).append(point)
    return [_comparison(origins[origin], members) for (origin, _), members in sets.items()]


def of_run(points: Sequence[VmsPoint]) -> list[Finding]:
    """One finding per comparison."""
    found = comparisons(points)
    return [_finding(comparison, len(found) > 1) for comparison in found]


def compared(points: Sequence[VmsPoint]) -> set[str]:
    """IDs of the points that a finding about neighbours describes."""
    found = comparisons(points)
    return {p.id for c in found for p in (c.alone, c.beside, *c.remedies)}


def _comparison(alone: VmsPoint, members: Sequence[VmsPoint]) -> Comparison:
    def differences(point: VmsPoint) -> int:
        others = alone.setup.settings
        return sum(others.get(place) != value for place, value in point.setup.settings.items())

    unlimited = [p for p in members if not _is_limited(p)]
    beside = min(unlimited, key=differences, default=members[0])
    return Comparison(alone, beside, tuple(p for p in members if p is not beside))


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


def _finding(comparison: Comparison, several: bool) -> Finding:
    alone, beside = comparison.alone, comparison.beside
    every = (alone, beside, *comparison.remedies)
    fixed = {f: v for f, v in beside.factors.items() if len({str(p.factors.get(f)) for p in every}) == 1}
    best = comparison.best()
    evidence = {
        "alone": alone.id,
        "beside": beside.id,
        "points": {p.id: _evidence(comparison, p) for p in every},
        "increased": comparison.is_increased,
        "added_ms": comparison.added_ms(),
        "limiter": beside.verdict.limiter,
        "resource": beside.verdict.resource,
        "best": best.id if best else None,
    }

    def label(point: VmsPoint, language: str) -> str:
        return sentences.series({f: v for f, v in point.factors.items() if f not in fixed}, language) or point.id

    def write(language: str) -> str:
        values = {"alone": alone.mean(P99), "alone_iops": alone.mean(RATE), **_words(comparison, beside, language)}
        parts = [say(language, "neighbours.cost", values | {"label": label(beside, language)})]
        added = comparison.added_ms()
        part = max(added, key=lambda name: added[name], default=None)
        if not comparison.is_increased:
            parts.append(say(language, "neighbours.no_increase"))
        elif part is not None and added[part] > 0:
            where = say(language, f"neighbours.part.{part}")
            parts.append(say(language, "neighbours.added", {"part": where, "ms": added[part]}))
        limiter = say(language, f"limiter.{beside.verdict.limiter}")
        parts.append(say(language, "neighbours.limiter", {"limiter": limiter}))
        for remedy in comparison.remedies:
            parts.append(_remedy_words(comparison, remedy, label(remedy, language), language))
        if best is not None:
            parts.append(say(language, "neighbours.best", {"label": label(best, language)}))
        elif comparison.remedies and comparison.is_increased:
            parts.append(say(language, "neighbours.none"))
        return sentences.sentences(language, *parts)

    text = {language: sentences.in_series(language, fixed, write(language), several) for language in LANGUAGES}
    return Finding("neighbours", fixed if several else {}, text, None, evidence)


def _words(comparison: Comparison, point: VmsPoint, language: str) -> dict[str, Any]:
    times, rate = comparison.times(point), comparison.rate(point).mean
    known = "neighbours.interval" if times.low is not None else "neighbours.interval.none"
    numbers = {"low": times.low, "high": times.high}
    return {
        "p99": point.mean(P99),
        "times": times.mean,
        "interval": say(language, known, numbers | {"n": times.n}),
        "iops": point.mean(RATE),
        "percent": None if rate is None else 100 * rate,
    }


def _remedy_words(comparison: Comparison, remedy: VmsPoint, label: str, language: str) -> str:
    share = comparison.taken_back_percent(remedy)
    values = _words(comparison, remedy, language) | {"label": label, "share": share}
    name = {True: "restored", None: "open", False: "remedy"}[comparison.restores(remedy)]
    text = say(language, f"neighbours.{name}" if share is not None else "neighbours.remedy.no_increase", values)
    caps = {name: remedy.mean(f"cap_{name}") for name in ("iops", "mb_per_s", "delayed_percent", "wait_ms_mean")}
    if not remedy.setup.caps or None in caps.values():
        return text
    return sentences.sentences(language, text, say(language, "neighbours.caps", caps))


def _evidence(comparison: Comparison, point: VmsPoint) -> dict[str, Any]:
    names = ("victim_iops", "victim_latency_ms_mean", P99, "aggressor_iops", "aggressor_mb_per_s")
    return {
        "factors": point.factors,
        "caps": list(point.setup.caps),
        "shares": list(point.setup.shares),
        **{name: point.mean(name) for name in names},
        "p99_ratio": comparison.times(point).to_json(),
        "rate_ratio": comparison.rate(point).to_json(),
        "taken_back_percent": comparison.taken_back_percent(point) if point in comparison.remedies else None,
        "utilisation": {resource: estimate.mean for resource, estimate in point.utilisation.items()},
        "limiter": point.verdict.limiter,
    }
