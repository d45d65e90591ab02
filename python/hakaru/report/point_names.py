"""Names of points for lists: points that differ in one factor share a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from hakaru.analysis import sentences
from hakaru.wording import say

Json = dict[str, Any]


def names(points: Iterable[Json], language: str) -> list[str]:
    """The names of points, by their levels. Consecutive points that differ in one factor share a
    name: `write-4m, parameters: 1 ms, 5 ms`.
    """
    runs: list[_Run] = []
    for levels in points:
        if not runs or not runs[-1].takes(levels):
            runs.append(_Run(levels))
    return [run.name(language) for run in runs]


@dataclass
class _Run:
    """Consecutive points that differ in one factor."""

    first: Json
    factor: str | None = None
    others: list[Any] = field(default_factory=list)

    def takes(self, levels: Json) -> bool:
        """Whether the point continues the run; it is added then."""
        different = [f for f in {**self.first, **levels} if self.first.get(f) != levels.get(f)]
        if len(different) != 1 or self.factor not in (None, different[0]):
            return False
        factor = different[0]
        if self.first.get(factor) is None or levels.get(factor) is None:
            return False
        self.factor = factor
        self.others.append(levels[factor])
        return True

    def name(self, language: str) -> str:
        if self.factor is None or not self.others:
            return sentences.series(self.first, language)
        shared = {f: level for f, level in self.first.items() if f != self.factor}
        levels = [sentences.level(language, self.factor, v) for v in (self.first[self.factor], *self.others)]
        text = say(language, "list.separator").join(levels)
        return sentences.in_series(language, shared, text, several=True)
