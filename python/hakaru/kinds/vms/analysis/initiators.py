"""The initiator of Linux in a guest, and hakaru's in a guest, beside hakaru's on this machine: points
that differ only in a variable that chooses the initiator or the guest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.network import places_of
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.study import Study
from hakaru.wording import LANGUAGES, say

INITIATOR, GUEST = "load.initiator", "lab.load_guest"
PLACES = {INITIATOR, GUEST}
METRIC, LATENCY = "iops", "latency_ms_mean"
EMULATED = "cpu_emulated"


def of_run(study: Study, points: Sequence[VmsPoint]) -> list[Finding]:
    """One finding per set of points that differ only in their initiator, in the order of the
    study.
    """
    return [_finding(over, group) for over in _factors(study) for group in _groups(points, over)]


def _factors(study: Study) -> Iterator[str]:
    """Variables that change the initiator or its guest, and nothing else."""
    for name, variable in study.variables.items():
        places = set(places_of(variable))
        if places and places <= PLACES:
            yield name


def _groups(points: Sequence[VmsPoint], over: str) -> list[list[VmsPoint]]:
    """Measured points that differ only in `over`, hakaru's initiator on this machine first; without
    one, in the order of the study. At least two per group.
    """
    groups: list[list[VmsPoint]] = []
    for point in (p for p in points if over in p.factors and p.mean(METRIC)):
        for group in groups:
            if _others(group[0], over) == _others(point, over):
                group.append(point)
                break
        else:
            groups.append([point])
    return [sorted(group, key=_is_other) for group in groups if len(group) > 1]


def _others(point: VmsPoint, over: str) -> dict[str, Any]:
    return {factor: level for factor, level in point.factors.items() if factor != over}


def _is_other(point: VmsPoint) -> bool:
    settings = point.setup.settings
    return settings.get(INITIATOR) == "kernel" or settings.get(GUEST) is not None


def _finding(over: str, group: list[VmsPoint]) -> Finding:
    base, where = group[0], _others(group[0], over)
    ratios = {str(p.factors[over]): p.ratio_to(base, METRIC) for p in group[1:]}
    by_level = {str(p.factors[over]): p for p in group}
    emulated = [level for level, p in by_level.items() if any(c.name == EMULATED for c in p.caveats)]
    evidence = {
        "over": over,
        "base": str(base.factors[over]),
        "points": {level: p.id for level, p in by_level.items()},
        METRIC: {level: p.mean(METRIC) for level, p in by_level.items()},
        LATENCY: {level: p.mean(LATENCY) for level, p in by_level.items()},
        "ratio": {level: estimate.to_json() for level, estimate in ratios.items()},
        "limiter": {level: p.verdict.limiter for level, p in by_level.items()},
        "emulated": emulated,
    }

    def write(language: str) -> str:
        parts = []
        for level, point in by_level.items():
            values: dict[str, Any] = {
                "initiator": level,
                "iops": point.mean(METRIC),
                "latency": point.mean(LATENCY),
                "limiter": say(language, f"limiter.{point.verdict.limiter}"),
            }
            estimate = ratios.get(level)
            if estimate is None:
                parts.append(say(language, "initiators.base", values))
                continue
            known = "initiators.ratio" if estimate.low is not None else "initiators.ratio.single"
            values |= {"ratio": estimate.mean, "low": estimate.low, "high": estimate.high}
            parts.append(say(language, known, values))
        if emulated:
            names = {"initiators": say(language, "list.separator").join(emulated)}
            parts.append(say(language, "initiators.emulated", names))
        return sentences.sentences(language, *parts)

    text = {language: sentences.in_series(language, where, write(language), bool(where)) for language in LANGUAGES}
    return Finding("initiators", where, text, None, evidence)
