"""Line chart with markers, 95 % intervals as whiskers, and the name of each line at its right
end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hakaru.report.charts.deferred import alt
from hakaru.report.charts.marks import chart_of, fixed, layered, named, spacer
from hakaru.report.charts.text import apart, wrap
from hakaru.report.charts.theme import AXIS_PX, LINE_PX, OURS, PAPER, PLAIN, Size
from hakaru.wording import number

MARKED_MAX = 20
"""Maximum number of points of a line with markers; more markers would hide the line."""
TOOLTIPS_MAX = 120
"""Maximum number of points of a line with tooltips."""
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
    marker_size: int = 42
    """Area of a marker in square pixels."""


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
    y_whole: bool = False
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
    layers = []
    for line, css in zip(shown, _classes(shown), strict=True):
        layers += [named(layer, css) for layer in _line(line, axes, (x, y), low, size)]
    layers += _labels(shown, axes, (low, high), size)
    numbers = [_in_words(line, axes) for line in shown if line.label or len(shown) == 1]
    return layered(layers, size.width, size.height, numbers, [line.label for line in shown if line.label])


def _classes(shown: Sequence[Line]) -> list[str]:
    """The class of each line. A line without a name belongs to the next one with a name."""
    count, classes = 0, []
    for line in shown:
        classes.append(f"s{count}")
        count += bool(line.label)
    return classes


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
    if axes.y_whole:
        options["tickMinStep"] = 1
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


def _line(line: Line, axes: Axes, scales: tuple[alt.X, alt.Y], bottom: float, size: Size) -> list[alt.Chart]:
    x, y = scales
    rows = [
        {
            "x": px,
            "y": py,
            "low": None if low is None else max(low, bottom),
            "high": high,
            "says": _tooltip(line, axes, (px, py, low, high)),
        }
        for px, py, low, high in line.points
    ]
    chart = chart_of(rows).encode(x=x, y=y)
    layers = [chart.mark_line(color=line.colour, strokeWidth=2, strokeDash=list(line.dash))]
    if any(row["low"] is not None for row in rows):
        spans = chart.transform_filter("isValid(datum.low)")
        layers.append(spans.mark_rule(color=line.colour, strokeWidth=1.2).encode(alt.Y("low:Q"), alt.Y2("high:Q")))
        cap = spans.mark_tick(color=line.colour, size=7, thickness=1.2, orient="horizontal")
        layers += [cap.encode(y=alt.Y(f"{end}:Q")) for end in ("low", "high")]
    if len(rows) <= MARKED_MAX and line.marker != "none":
        fill = PAPER if line.hollow else line.colour
        dots = chart.mark_point(
            aria=True,
            shape=line.marker,
            size=line.marker_size,
            opacity=1,
            color=line.colour,
            fill=fill,
            strokeWidth=1.6,
        )
        layers.append(dots.encode(alt.Description("says:N")))
    elif len(rows) <= TOOLTIPS_MAX and line.label and not size.narrow:
        layers.append(chart.mark_point(aria=True, shape="square", size=60, opacity=0).encode(alt.Description("says:N")))
    return layers


def _tooltip(line: Line, axes: Axes, point: LinePoint) -> str:
    """Text of a marker."""
    x, y, low, high = point
    interval = "" if low is None or high is None else f" ({number(low)}–{number(high)})"
    where, value = f"{axes.x} {_level(axes, x)}", f"{axes.y} {number(y)}{interval}"
    return f"{line.label}: {where}, {value}".removeprefix(": ")


def _level(axes: Axes, x: float) -> str:
    """A position on the horizontal axis, as the axis shows it: 1518, not 1,518."""
    return axes.x_labels.get(x) or (f"{x:.12g}" if x == int(x) else f"{float(f'{x:.4g}'):.12g}")


def _in_words(line: Line, axes: Axes) -> str:
    """The numbers of a line in words: those at the ticks of a long line, else its first, lowest,
    highest and last.
    """
    shown = list(line.points)
    if len(shown) > MARKED_MAX:
        shown = [point for point in line.points if point[0] in axes.x_labels]
    if len(line.points) > MARKED_MAX and len(shown) < 2:
        chosen = {line.points[0], min(line.points, key=_height), max(line.points, key=_height), line.points[-1]}
        shown = [point for point in line.points if point in chosen]
    values = ", ".join(f"{_level(axes, x)}: {number(y)}" for x, y, _, _ in shown)
    return f"{line.label} ({axes.x}: {axes.y}) {values}".strip()


def _height(point: LinePoint) -> float:
    return point[1]


def _labels(series: Sequence[Line], axes: Axes, domain: tuple[float, float], size: Size) -> list[alt.Chart]:
    """Names to the right of the drawing, moved apart so that they do not overlap. A dotted leader
    connects a name to a line that ends earlier.
    """
    right = max((line.points[-1][0] for line in series), default=0.0)
    ends = sorted(((_pixel(line.points[-1][1], axes, domain, size), line) for line in series if line.label), key=_place)
    texts = [wrap(line.label, size.labels - 10) for _, line in ends]
    heights = [LINE_PX * len(text) + LABEL_GAP_PX for text in texts]
    places = apart([place for place, _ in ends], heights, size.height)
    layers = [spacer(size.width, size.width + size.labels)]
    classes = dict(zip(map(id, series), _classes(series), strict=True))
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
        layers.append(named(name, classes[id(line)]))
        if line.points[-1][0] < right:
            end = chart_of([{"x": line.points[-1][0], "y": line.points[-1][1]}])
            leader = end.mark_rule(color=line.colour, strokeWidth=0.9, strokeDash=[1, 3])
            label_end = alt.X2Value(size.width + 5), alt.Y2Value(place)  # type: ignore[no-untyped-call]
            leader = leader.encode(alt.X("x:Q"), alt.Y("y:Q"), *label_end)
            layers.append(named(leader, classes[id(line)]))
    return layers


def _place(pair: tuple[float, Line]) -> float:
    return pair[0]


def _pixel(y: float, axes: Axes, domain: tuple[float, float], size: Size) -> float:
    low, high = domain
    share = math.log(max(y, low) / low) / math.log(high / low) if axes.y_log else (y - low) / (high - low)
    return size.height * (1 - min(1.0, share))


def panels(*charts: alt.LayerChart) -> alt.VConcatChart:
    """Charts one above the other, with the same width and independent axes."""
    numbers = [text for chart in charts for text in chart.usermeta["numbers"]]
    # Only the whole chart can have metadata. Series of panels have nothing in common, so their
    # layers lose the names, which Vega would use twice.
    parts = [chart.copy() for chart in charts]
    for part in parts:
        part.usermeta = alt.Undefined
        for layer in part.layer:
            layer.name = alt.Undefined
    column: alt.VConcatChart = alt.vconcat(*parts, spacing=44)
    # Groups of bars are as wide as the number of groups of their own panel allows.
    column = column.resolve_scale(x="independent", y="independent", xOffset="independent")
    column.usermeta = {"numbers": numbers, "series": []}
    return column
