"""One figure of a report: its caption, and its chart at a given size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.report import charts
from hakaru.report.charts import Bar, Chart, Size
from hakaru.wording import has, number, say

READABLE_RATIO = 10
"""Longest to shortest bar of a chart from which the intervals of the short ones cannot be read."""


@dataclass(frozen=True)
class Figure:
    """`name` selects the figure in `hakaru.report.figure`; `draw` returns the chart at a size."""

    name: str
    title: str
    note: str
    draw: Callable[[Size], Chart]


def origin_of(points: Sequence[Mapping[str, Any]], language: str) -> str:
    """Origin of the numbers of these points, and how the processors of their guests ran if any has
    guests. Captions of figures and tables begin with it.
    """
    accelerators = {each for point in points for each in point.get("accelerators", ())}
    words = [f"origin.{origin}" for origin in dict.fromkeys(point["origin"] for point in points)]
    words += [f"origin.guests.{each}" for each in sorted(accelerators)]
    return say(language, "list.separator").join(say(language, each) for each in words)


def note(points: Sequence[Mapping[str, Any]], language: str, metric: str, key: str = "mean") -> str:
    """Origin, statistic and n of a figure about these points. `metric`: the one that is counted.

    The message is `figure.note.KEY`, or `figure.note.KEY.single` (if it exists) after one
    repetition.
    """
    counts = sorted({p["metrics"][metric]["n"] for p in points})
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    single = f"figure.note.{key}.single"
    words = single if counts == [1] and has(single) else f"figure.note.{key}"
    return say(language, words, {"origin": origin_of(points, language), "n": n})


def value_bars(bars: Sequence[Bar], unit: str, language: str, size: Size) -> Chart:
    """Values as bars, or on a logarithmic axis if the shortest bar would be unreadable."""
    values = [value for bar in bars for value in (bar.value, bar.published) if value]
    if values and max(values) > READABLE_RATIO * min(values):
        return charts.dots(bars, say(language, "axis.logarithmic", {"unit": unit}), size)
    return charts.bars(bars, unit, size)


def with_interval(estimate: Mapping[str, Any], language: str) -> str:
    """A value and its interval, such as `9.5 (7.2–11.8)`."""
    mean, low, high = (number(estimate[name], language) for name in ("mean", "low", "high"))
    return mean if estimate["low"] is None or low == high else f"{mean} ({low}–{high})"
