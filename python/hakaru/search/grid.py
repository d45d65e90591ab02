"""Loads that a search may use, as integer steps.

Step 0 is the lowest load. All decisions of a search compare steps, so they do not depend on
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

WIDTH_SHARE_MIN = 0.99
WIDTH_SHARE_MAX = 0.999999
"""Shares of each relative width that a whole number of steps must reach and must not exceed. The
reference library has the same limits, which makes its steps comparable."""


class Grid(Protocol):
    """A finite sequence of rising loads."""

    @property
    def steps(self) -> int:
        """Step of the highest load; at least 1."""

    def load(self, step: int) -> float:
        """Return the load of a step from 0 to `steps`."""

    def step_at_or_below(self, load: float) -> int:
        """Return the highest step whose load is at most `load`, limited to the grid."""

    def width(self, relative_width: float) -> int:
        """Return a relative width, (upper - lower) / upper, in steps; at least 1."""


@dataclass(frozen=True)
class RateGrid:
    """Rates with a constant ratio between neighbours, from `min_load` to `max_load` (above it, both
    above 0).
    """

    min_load: float
    max_load: float
    steps: int

    def __post_init__(self) -> None:
        _check_loads(self.min_load, self.max_load)
        if self.steps < 1:
            raise ValueError(f"a grid needs at least one step: {self.steps}")

    @staticmethod
    def for_widths(min_load: float, max_load: float, widths: Iterable[float]) -> RateGrid:
        """Return the coarsest grid on which a whole number of steps is 99 % to just under 100 % of
        each relative width (above 0, below 1). Narrow widths of awkward ratios need many steps. A
        width that covers all loads makes no demand.
        """
        _check_loads(min_load, max_load)
        log_range = math.log(max_load / min_load)
        log_widths = {-math.log1p(-width) for width in widths}
        log_widths = {log_width for log_width in log_widths if log_width < log_range * WIDTH_SHARE_MAX}
        steps = 1
        while True:
            needed = [steps]
            for log_width in log_widths:
                width = log_width * steps / log_range
                if math.floor(width) < width * WIDTH_SHARE_MIN:
                    needed.append(_steps_for(math.floor(width) + 1, log_width / log_range, steps))
                elif math.floor(width) > width * WIDTH_SHARE_MAX:
                    needed.append(_steps_for(math.floor(width), log_width / log_range, steps))
            if len(needed) == 1:
                return RateGrid(min_load, max_load, steps)
            steps = max(needed)

    def load(self, step: int) -> float:
        if step >= self.steps:
            return self.max_load
        return self.min_load * math.pow(self.max_load / self.min_load, step / self.steps)

    def step_at_or_below(self, load: float) -> int:
        if load <= self.min_load:
            return 0
        share = math.log(load / self.min_load) / math.log(self.max_load / self.min_load)
        step = min(self.steps, round(share * self.steps))
        return step if self.load(step) <= load else step - 1

    def width(self, relative_width: float) -> int:
        log_step = math.log(self.max_load / self.min_load) / self.steps
        return min(self.steps, max(1, math.floor(-math.log1p(-relative_width) / log_step)))


def _check_loads(min_load: float, max_load: float) -> None:
    if not 0 < min_load < max_load:
        raise ValueError(f"a grid needs 0 < lowest < highest load: {min_load}, {max_load}")


def _steps_for(width: int, width_per_step: float, steps: int) -> int:
    """Return the number of steps, above `steps`, from which on `width` steps are not too wide."""
    return max(steps + 1, math.ceil(width / (WIDTH_SHARE_MAX * width_per_step)))


@dataclass(frozen=True)
class CountGrid:
    """Whole numbers from `min_count` (at least 1) to `max_count`, such as numbers of VMs. Every
    width is one step, so the search ends with the exact number.
    """

    min_count: int
    max_count: int

    def __post_init__(self) -> None:
        if not 1 <= self.min_count < self.max_count:
            raise ValueError(f"a grid needs 1 <= lowest < highest count: {self.min_count}, {self.max_count}")

    @property
    def steps(self) -> int:
        return self.max_count - self.min_count

    def load(self, step: int) -> float:
        return self.min_count + step

    def step_at_or_below(self, load: float) -> int:
        return min(self.steps, max(0, math.floor(load) - self.min_count))

    def width(self, relative_width: float) -> int:
        return 1
