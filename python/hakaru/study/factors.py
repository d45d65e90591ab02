"""Factors and their levels: blocks of points, each every combination of its levels.

    factors:
      - {case: [unthrottled, throttled], tcp: ["2009", today]}
      - {buffer: [32 KiB, 64 KiB], streams: [1, 2, 4, 8]}

`pattern`, `vms` and `queue_depth` are the factors of a load; every other name is one of the study's `variables`.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from hakaru.study.part import Id, Level, Part
from hakaru.study.vms import VMS_MAX

LOAD_FACTORS = ("pattern", "vms", "queue_depth")
Levels = Annotated[list[Level], Field(min_length=1, max_length=1000)]


class Factors(Part):
    """A block of points: every combination of these levels."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Levels]
    _later: ClassVar[frozenset[str]] = frozenset({"pattern", "vms"})

    pattern: list[Id] | None = Field(default=None, min_length=1, max_length=100, description="names under `patterns`")
    vms: list[Annotated[int, Field(ge=1, le=VMS_MAX)]] | None = Field(default=None, min_length=1, max_length=1000)
    queue_depth: list[Annotated[int, Field(ge=1, le=1024)]] | None = Field(
        default=None, min_length=1, max_length=100, description="instead of the pattern's own (closed load)"
    )

    def levels(self) -> dict[str, list[Level]]:
        """Factor → its levels, of those that the block has."""
        return {name: levels for name, levels in self if levels is not None}

    @property
    def size(self) -> int:
        """How many points, without making them."""
        size = 1
        for levels in self.levels().values():
            size *= len(levels)
        return size

    def points(self) -> list[dict[str, Any]]:
        """Factor → level of every combination, in the order written."""
        named = self.levels()
        return [dict(zip(named, combination, strict=True)) for combination in product(*named.values())]
