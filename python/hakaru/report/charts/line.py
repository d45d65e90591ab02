"""Line chart with markers, 95 % intervals as whiskers, and the name of each line at its right
end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from hakaru.report.charts.marks import chart_of, fixed, layered, spacer
from hakaru.report.charts.text import apart, wrap
from hakaru.report.charts.theme import AXIS_PX, LINE_PX, OURS, PAPER, PLAIN, Size

MARKED_MAX = 20
"""Maximum number of points of a line with markers; more markers would hide the line."""
LABEL_GAP_PX = 4.0
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15)

LinePoint = tuple[float, float, float | None, float | None]
"""`(x, y, low, high)`; low and high are None without an interval."""


@dataclass(frozen=True)
class Line:
    """One line of a chart. If `label` is empty, the line has no name."""

    label: str
    points: Sequence[LinePoint]
    colour: str = OURS
    dash: Sequence[int] = (1, 0)
    marker: str = "circle"
    hollow: bool = False


@dataclass(frozen=True)
class Axes:
    """Titles and ranges of both axes."""

    x: str
    y: str
    x_ticks: Sequence[float] = ()
    y_max: float | None = None
    y_log: bool = False
    x_labels: dict[float, str] = field(default_factory=dict)
    x_whole: bool = False
    x_log: bool = False


def lines(series: Sequence[Line], axes: Axes, size: Size) -> alt.LayerChart:
    """Chart of all lines that have points."""
    shown = [line for line in series if line.points]
    low, high = _range(shown, axes)
    x = alt.X("x:Q", axis=_x_axis(axes), scale=_x_scale(axes))
    y = alt.Y(
        "y:Q",
        axis=_y_axis(axes, low, high),
        scale=alt.Scale(domain=[low, high], nice=False, type="log" if axes.y_log else "linear"),
    )
    layers = [layer for line in shown for layer in _line(line, x, y, low)]
    layers += _labels(shown, axes, (low, high), size)
    return layered(layers, size.width, size.height)


def _range(series: Sequence[Line], axes: Axes) -> tuple[float, float]:
    top = axes.y_max or nice(max((p[3] or p[1] for line in series for p in line.points), default=1.0))
    if not axes.y_log:
        return 0.0, top
    least = min((p[1] for line in series for p in line.points if p[1] > 0), default=1.0)
    return max(tick for tick in log_ticks(least / 10, least)), top


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks at 1, 2 and 5 times powers of ten, from `low` to `high`."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def nice(value: float) -> float:
    """The next round number at least 2 % above `value`: one of `STEPS` times a power of ten."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return next(float(step * power) for step in STEPS if step * power >= value * 1.02)


def _y_axis(axes: Axes, low: float, high: float) -> alt.Axis:
    form = PLAIN if high < 10 else f",{PLAIN}" if axes.y_log else ",.0f"
    options: dict[str, Any] = {"title": axes.y, "minExtent": AXIS_PX, "format": form}
    return alt.Axis(**options, **({"values": log_ticks(low, high)} if axes.y_log else {"tickCount": 5}))


def _x_scale(axes: Axes) -> alt.Scale:
    if axes.x_log:
        return alt.Scale(type="log", nice=False, padding=8)
    return alt.Scale(nice=False, zero=False, padding=8)


def _x_axis(axes: Axes) -> alt.Axis:
    options: dict[str, Any] = {"title": axes.x, "format": PLAIN}
    if axes.x_ticks:
        options["values"] = list(axes.x_ticks)
    if axes.x_whole:
        options |= {"tickMinStep": 1, "tickCount": 8}
    if axes.x_labels:
        cases = [f"datum.value == {value!r} ? {text!r} : " for value, text in axes.x_labels.items()]
        options["labelExpr"] = "".join(cases) + "''"
    return alt.Axis(**options)


def _line(line: Line, x: alt.X, y: alt.Y, bottom: float) -> list[alt.Chart]:
    rows = [
        {
            "x": px,
            "y": py,
            "low": None if low is None else max(low, bottom),
            "high": high,
            "says": _tooltip(line, px, py),
        }
        for px, py, low, high in line.points
    ]
    chart = chart_of(rows).encode(x=x, y=y)
    layers = [chart.mark_line(color=line.colour, strokeWidth=2, strokeDash=list(line.dash))]
    if any(row["low"] is not None for row in rows):
        spans = chart.transform_filter("isValid(datum.low)")
        layers.append(spans.mark_rule(color=line.colour, strokeWidth=1.2).encode(y="low:Q", y2="high:Q"))
        cap = spans.mark_tick(color=line.colour, size=7, thickness=1.2, orient="horizontal")
        layers += [cap.encode(y=alt.Y(f"{end}:Q")) for end in ("low", "high")]
    if len(rows) <= MARKED_MAX and line.marker != "none":
        fill = PAPER if line.hollow else line.colour
        dots = chart.mark_point(
            aria=True, shape=line.marker, size=42, opacity=1, color=line.colour, fill=fill, strokeWidth=1.6
        )
        layers.append(dots.encode(description="says:N"))
    return layers


def _tooltip(line: Line, x: float, y: float) -> str:
    """Text of a marker: its tooltip, and its name for screen readers."""
    return f"{line.label}: {x:g}, {y:,.4g}".removeprefix(": ")


def _labels(series: Sequence[Line], axes: Axes, domain: tuple[float, float], size: Size) -> list[alt.Chart]:
    """Names to the right of the drawing, moved apart so that they do not overlap. A thin leader
    connects a name to a line that ends earlier.
    """
    right = max((line.points[-1][0] for line in series), default=0.0)
    ends = sorted(((_pixel(line.points[-1][1], axes, domain, size), line) for line in series if line.label), key=_place)
    texts = [wrap(line.label, size.labels - 10) for _, line in ends]
    heights = [LINE_PX * len(text) + LABEL_GAP_PX for text in texts]
    places = apart([place for place, _ in ends], heights, size.height)
    layers = [spacer(size.width, size.width + size.labels)]
    for (_, line), text, place in zip(ends, texts, places, strict=True):
        top = place - LINE_PX / 2 * (len(text) - 1)
        name = fixed().mark_text(
            text=text,
            x=size.width + 8,
            y=top,
            align="left",
            baseline="middle",
            fontWeight=700,
            color=line.colour,
        )
        layers.append(name)
        if line.points[-1][0] < right:
            end = chart_of([{"x": line.points[-1][0], "y": line.points[-1][1]}])
            leader = end.mark_rule(color=line.colour, strokeWidth=0.7, opacity=0.6)
            layers.append(leader.encode(x="x:Q", y="y:Q", x2=alt.value(size.width + 5), y2=alt.value(place)))
    return layers


def _place(pair: tuple[float, Line]) -> float:
    return pair[0]


def _pixel(y: float, axes: Axes, domain: tuple[float, float], size: Size) -> float:
    low, high = domain
    share = math.log(max(y, low) / low) / math.log(high / low) if axes.y_log else (y - low) / (high - low)
    return size.height * (1 - min(1.0, share))


def panels(*charts: alt.LayerChart) -> alt.VConcatChart:
    """Charts one above the other, with the same width and independent axes."""
    column: alt.VConcatChart = alt.vconcat(*charts, spacing=44).resolve_scale(x="independent", y="independent")
    return column
