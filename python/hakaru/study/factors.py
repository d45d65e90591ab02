"""Factors and their levels: blocks of points, each every combination of its levels.

    factors:
      - {case: [unthrottled, throttled], tcp: ["2009", today]}
      - {buffer: [32 KiB, 64 KiB], streams: [1, 2, 4, 8]}

Each name is one of the study's `variables`, or a factor that its kind defines
(`hakaru.study.kind.StudyKind.factors`).
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from hakaru.study.part import Level, Part

Levels = Annotated[list[Level], Field(min_length=1, max_length=1000)]


class Factors(Part):
    """A block of points: every combination of these levels."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Levels]

    def levels(self) -> dict[str, list[Level]]:
        """Factor → its levels."""
        return dict(self.__pydantic_extra__)

    @property
    def size(self) -> int:
        """Number of points, computed without creating them."""
        size = 1
        for levels in self.levels().values():
            size *= len(levels)
        return size

    def points(self) -> list[dict[str, Any]]:
        """Every combination as factor → level, in the order of the study."""
        named = self.levels()
        return [dict(zip(named, combination, strict=True)) for combination in product(*named.values())]
