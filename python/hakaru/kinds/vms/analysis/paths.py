"""Worth of further paths: points that differ only in the factor `paths`, compared with the one that
has the fewest.
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.analysis.sweep import Sweep
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.wording import LANGUAGES, say

FACTOR = "paths"
METRIC = "mb_per_s"


def of_run(points: list[VmsPoint]) -> list[Finding]:
    """One finding per set of points that differ only in their paths, in the order of the study."""
    return [_finding(group) for group in _groups(points)]


def compared(points: list[VmsPoint]) -> set[str]:
    """IDs of the points that are compared with one of fewer paths."""
    return {point.id for group in _groups(points) for point in group[1:]}


def is_secondary(candidate: Sweep, sweeps: list[Sweep]) -> bool:
    """Whether a sweep only adds some levels to one with fewer paths, which is reported instead."""
    return any(
        _others(other.where) == _others(candidate.where)
        and FACTOR in candidate.where
        and other.where[FACTOR] < candidate.where[FACTOR]
        and len(other.points) > len(candidate.points)
        for other in sweeps
    )


def _others(factors: Any) -> dict[str, Any]:
    return {factor: level for factor, level in factors.items() if factor != FACTOR}


def _groups(points: list[VmsPoint]) -> list[list[VmsPoint]]:
    """Measured points that differ only in their paths, the fewest first; at least two per group."""
    groups: list[list[VmsPoint]] = []
    for point in (p for p in points if FACTOR in p.factors and p.mean(METRIC)):
        for group in groups:
            if _others(group[0].factors) == _others(point.factors):
                group.append(point)
                break
        else:
            groups.append([point])
    return [sorted(group, key=lambda p: float(p.factors[FACTOR])) for group in groups if len(group) > 1]


def _finding(group: list[VmsPoint]) -> Finding:
    base, where = group[0], _others(group[0].factors)
    ratios = {p.factors[FACTOR]: p.ratio_to(base, METRIC) for p in group[1:]}
    evidence = {
        "over": FACTOR,
        "base": base.factors[FACTOR],
        METRIC: {str(p.factors[FACTOR]): p.mean(METRIC) for p in group},
        "ratio": {str(level): estimate.to_json() for level, estimate in ratios.items()},
        "limiter": {str(p.factors[FACTOR]): p.verdict.limiter for p in group},
    }

    def write(language: str) -> str:
        def words(point: VmsPoint) -> dict[str, Any]:
            return {
                "paths": sentences.level(language, FACTOR, point.factors[FACTOR]),
                "mb_per_s": point.mean(METRIC),
                "limiter": say(language, f"limiter.{point.verdict.limiter}"),
            }

        parts = [say(language, "paths.base", words(base))]
        for point in group[1:]:
            estimate = ratios[point.factors[FACTOR]]
            known = "paths.ratio" if estimate.low is not None else "paths.ratio.single"
            numbers = {name: value and round(value, 2) for name, value in _numbers(estimate).items()}
            parts.append(say(language, known, words(point) | numbers))
        return sentences.sentences(language, *parts)

    text = {language: sentences.in_series(language, where, write(language), bool(where)) for language in LANGUAGES}
    return Finding("paths", where, text, None, evidence)


def _numbers(estimate: Estimate) -> dict[str, float | None]:
    return {"ratio": estimate.mean, "low": estimate.low, "high": estimate.high}
