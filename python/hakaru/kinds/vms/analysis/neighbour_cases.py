"""The finding about all comparisons of a run with noisy neighbours (its *cases*, such as the shared
resources): what the aggressors cost in each, which resource was the bottleneck, which remedies
restore the service, and what these leave to the aggressors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.kinds.vms.analysis.neighbour_comparisons import P99, RATE, Comparison
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.wording import LANGUAGES, say

Json = dict[str, Any]


def of_comparisons(comparisons: Sequence[Comparison]) -> Finding:
    """The finding about several comparisons, at least two."""
    evidence = {"cases": [_case(each) for each in comparisons], "everywhere": _everywhere(comparisons, "en")}

    def write(language: str) -> str:
        parts = [_case_words(each, language) for each in comparisons]
        if everywhere := _everywhere(comparisons, language):
            remedies = say(language, "list.separator").join(everywhere)
            parts.append(say(language, "neighbours.everywhere", {"remedies": remedies}))
        elif any(each.is_increased and each.remedies for each in comparisons):
            parts.append(say(language, "neighbours.everywhere.none"))
        return sentences.sentences(language, *parts)

    return Finding("neighbour_cases", {}, {language: write(language) for language in LANGUAGES}, None, evidence)


def words(comparison: Comparison, point: VmsPoint, language: str) -> dict[str, Any]:
    """The victims' service at a point, compared with that alone, as values of a sentence."""
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


def _everywhere(comparisons: Sequence[Comparison], language: str) -> list[str]:
    """Labels of the remedies that restore the service in every case in which it is impaired."""
    restoring = [
        [each.label(point, language) for point in each.remedies if each.restores(point)]
        for each in comparisons
        if each.is_increased
    ]
    if not restoring:
        return []
    return [label for label in restoring[0] if all(label in others for others in restoring[1:])]


def _case(comparison: Comparison) -> Json:
    alone, beside = comparison.alone, comparison.beside
    remedies = [
        {
            "point": point.id,
            "label": comparison.label(point, "en"),
            "restores": comparison.restores(point),
            "p99_ratio": comparison.times(point).to_json(),
            "aggressor_ratio": comparison.kept(point).to_json(),
        }
        for point in comparison.remedies
    ]
    return {
        "where": comparison.fixed,
        "alone": alone.id,
        "beside": beside.id,
        "increased": comparison.is_increased,
        "p99_ratio": comparison.times(beside).to_json(),
        "rate_ratio": comparison.rate(beside).to_json(),
        "limiter": beside.verdict.limiter,
        "resource": beside.verdict.resource,
        "limiter_alone": alone.verdict.limiter,
        "remedies": remedies,
    }


def _case_words(comparison: Comparison, language: str) -> str:
    """One sentence about a case. It is the only one, because a report shows the same sentence about
    several cases only once.
    """
    beside = comparison.beside
    values = words(comparison, beside, language) | {
        "case": sentences.series(comparison.fixed, language),
        "limiter": say(language, f"limiter.{beside.verdict.limiter}"),
    }
    if not comparison.is_increased:
        return say(language, "neighbours.case.none", values)
    separator, clauses = say(language, "list.separator"), []
    for name, verdict in (("restored", True), ("open", None), ("not", False)):
        labels = [
            _label_with_cost(comparison, point, language) if verdict else comparison.label(point, language)
            for point in comparison.remedies
            if comparison.restores(point) is verdict
        ]
        if labels:
            clauses.append(say(language, f"neighbours.case.{name}", {"remedies": separator.join(labels)}))
    return say(language, "neighbours.case", values | {"remedies": "".join(clauses)})


def _label_with_cost(comparison: Comparison, point: VmsPoint, language: str) -> str:
    """A remedy, with the rate that it leaves to the aggressors if it is known."""
    label, kept = comparison.label(point, language), comparison.kept(point).mean
    if kept is None:
        return label
    return say(language, "neighbours.case.kept", {"label": label, "percent": 100 * kept})
