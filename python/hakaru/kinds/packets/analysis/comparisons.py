"""Comparisons of points that differ in one setting: the guest's NIC, its queues and rings, the
position of its processors, the number of guests, the way of searching.

A point without the factor has the default and is compared with the others. Every rate is compared
with the lowest that a search bracketed. A search that ended before gives a lower bound: if that is
above the lowest rate, the level is at least that much faster, and otherwise nothing is known. A
level may change more than one field: with more queues, a guest of `forwarding` also has more
processors.

Levels are also compared by their means over the frame sizes at which each of them has a bracketed
rate, and so are the directions. Such a mean has a narrower interval than one rate, because every
search is independent of the others. A mean over lower bounds is one, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.estimate import Estimate, SampleMean, ratio
from hakaru.analysis.findings import Finding
from hakaru.kinds.packets import names
from hakaru.kinds.packets.analysis.points import LOWER_BOUNDS, VERDICT_ORDER, PacketsPoint
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
        """How the searches ended: the end that limits the result most."""
        return min((point.searched for point in self.points), key=VERDICT_ORDER.index)

    @property
    def is_lower_bound(self) -> bool:
        """Whether every search that bracketed no rate gave a lower bound of it."""
        searches = [rate for point in self.points for rate in point.per_repetition.get(names.RATE, [])]
        ended = all(point.searched in (*LOWER_BOUNDS, Verdict.BRACKETED.value) for point in self.points)
        return not self.is_found and ended and all(map(math.isfinite, searches))

    def exceeds(self, base: _Side) -> bool:
        """Whether the rate is a lower bound above that of `base`: above 1 with the entire interval
        of the ratio. A single repetition has no interval, so it exceeds nothing.
        """
        if not self.is_lower_bound or not self.rate or not base.rate:
            return False
        low = ratio(self.rate, base.rate).low
        return low is not None and low > 1


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
    """Means over frame sizes. The levels with bracketed rates are compared at the sizes that all of
    them have. Another level is added if it has rates at these sizes.
    """
    for group in _alike((p for p in points if names.frame_size(p.factors)), factor, names.FRAME):
        levels = _by_level(group, factor)
        found = _by_level([p for p in group if p.searched == Verdict.BRACKETED.value], factor)
        sides = _sides(found)
        if len(sides) < 2:
            # At most one level can be compared with others. It is the one with most sizes.
            level = max(found, key=lambda level: len(found[level]), default=None)
            if level is None:
                continue
            alike = {name: each for name, each in levels.items() if len(each.keys() & found[level]) >= names.SIZES_MIN}
            sides = _sides({level: found[level]} | {name: each for name, each in alike.items() if name != level})
        else:
            sizes = [names.frame_size(point.factors) for point in sides[0].points]
            others = {name: each for name, each in levels.items() if name not in found}
            sides += [
                _Side(name, tuple(each[size] for size in sizes))
                for name, each in others.items()
                if all(size in each for size in sizes)
            ]
        if sides:
            where = _others(group[0].factors, factor, names.FRAME)
            sizes = [names.frame_size(point.factors) for point in sides[0].points]
            yield from _compared(_Group(factor, where, sides, tuple(sizes)))


def _by_level(points: Sequence[PacketsPoint], factor: str) -> dict[str, dict[int | None, PacketsPoint]]:
    """Level → frame size → point, of the levels with enough sizes."""
    found: dict[str, dict[int | None, PacketsPoint]] = {}
    for point in points:
        found.setdefault(_level(point, factor), {})[names.frame_size(point.factors)] = point
    return {level: each for level, each in found.items() if len(each) >= names.SIZES_MIN}


def _sides(by_level: Mapping[str, Mapping[int | None, PacketsPoint]]) -> list[_Side]:
    """The levels at the sizes that all of them have; none with too few."""
    first = next(iter(by_level.values()), {})
    common = [size for size in first if all(size in each for each in by_level.values())]
    if len(common) < names.SIZES_MIN:
        return []
    return [_Side(level, tuple(each[size] for size in common)) for level, each in by_level.items()]


def _compared(group: _Group) -> Iterable[_Group]:
    """The group with its sides in order; nothing if no rate can be compared with another."""
    group.sides.sort(key=lambda side: (not side.is_found, side.rate.value if side.rate else 0.0))
    base, *others = group.sides
    if base.is_found and any(side.is_found or side.exceeds(base) for side in others):
        yield group


def _level(point: PacketsPoint, factor: str) -> str:
    """The level of a point; empty for the default."""
    level = point.factors.get(factor)
    return "" if level is None else str(level)


def _finding(group: _Group) -> Finding:
    base = group.sides[0]
    compared = [side for side in group.sides[1:] if side.is_found or side.exceeds(base)]
    ratios = {side.level: ratio(side.rate, base.rate) for side in compared}
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
        bound = "packets.compared.at_least" if side.is_lower_bound else "packets.compared.unknown"
        return say(language, "packets.compared.base" if is_base else bound, values)
    message = "packets.compared.ratio" if side.is_found else "packets.compared.at_least.ratio"
    if ratio.low is None:
        message = "packets.compared.ratio.single"
    return say(language, message, values | {"ratio": ratio.mean, "low": ratio.low, "high": ratio.high})
