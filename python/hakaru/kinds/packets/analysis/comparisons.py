"""Comparisons of points that differ in one setting: the guest's NIC, its queues and rings, the
position of its processors, the number of guests, the way of searching.

A point without the factor has the default and is compared with the others. Every rate is compared
with the lowest. A search that ended before it had bracketed the rate gives a lower bound, with
which nothing is compared. A level may change more than one field: with more queues, a guest of
`forwarding` also has more processors.

Levels are also compared by their means over the frame sizes at which each of them has a rate, and
so are the directions. Such a mean has a narrower interval than one rate, because every search is
independent of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate, SampleMean, ratio
from hakaru.analysis.findings import Finding
from hakaru.kinds.packets import names
from hakaru.kinds.packets.analysis.points import PacketsPoint
from hakaru.search import Verdict
from hakaru.wording import LANGUAGES, say

NIC, DIRECTION = "nic", "direction"
FACTORS = (NIC, "queues", "pinning", "ring", "beside", "guests", "procedure")
"""Factors that are compared, by the names of the study `forwarding`. Without a NIC, a device is no
guest, so points without one are in no comparison of NICs.
"""


@dataclass(frozen=True)
class _Side:
    """One level of a factor: a point, or the points of all frame sizes with this level."""

    level: str
    """Empty for the default."""
    points: tuple[PacketsPoint, ...]

    @cached_property
    def rate(self) -> SampleMean | None:
        """Mean over the points, in frames/s; None if one has no rate."""
        means = [point.sample_mean(names.RATE) for point in self.points]
        return SampleMean.average([mean for mean in means if mean]) if all(means) else None

    @property
    def is_found(self) -> bool:
        """Whether the searches bracketed the rate."""
        return self.searched == Verdict.BRACKETED.value

    @property
    def searched(self) -> str:
        """How the searches ended. Those of a mean have all bracketed their rates."""
        return self.points[0].searched


@dataclass(frozen=True)
class _Group:
    """The levels of a factor, at least two, the slowest first. Those without a bracketed rate are
    last.
    """

    factor: str
    where: dict[str, Any]
    """The levels of the other factors."""
    sides: list[_Side]
    sizes: tuple[Any, ...] = ()
    """Frame sizes of a mean; empty for single points."""


def of_run(points: Sequence[PacketsPoint]) -> list[Finding]:
    """One finding per factor and set of points that differ only in it, in the study's order. Those
    about means over frame sizes come first.
    """
    measured = [point for point in points if point.valid and point.mean(names.RATE)]
    over_sizes = [group for factor in (*FACTORS, DIRECTION) for group in _over_sizes(measured, factor)]
    single = [group for factor in FACTORS for group in _single(measured, factor)]
    return [_finding(group) for group in (*over_sizes, *single)]


def _others(factors: Mapping[str, Any], *left_out: str) -> dict[str, Any]:
    return {name: level for name, level in factors.items() if name not in left_out}


def _alike(points: Iterable[PacketsPoint], factor: str, *also: str) -> list[list[PacketsPoint]]:
    """Points that differ only in a factor, and in those that are named `also`."""
    groups: list[list[PacketsPoint]] = []
    for point in (p for p in points if factor not in (NIC, DIRECTION) or factor in p.factors):
        for group in groups:
            if _others(group[0].factors, factor, *also) == _others(point.factors, factor, *also):
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _single(points: Sequence[PacketsPoint], factor: str) -> Iterable[_Group]:
    for group in _alike(points, factor):
        sides = [_Side(_level(point, factor), (point,)) for point in group]
        yield from _compared(_Group(factor, _others(group[0].factors, factor), sides))


def _over_sizes(points: Sequence[PacketsPoint], factor: str) -> Iterable[_Group]:
    """Means over the frame sizes at which every level has a rate. A level with few sizes is left
    out.
    """
    bracketed = (p for p in points if p.valid and p.searched == Verdict.BRACKETED.value)
    found = (p for p in bracketed if names.frame_size(p.factors))
    for group in _alike(found, factor, names.FRAME):
        by_level: dict[str, dict[int | None, PacketsPoint]] = {}
        for point in group:
            by_level.setdefault(_level(point, factor), {})[names.frame_size(point.factors)] = point
        enough = {level: each for level, each in by_level.items() if len(each) >= names.SIZES_MIN}
        sizes = [size for size in next(iter(enough.values()), {}) if all(size in each for each in enough.values())]
        if len(sizes) >= names.SIZES_MIN:
            sides = [_Side(level, tuple(each[size] for size in sizes)) for level, each in enough.items()]
            yield from _compared(_Group(factor, _others(group[0].factors, factor, names.FRAME), sides, tuple(sizes)))


def _compared(group: _Group) -> Iterable[_Group]:
    """The group with its sides in order; nothing with fewer than two rates."""
    if sum(side.is_found for side in group.sides) > 1:
        group.sides.sort(key=lambda side: (not side.is_found, side.rate.value if side.rate else 0.0))
        yield group


def _level(point: PacketsPoint, factor: str) -> str:
    """The level of a point; empty for the default."""
    level = point.factors.get(factor)
    return "" if level is None else str(level)


def _finding(group: _Group) -> Finding:
    base = group.sides[0]
    ratios = {side.level: ratio(side.rate, base.rate) for side in group.sides[1:] if side.is_found}
    evidence = {
        "over": group.factor,
        "base": base.level,
        "frames": list(group.sizes),
        "points": {side.level: [point.id for point in side.points] for side in group.sides},
        names.RATE: {side.level: side.rate.value if side.rate else None for side in group.sides},
        "search": {side.level: side.searched for side in group.sides},
        "ratio": {level: estimate.to_json() for level, estimate in ratios.items()},
    }
    text = {}
    for language in LANGUAGES:
        parts = [
            _words(language, group.factor, side, ratios.get(side.level), is_base=side is base) for side in group.sides
        ]
        if group.sizes:
            parts.insert(0, say(language, "packets.compared.sizes", {"count": len(group.sizes)}))
        text[language] = sentences.in_series(
            language, group.where, sentences.sentences(language, *parts), bool(group.where)
        )
    return Finding("comparison", group.where, text, None, evidence)


def _named(language: str, factor: str, level: str) -> str:
    """The level in a sentence; a NIC needs no name of its factor."""
    if factor == NIC:
        return level
    named = say(language, f"factor.{factor}")
    if not level:
        return say(language, "packets.compared.default", {"factor": named})
    return say(language, "packets.compared.level", {"factor": named, "level": level})


def _words(language: str, factor: str, side: _Side, ratio: Estimate | None, *, is_base: bool) -> str:
    values = {"level": _named(language, factor, side.level), "rate": side.rate.value if side.rate else None}
    if ratio is None:
        return say(language, "packets.compared.base" if is_base else "packets.compared.at_least", values)
    message = "packets.compared.ratio" if ratio.low is not None else "packets.compared.ratio.single"
    return say(language, message, values | {"ratio": ratio.mean, "low": ratio.low, "high": ratio.high})
