"""Findings about noisy neighbours: one per comparison (`neighbour_comparisons`), after one about
all of them (`neighbour_cases`) if the run has several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.kinds.vms.analysis import neighbour_cases
from hakaru.kinds.vms.analysis.neighbour_comparisons import P99, RATE, Comparison, comparisons
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.wording import LANGUAGES, say


def of_run(points: Sequence[VmsPoint]) -> list[Finding]:
    """One finding per comparison, after one about all of them if there are several."""
    found = comparisons(points)
    about_all = [neighbour_cases.of_comparisons(found)] if len(found) > 1 else []
    return about_all + [_finding(comparison, len(found) > 1) for comparison in found]


def compared(points: Sequence[VmsPoint]) -> set[str]:
    """IDs of the points that a finding about neighbours describes."""
    found = comparisons(points)
    return {p.id for c in found for p in c.every}


def _finding(comparison: Comparison, several: bool) -> Finding:
    alone, beside = comparison.alone, comparison.beside
    fixed, label, best = comparison.fixed, comparison.label, comparison.best()
    evidence = {
        "alone": alone.id,
        "beside": beside.id,
        "points": {p.id: _evidence(comparison, p) for p in comparison.every},
        "increased": comparison.is_increased,
        "added_ms": comparison.added_ms(),
        "limiter": beside.verdict.limiter,
        "resource": beside.verdict.resource,
        "best": best.id if best else None,
    }

    def write(language: str) -> str:
        values = {"alone": alone.mean(P99), "alone_iops": alone.mean(RATE)}
        values |= neighbour_cases.words(comparison, beside, language)
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


def _remedy_words(comparison: Comparison, remedy: VmsPoint, label: str, language: str) -> str:
    share = comparison.taken_back_percent(remedy)
    values = neighbour_cases.words(comparison, remedy, language) | {"label": label, "share": share}
    name = {True: "restored", None: "open", False: "remedy"}[comparison.restores(remedy)]
    # A share below 0 says nothing: the percentile is higher than without the remedy.
    worse = share is not None and share < 0
    message = f"neighbours.{name}" if share is not None else "neighbours.remedy.no_increase"
    text = say(language, "neighbours.remedy.worse" if worse else message, values)
    kept = comparison.kept(remedy).mean
    if kept is not None:
        text = sentences.sentences(language, text, say(language, "neighbours.kept", {"percent": 100 * kept}))
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
        "aggressor_ratio": comparison.kept(point).to_json(),
        "restores": comparison.restores(point) if point in comparison.remedies else None,
        "taken_back_percent": comparison.taken_back_percent(point) if point in comparison.remedies else None,
        "utilisation": {resource: estimate.mean for resource, estimate in point.utilisation.items()},
        "limiter": point.verdict.limiter,
    }
