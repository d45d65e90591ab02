"""Comparison of the guest's NIC models: points that differ only in the factor `nic`.

Every rate is compared with the lowest. A search that ended before it had bracketed the rate gives a
lower bound, with which nothing is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.findings import Finding
from hakaru.kinds.packets import names
from hakaru.kinds.packets.analysis.points import PacketsPoint
from hakaru.search import Verdict
from hakaru.wording import LANGUAGES, say

FACTOR = "nic"


def of_run(points: Sequence[PacketsPoint]) -> list[Finding]:
    """One finding per set of points that differ only in their NIC, in the order of the study."""
    return [_finding(group) for group in _groups(points)]


def _others(factors: Mapping[str, Any]) -> dict[str, Any]:
    return {factor: level for factor, level in factors.items() if factor != FACTOR}


def _groups(points: Sequence[PacketsPoint]) -> list[list[PacketsPoint]]:
    """Measured points that differ only in their NIC, the slowest first, with at least two rates."""
    groups: list[list[PacketsPoint]] = []
    for point in (p for p in points if p.factors.get(FACTOR) is not None and p.mean(names.RATE)):
        for group in groups:
            if _others(group[0].factors) == _others(point.factors):
                group.append(point)
                break
        else:
            groups.append([point])
    several = [group for group in groups if sum(map(_is_found, group)) > 1]
    return [sorted(group, key=lambda p: (not _is_found(p), p.mean(names.RATE) or 0.0)) for group in several]


def _is_found(point: PacketsPoint) -> bool:
    """Whether the searches of a point bracketed its rate."""
    return point.searched == Verdict.BRACKETED.value


def _finding(group: Sequence[PacketsPoint]) -> Finding:
    base, where = group[0], _others(group[0].factors)
    ratios = {str(p.factors[FACTOR]): p.ratio_to(base, names.RATE) for p in group[1:] if _is_found(p)}
    by_nic = {str(p.factors[FACTOR]): p for p in group}
    evidence = {
        "over": FACTOR,
        "base": base.factors[FACTOR],
        "points": {nic: p.id for nic, p in by_nic.items()},
        names.RATE: {nic: p.mean(names.RATE) for nic, p in by_nic.items()},
        "search": {nic: p.searched for nic, p in by_nic.items()},
        "ratio": {nic: estimate.to_json() for nic, estimate in ratios.items()},
    }
    text = {}
    for language in LANGUAGES:
        parts = [_words(language, nic, point, ratios.get(nic), is_base=point is base) for nic, point in by_nic.items()]
        text[language] = sentences.in_series(language, where, sentences.sentences(language, *parts), bool(where))
    return Finding("nics", where, text, None, evidence)


def _words(language: str, nic: str, point: PacketsPoint, ratio: Estimate | None, *, is_base: bool) -> str:
    values = {"nic": nic, "rate": point.mean(names.RATE)}
    if ratio is None:
        return say(language, "packets.nics.base" if is_base else "packets.nics.at_least", values)
    message = "packets.nics.ratio" if ratio.low is not None else "packets.nics.ratio.single"
    return say(language, message, values | {"ratio": ratio.mean, "low": ratio.low, "high": ratio.high})
