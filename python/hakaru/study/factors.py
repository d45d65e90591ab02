"""Factors and their levels: blocks of points, each every combination of its levels.

    factors:
      - {case: [unthrottled, throttled], tcp: ["2009", today]}
      - {buffer: [32 KiB, 64 KiB], streams: [1, 2, 4, 8]}
      - {pattern: [random-32k], vms: {from: 1, to: 32}}         with a goal: levels to search

Each name is one of the study's `variables`, or a factor that its kind defines
(`hakaru.study.kind.StudyKind.factors`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise, product
from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from hakaru.search import RateGrid
from hakaru.study.part import Level, Part
from hakaru.units import parse_percent

LEVELS_MAX = 1000


class Range(Part):
    """Levels of a factor that a goal searches, from the first to the last."""

    first: int | float = Field(alias="from", gt=0)
    last: int | float = Field(alias="to", gt=0)
    step: int | float | str = Field(
        default=1,
        description="distance of neighbouring levels: a number, or a percentage of the higher one, such as `5 %`",
        examples=[1, "5 %"],
    )

    @model_validator(mode="after")
    def _has_levels(self) -> Range:
        if self.last <= self.first:
            raise ValueError(f"`to` should be above `from`, {self.first:g}; list the level if there is only one")
        if isinstance(self.step, str):
            if not 0 < parse_percent(self.step) < 100:
                raise ValueError(f"`step` should be more than 0 % and less than 100 %; got {self.step}")
        elif self.step <= 0:
            raise ValueError(f"`step` should be more than 0; got {self.step:g}")
        elif (self.last - self.first) / self.step > LEVELS_MAX:
            raise ValueError(f"more than {LEVELS_MAX} levels; use a larger `step`, such as `5 %`")
        elif abs(round(steps := (self.last - self.first) / self.step) - steps) > 1e-9:
            raise ValueError(f"`to` is not reached from {self.first:g} in steps of {self.step:g}")
        return self

    @cached_property
    def levels(self) -> list[int | float]:
        """All levels, the lowest first. Whole numbers if both ends are."""
        is_whole = isinstance(self.first, int) and isinstance(self.last, int)
        if isinstance(self.step, str):
            width = parse_percent(self.step) / 100
            grid = RateGrid.for_widths(self.first, self.last, [width])
            stride = grid.width(width)
            loads = [grid.load(step) for step in range(0, grid.steps, stride)] + [float(self.last)]
            rounded = [round(load) if is_whole else float(f"{load:.4g}") for load in loads[1:-1]]
            inner = [level for level in dict.fromkeys(rounded) if self.first < level < self.last]
            levels: list[int | float] = [self.first, *inner, self.last]
            return _filled(levels, width) if is_whole else levels
        count = round((self.last - self.first) / self.step)
        steps = [self.first + i * self.step for i in range(1, count)]
        between = [round(s) if is_whole and float(s).is_integer() else float(f"{s:.9g}") for s in steps]
        return [self.first, *between, self.last]


def _filled(levels: list[int | float], width: float) -> list[int | float]:
    """Whole levels with those in between that rounding skipped: where neighbours are farther apart
    than the step `width`, a share of the higher one, by a quarter of a level or more.
    """
    filled = levels[:1]
    for low, high in pairwise(levels):
        parts = 1
        while parts < high - low and (high - low) / parts >= width * high + 0.25:
            parts += 1
        filled += [round(low + (high - low) * part / parts) for part in range(1, parts + 1)]
    return filled


def _form(written: Any) -> str:
    return "range" if isinstance(written, dict | Range) else "levels"


Levels = Annotated[
    Annotated[list[Level], Field(min_length=1, max_length=LEVELS_MAX), Tag("levels")] | Annotated[Range, Tag("range")],
    Discriminator(_form),
]


class Factors(Part):
    """A block of points: every combination of these levels."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)
    __pydantic_extra__: dict[str, Levels]

    def levels(self) -> dict[str, list[Level]]:
        """Factor → its levels."""
        named = self.__pydantic_extra__.items()
        return {name: list(levels.levels) if isinstance(levels, Range) else levels for name, levels in named}

    @property
    def ranges(self) -> list[str]:
        """Factors whose levels are searched."""
        return [name for name, levels in self.__pydantic_extra__.items() if isinstance(levels, Range)]

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
