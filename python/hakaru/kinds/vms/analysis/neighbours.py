"""Noisy neighbours: the service of the victims alone, beside aggressors, and with each remedy.

Among the points with the same victims, those without an aggressor VM show the victims *alone*. Each
other point belongs to the point alone that differs from it in the fewest factors. Among those with
the same aggressors, the first one in the order of the study is the cost, and every other one is a
*remedy*: it may set caps, move LUs to other drives, or change anything else.

A remedy takes back the share of the increase of the victims' 99th percentile that it avoids. It
*restores* the service if the percentile is at most 20 % above its value alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.analysis.roles import PARTS
from hakaru.wording import LANGUAGES, say

P99 = "victim_latency_ms_p99"
RATE = "victim_iops"
RESTORED_RATIO = 1.2


@dataclass(frozen=True)
class Comparison:
    """The victims alone, beside their aggressors, and with remedies."""

    alone: VmsPoint
    beside: VmsPoint
    remedies: tuple[VmsPoint, ...]

    def times(self, point: VmsPoint) -> float | None:
        """The victims' 99th percentile at a point, as a multiple of that alone."""
        return _quotient(point.mean(P99), self.alone.mean(P99))

    def rate_percent(self, point: VmsPoint) -> float | None:
        """The victims' rate at a point, in percent of that alone."""
        share = _quotient(point.mean(RATE), self.alone.mean(RATE))
        return None if share is None else 100 * share

    def taken_back_percent(self, remedy: VmsPoint) -> float | None:
        """The share of the increase of the 99th percentile that a remedy avoids; None if the
        aggressors do not increase it.
        """
        alone, beside, now = (p.mean(P99) for p in (self.alone, self.beside, remedy))
        if alone is None or beside is None or now is None or beside <= alone:
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
        """The remedy that takes back most, if it takes back more than half; None otherwise."""
        shares = {p.id: share for p in self.remedies if (share := self.taken_back_percent(p)) is not None}
        best = max(self.remedies, key=lambda p: shares.get(p.id, -math.inf), default=None)
        return best if best is not None and shares.get(best.id, 0.0) > 50 else None


def comparisons(points: Sequence[VmsPoint]) -> list[Comparison]:
    """Every comparison of a run, in the order of the study."""
    with_groups = [p for p in points if p.setup.groups and p.mean(P99) is not None]
    alone = [p for p in with_groups if not _vms(p, "aggressor")]
    uncapped = [p for p in alone if not p.setup.caps] or alone
    sets: dict[tuple[str, str], list[VmsPoint]] = {}
    origins: dict[str, VmsPoint] = {}
    for point in (p for p in with_groups if _vms(p, "aggressor")):
        origin = _closest(point, [p for p in uncapped if _members(p, "victim") == _members(point, "victim")])
        if origin is not None:
            origins[origin.id] = origin
            sets.setdefault((origin.id, _members(point, "aggressor")), []).append(point)
    return [Comparison(origins[origin], members[0], tuple(members[1:])) for (origin, _), members in sets.items()]


def of_run(points: Sequence[VmsPoint]) -> list[Finding]:
    """One finding per comparison."""
    found = comparisons(points)
    return [_finding(comparison, len(found) > 1) for comparison in found]


def compared(points: Sequence[VmsPoint]) -> set[str]:
    """IDs of the points that a finding about neighbours describes."""
    found = comparisons(points)
    return {p.id for c in found for p in (c.alone, c.beside, *c.remedies)}


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


def _quotient(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _finding(comparison: Comparison, several: bool) -> Finding:
    alone, beside = comparison.alone, comparison.beside
    every = (alone, beside, *comparison.remedies)
    fixed = {f: v for f, v in beside.factors.items() if len({str(p.factors.get(f)) for p in every}) == 1}
    best = comparison.best()
    evidence = {
        "alone": alone.id,
        "beside": beside.id,
        "points": {p.id: _evidence(comparison, p) for p in every},
        "added_ms": comparison.added_ms(),
        "limiter": beside.verdict.limiter,
        "resource": beside.verdict.resource,
        "best": best.id if best else None,
    }

    def label(point: VmsPoint, language: str) -> str:
        return sentences.series({f: v for f, v in point.factors.items() if f not in fixed}, language) or point.id

    def write(language: str) -> str:
        values = {"alone": alone.mean(P99), "alone_iops": alone.mean(RATE), **_words(comparison, beside)}
        parts = [say(language, "neighbours.cost", values | {"label": label(beside, language)})]
        added = comparison.added_ms()
        part = max(added, key=lambda name: added[name], default=None)
        if part is not None and added[part] > 0:
            where = say(language, f"neighbours.part.{part}")
            parts.append(say(language, "neighbours.added", {"part": where, "ms": added[part]}))
        limiter = say(language, f"limiter.{beside.verdict.limiter}")
        parts.append(say(language, "neighbours.limiter", {"limiter": limiter}))
        for remedy in comparison.remedies:
            parts.append(_remedy_words(comparison, remedy, label(remedy, language), language))
        if best is not None:
            parts.append(say(language, "neighbours.best", {"label": label(best, language)}))
        elif comparison.remedies:
            parts.append(say(language, "neighbours.none"))
        return sentences.sentences(language, *parts)

    text = {language: sentences.in_series(language, fixed, write(language), several) for language in LANGUAGES}
    return Finding("neighbours", fixed if several else {}, text, None, evidence)


def _words(comparison: Comparison, point: VmsPoint) -> dict[str, float | None]:
    return {
        "p99": point.mean(P99),
        "times": comparison.times(point),
        "iops": point.mean(RATE),
        "percent": comparison.rate_percent(point),
    }


def _remedy_words(comparison: Comparison, remedy: VmsPoint, label: str, language: str) -> str:
    share, times = comparison.taken_back_percent(remedy), comparison.times(remedy)
    values = _words(comparison, remedy) | {"label": label, "share": share}
    restored = times is not None and times <= RESTORED_RATIO
    name = "neighbours.restored" if restored else "neighbours.remedy"
    text = say(language, name if share is not None else "neighbours.remedy.no_increase", values)
    caps = {name: remedy.mean(f"cap_{name}") for name in ("iops", "mb_per_s", "delayed_percent", "wait_ms_mean")}
    if not remedy.setup.caps or None in caps.values():
        return text
    return sentences.sentences(language, text, say(language, "neighbours.caps", caps))


def _evidence(comparison: Comparison, point: VmsPoint) -> dict[str, Any]:
    names = ("victim_iops", "victim_latency_ms_mean", P99, "aggressor_iops", "aggressor_mb_per_s")
    return {
        "factors": point.factors,
        "caps": list(point.setup.caps),
        **{name: point.mean(name) for name in names},
        "p99_ratio": comparison.times(point),
        "rate_percent": comparison.rate_percent(point),
        "taken_back_percent": comparison.taken_back_percent(point) if point in comparison.remedies else None,
        "utilisation": {resource: estimate.mean for resource, estimate in point.utilisation.items()},
        "limiter": point.verdict.limiter,
    }
