"""Worth of further paths: points that differ only in a factor of paths, compared with the one that
has the fewest. The paths are those of the lab that the VMs share, or those that each VM uses.

Points with events of paths are not compared, because their rates are those of interrupted loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.rules.judge import words
from hakaru.analysis.sweep import Sweep
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.wording import LANGUAGES, say

FACTORS = ("paths", "paths_per_vm")
METRIC = "mb_per_s"


def of_run(points: Sequence[VmsPoint]) -> list[Finding]:
    """One finding per set of points that differ only in their paths, in the order of the study."""
    return [_finding(over, group) for over in FACTORS for group in _groups(points, over)]


def compared(points: Sequence[VmsPoint]) -> set[str]:
    """IDs of the points that are compared with one of fewer paths."""
    return {point.id for over in FACTORS for group in _groups(points, over) for point in group[1:]}


def is_secondary(candidate: Sweep, sweeps: Sequence[Sweep]) -> bool:
    """Whether a sweep only adds some levels to one with fewer paths, which is reported instead."""
    return any(
        _others(other.where, over) == _others(candidate.where, over)
        and other.over == candidate.over
        and over in candidate.where
        and over in other.where
        and other.where[over] < candidate.where[over]
        and len(other.points) > len(candidate.points)
        and {candidate.level(p) for p in candidate.points} <= {other.level(p) for p in other.points}
        for other in sweeps
        for over in FACTORS
    )


def is_compared(sweep: Sweep, points: Sequence[VmsPoint]) -> bool:
    """Whether a sweep goes over paths and its points are compared, so that findings about a growing
    load do not apply: with more paths, the lab grows.
    """
    chosen = {point.id for point in sweep.points}
    groups = _groups(points, sweep.over) if sweep.over in FACTORS else []
    return any(len(chosen & {p.id for p in group}) > 1 for group in groups)


def _others(factors: Mapping[str, Any], over: str) -> dict[str, Any]:
    return {factor: level for factor, level in factors.items() if factor != over}


def _groups(points: Sequence[VmsPoint], over: str) -> list[list[VmsPoint]]:
    """Valid measured points without events that differ only in their paths, the fewest first; at
    least two per group.
    """
    groups: list[list[VmsPoint]] = []
    for point in (p for p in points if over in p.factors and p.valid and p.mean(METRIC) and not p.events):
        for group in groups:
            if _others(group[0].factors, over) == _others(point.factors, over):
                group.append(point)
                break
        else:
            groups.append([point])
    return [sorted(group, key=lambda p: float(p.factors[over])) for group in groups if len(group) > 1]


def _finding(over: str, group: list[VmsPoint]) -> Finding:
    base, where = group[0], _others(group[0].factors, over)
    ratios = {p.factors[over]: p.ratio_to(base, METRIC) for p in group[1:]}
    by_level = {str(p.factors[over]): p for p in group}
    evidence = {
        "over": over,
        "base": base.factors[over],
        "points": {level: p.id for level, p in by_level.items()},
        METRIC: {level: p.mean(METRIC) for level, p in by_level.items()},
        "ratio": {str(level): estimate.to_json() for level, estimate in ratios.items()},
        "limiter": {level: p.verdict.limiter for level, p in by_level.items()},
        "because": {level: _because(p, "en") for level, p in by_level.items()},
        "because_ja": {level: _because(p, "ja") for level, p in by_level.items()},
    }

    def write(language: str) -> str:
        def values(point: VmsPoint) -> dict[str, Any]:
            return {
                "paths": sentences.level(language, over, point.factors[over]),
                "mb_per_s": point.mean(METRIC),
                "limiter": say(language, f"limiter.{point.verdict.limiter}"),
            }

        parts = [say(language, "paths.base", values(base))]
        for point in group[1:]:
            estimate = ratios[point.factors[over]]
            known = "paths.ratio" if estimate.low is not None else "paths.ratio.single"
            numbers = {"ratio": estimate.mean, "low": estimate.low, "high": estimate.high}
            parts.append(say(language, known, values(point) | numbers))
        return sentences.sentences(language, *parts)

    text = {language: sentences.in_series(language, where, write(language), bool(where)) for language in LANGUAGES}
    return Finding("paths", where, text, None, evidence)


def _because(point: VmsPoint, language: str) -> str:
    return sentences.sentences(language, *words(language, point.verdict, point.evidence))
