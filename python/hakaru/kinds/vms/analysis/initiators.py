"""The initiator of Linux in a guest, and hakaru's in a guest, beside hakaru's on this machine:
points that differ only in variables that choose the initiator or the guest.

Points with events of paths are not compared, because their rates are those of interrupted loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.findings import Finding
from hakaru.analysis.network import places_of
from hakaru.analysis.run_data import RunData
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.load import load_at
from hakaru.study import Study
from hakaru.wording import LANGUAGES, say

INITIATOR, GUEST = "load.initiator", "lab.load_guest"
METRIC, LATENCY = "iops", "latency_ms_mean"


class Initiator(Enum):
    """The initiator of a point and its place. The value is the word in messages and evidence."""

    HERE = "hakaru"
    IN_GUEST = "hakaru_in_guest"
    LINUX = "linux_in_guest"


def of_run(run: RunData, points: Sequence[VmsPoint]) -> list[Finding]:
    """One finding per set of points that differ only in their initiator, in the order of the
    study.
    """
    compared = [p for p in points if p.mean(METRIC) and p.valid and not p.events]
    variables = _variables(run.study)
    groups: dict[str, dict[Initiator, VmsPoint]] = {}
    wheres: dict[str, dict[str, Any]] = {}
    for point in compared if variables else []:
        where = {factor: level for factor, level in point.factors.items() if factor not in variables}
        initiator = _initiator(run.study_at(point.id, point.factors))
        wheres.setdefault(str(where), where)
        groups.setdefault(str(where), {}).setdefault(initiator, point)
    return [_finding(group, wheres[key]) for key, group in groups.items() if len(group) > 1]


def _variables(study: Study) -> set[str]:
    """Variables that change the initiator or its guest, and nothing else."""
    return {
        name
        for name, variable in study.variables.items()
        if (places := places_of(variable)) and all(f"{p}.".startswith((f"{INITIATOR}.", f"{GUEST}.")) for p in places)
    }


def _initiator(study: Study) -> Initiator:
    if load_at(study).initiator == "kernel":
        return Initiator.LINUX
    return Initiator.HERE if study.lab.load_guest is None else Initiator.IN_GUEST


def _finding(group: dict[Initiator, VmsPoint], where: dict[str, Any]) -> Finding:
    """Compare each point with the first one in the order of `Initiator`, and the two in guests with
    each other.
    """
    ordered = {initiator: group[initiator] for initiator in Initiator if initiator in group}
    base, *others = ordered
    ratios = {initiator: ordered[initiator].ratio_to(ordered[base], METRIC) for initiator in others}
    in_guests = None
    if len(ordered) == len(Initiator):
        in_guests = ordered[Initiator.LINUX].ratio_to(ordered[Initiator.IN_GUEST], METRIC)
    emulated = [initiator for initiator, p in ordered.items() if p.is_emulated]
    evidence = {
        "base": base.value,
        "points": {initiator.value: p.id for initiator, p in ordered.items()},
        METRIC: {initiator.value: p.mean(METRIC) for initiator, p in ordered.items()},
        LATENCY: {initiator.value: p.mean(LATENCY) for initiator, p in ordered.items()},
        "ratio": {initiator.value: estimate.to_json() for initiator, estimate in ratios.items()},
        "ratio_in_guests": None if in_guests is None else in_guests.to_json(),
        "limiter": {initiator.value: p.verdict.limiter for initiator, p in ordered.items()},
        "emulated": [initiator.value for initiator in emulated],
    }

    def write(language: str) -> str:
        parts = []
        for initiator, point in ordered.items():
            values: dict[str, Any] = {
                "initiator": say(language, f"initiators.{initiator.value}"),
                "base": say(language, f"initiators.{base.value}"),
                "iops": point.mean(METRIC),
                "latency": point.mean(LATENCY),
            }
            estimate = ratios.get(initiator)
            if estimate is None:
                parts.append(say(language, "initiators.base", values))
                continue
            known = "initiators.ratio" if estimate.low is not None else "initiators.ratio.single"
            values |= {"ratio": estimate.mean, "low": estimate.low, "high": estimate.high}
            parts.append(say(language, known, values))
        if in_guests is not None:
            known = "initiators.guests" if in_guests.low is not None else "initiators.guests.single"
            parts.append(say(language, known, {"ratio": in_guests.mean, "low": in_guests.low, "high": in_guests.high}))
        for initiator, point in ordered.items():
            if point.verdict.test_setup_limited:
                limiter = say(language, f"limiter.{point.verdict.limiter}")
                named = {"initiator": say(language, f"initiators.{initiator.value}"), "limiter": limiter}
                parts.append(say(language, "initiators.setup", named))
        if emulated:
            parts.append(say(language, "initiators.emulated"))
        return sentences.sentences(language, *parts)

    text = {language: sentences.in_series(language, where, write(language), bool(where)) for language in LANGUAGES}
    return Finding("initiators", where, text, None, evidence)
