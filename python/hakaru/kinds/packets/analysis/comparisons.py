"""Comparisons of points that differ in one setting: the guest's NIC, its queues and rings, the
position of its processors, the number of guests, the way of searching.

A point without the factor has the default and is compared with the others. Every rate is compared
with the lowest. A search that ended before it had bracketed the rate gives a lower bound, with
which nothing is compared. A level may change more than one field: with more queues, a guest of
`forwarding` also has more processors.
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

NIC = "nic"
FACTORS = (NIC, "queues", "pinning", "ring", "beside", "guests", "procedure")
"""Factors that are compared, by the names of the study `forwarding`. Without a NIC, a device is no
guest, so points without one are in no comparison of NICs.
"""


def of_run(points: Sequence[PacketsPoint]) -> list[Finding]:
    """One finding per factor and set of points that differ only in it, in the study's order."""
    return [_finding(group, factor) for factor in FACTORS for group in _groups(points, factor)]


def _others(factors: Mapping[str, Any], factor: str) -> dict[str, Any]:
    return {name: level for name, level in factors.items() if name != factor}


def _groups(points: Sequence[PacketsPoint], factor: str) -> list[list[PacketsPoint]]:
    """Measured points that differ only in a factor, the slowest first, with at least two rates."""
    groups: list[list[PacketsPoint]] = []
    for point in (p for p in points if (factor != NIC or factor in p.factors) and p.mean(names.RATE)):
        for group in groups:
            if _others(group[0].factors, factor) == _others(point.factors, factor):
                group.append(point)
                break
        else:
            groups.append([point])
    several = [group for group in groups if sum(map(_is_found, group)) > 1]
    return [sorted(group, key=lambda p: (not _is_found(p), p.mean(names.RATE) or 0.0)) for group in several]


def _is_found(point: PacketsPoint) -> bool:
    """Whether the searches of a point bracketed its rate."""
    return point.searched == Verdict.BRACKETED.value


def _level(point: PacketsPoint, factor: str) -> str:
    """The level of a point; empty for the default."""
    level = point.factors.get(factor)
    return "" if level is None else str(level)


def _finding(group: Sequence[PacketsPoint], factor: str) -> Finding:
    base, where = group[0], _others(group[0].factors, factor)
    ratios = {_level(p, factor): p.ratio_to(base, names.RATE) for p in group[1:] if _is_found(p)}
    by_level = {_level(p, factor): p for p in group}
    evidence = {
        "over": factor,
        "base": _level(base, factor),
        "points": {level: p.id for level, p in by_level.items()},
        names.RATE: {level: p.mean(names.RATE) for level, p in by_level.items()},
        "search": {level: p.searched for level, p in by_level.items()},
        "ratio": {level: estimate.to_json() for level, estimate in ratios.items()},
    }
    text = {}
    for language in LANGUAGES:
        parts = [
            _words(language, _named(language, factor, level), point, ratios.get(level), is_base=point is base)
            for level, point in by_level.items()
        ]
        text[language] = sentences.in_series(language, where, sentences.sentences(language, *parts), bool(where))
    return Finding("comparison", where, text, None, evidence)


def _named(language: str, factor: str, level: str) -> str:
    """The level in a sentence; a NIC needs no name of its factor."""
    if factor == NIC:
        return level
    named = say(language, f"factor.{factor}")
    if not level:
        return say(language, "packets.compared.default", {"factor": named})
    return say(language, "packets.compared.level", {"factor": named, "level": level})


def _words(language: str, level: str, point: PacketsPoint, ratio: Estimate | None, *, is_base: bool) -> str:
    values = {"level": level, "rate": point.mean(names.RATE)}
    if ratio is None:
        return say(language, "packets.compared.base" if is_base else "packets.compared.at_least", values)
    message = "packets.compared.ratio" if ratio.low is not None else "packets.compared.ratio.single"
    return say(language, message, values | {"ratio": ratio.mean, "low": ratio.low, "high": ratio.high})
