"""The finding about all comparisons of a run with noisy neighbours (its *cases*, such as the shared
resources): what the aggressors cost in each, which resource was the bottleneck, which remedies
restore the service, and what these leave to the aggressors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.kinds.vms.analysis.neighbour_comparisons import P99, RATE, Comparison
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.wording import LANGUAGES, number, say

Json = dict[str, Any]


def of_comparisons(comparisons: Sequence[Comparison]) -> Finding:
    """The finding about several comparisons, at least two."""
    evidence = {"cases": [_case(each) for each in comparisons], "everywhere": _everywhere(comparisons, "en")}

    def write(language: str) -> str:
        labels = dict.fromkeys(each.label(point, language) for each in comparisons for point in each.remedies)
        costs = say(language, "list.separator").join(_cost(each, language) for each in comparisons)
        parts = [say(language, "neighbours.cases", {"cases": costs})]
        parts += [_remedy(comparisons, label, language) for label in labels]
        return sentences.sentences(language, *(part for part in parts if part))

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


def _cost(comparison: Comparison, language: str) -> str:
    """Returns the cost of the aggressors in one case, and the bottleneck."""
    values = words(comparison, comparison.beside, language) | {
        "case": sentences.series(comparison.fixed, language),
        "times": _with_interval(comparison.times(comparison.beside), language),
        "limiter": say(language, f"limiter.{comparison.beside.verdict.limiter}"),
    }
    return say(language, "neighbours.cases.cost" if comparison.is_increased else "neighbours.cases.no_cost", values)


def _with_interval(ratio: Estimate, language: str) -> str:
    """A ratio and its interval, such as `9.5 (7.2–11.8)`."""
    mean, low, high = (number(value, language) for value in (ratio.mean, ratio.low, ratio.high))
    return mean if ratio.low is None or low == high else f"{mean} ({low}–{high})"


def span(language: str, values: Sequence[float]) -> str:
    """The lowest and the highest value, as one number if they look the same; empty without any."""
    ends = list(dict.fromkeys(number(end, language) for end in (min(values), max(values)))) if values else []
    return say(language, "neighbours.span", {"low": ends[0], "high": ends[1]}) if len(ends) > 1 else "".join(ends)


def _remedy(comparisons: Sequence[Comparison], label: str, language: str) -> str:
    """One sentence about a remedy in the cases with an increase; empty without such a case."""
    impaired = [each for each in comparisons if each.is_increased]
    tried = [(each, point) for each in impaired for point in each.remedies if each.label(point, language) == label]
    clauses = []
    for name, verdict in (("restored", True), ("open", None), ("not", False)):
        found = [(each, point) for each, point in tried if each.restores(point) is verdict]
        if not found:
            continue
        separator = say(language, "list.separator")
        names = separator.join(sentences.series(each.fixed, language) for each, _ in found)
        is_all = len(found) == len(impaired)
        where = say(language, "neighbours.cases.all" if is_all else "neighbours.cases.some", {"cases": names})
        kept = [100 * mean for each, point in found if (mean := each.kept(point).mean) is not None]
        message = f"neighbours.cases.{name}" + (".kept" if verdict and kept else "")
        clauses.append(say(language, message, {"where": where, "left": span(language, kept)}))
    if not clauses:
        return ""
    joined = say(language, "neighbours.cases.joint").join(clauses)
    return say(language, "neighbours.cases.remedy", {"label": label, "clauses": joined})
