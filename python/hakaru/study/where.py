"""Selection of points by the levels of their factors. Pure.

    where: {pattern: random-32k, vms: 7}      a point matches if it has each of these levels
    where: {loss: null}                       … if it lacks the factor

Factors that are not named do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.study.part import FactorName, Level, level_text

Where = dict[FactorName, Level | None]
"""Factor → level that selects points; the points may have further factors.

A level `null` selects points that lack the factor and therefore have the value of the study.
"""


def selects(where: Mapping[str, Any], factors: Mapping[str, Any]) -> bool:
    """Whether `where` selects a point with these factors."""
    return all(
        name not in factors if level is None else name in factors and same_level(factors[name], level)
        for name, level in where.items()
    )


def is_number(level: Any) -> bool:
    """Whether a level is a number, so that levels of its factor have an order."""
    return isinstance(level, int | float) and not isinstance(level, bool)


def same_level(a: Any, b: Any) -> bool:
    """Whether two levels are the same. Numbers compare by value, because tables write `1` or
    `1.0`.
    """
    if isinstance(a, bool) or isinstance(b, bool):
        return level_text(a) == level_text(b)
    try:
        return float(a) == float(b)
    except (TypeError, ValueError):
        return level_text(a) == level_text(b)
