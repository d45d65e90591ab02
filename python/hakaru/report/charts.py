"""Figures as Vega-Lite specifications, drawn to static SVG without a browser.

A specification is data: it holds the numbers it draws. Series are told apart by label, dash and marker as well as by
colour, so that a figure reads in greyscale. Labels stand at the ends of lines (no legends); where they would overlap
they are moved apart before drawing.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import vl_convert

from hakaru.report.fonts import FAMILY, FOLDER

INK, QUIET, HAIR = "#1d2733", "#5c6773", "#d9dee3"
OURS, THEIRS = "#0b5394", "#8a5a00"
# Okabe and Ito's colours that keep apart in greyscale, darkest first.
PALETTE = ("#0b5394", "#b3261e", "#1b7a4b", "#8a5a00", "#6a3d9a", "#5c6773", "#0e7c86", "#a0457a")
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [4, 4], [1, 3], [12, 3], [5, 2, 1, 2])
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "circle", "square")

MARKED_MAX = 20  # beyond that markers would hide the line
LABEL_GAP = 4.0
NEVER_FIRST = set("、。,.)]}」)ー")
"""What a line of Japanese does not begin with: it hangs over instead."""

Spec = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One line: `points` are `(x, y, low, high)`, low and high None where there is no interval.

    An empty label is not drawn.
    """

    label: str
    points: Sequence[tuple[float, float, float | None, float | None]]
    colour: str = OURS
    dash: Sequence[int] = (1, 0)
    marker: str = "circle"
    hollow: bool = False


@dataclass(frozen=True)
class Size:
    """Drawing area in pixels; `labels` is the room to its right for line labels."""

    width: int
    height: int
    labels: int

    @property
    def narrow(self) -> bool:
        """For a phone's screen."""
        return self.width < 400


WIDE = Size(560, 240, 150)
NARROW = Size(224, 220, 92)


@dataclass(frozen=True)
class Axes:
    """Titles and ranges."""

    x: str
    y: str
    x_ticks: Sequence[float] = ()
    y_max: float | None = None
    y_log: bool = False
    x_labels: dict[float, str] = field(default_factory=dict)
    x_whole: bool = False


@functools.cache
def _fonts() -> None:
    vl_convert.register_font_directory(str(FOLDER))


def svg(spec: Spec, prefix: str, label: str = "") -> str:
    """The figure as an SVG element, named `label` for those who cannot see it.

    `prefix` keeps its ids apart from those of other figures on the page.
    """
    _fonts()
    drawn = str(vl_convert.vegalite_to_svg(spec))
    # Vega names every mark; one name for the whole says more, and a third of the size goes.
    drawn = re.sub(r' (?:aria-[a-z]+|role|pointer-events|class|aria-roledescription)="[^"]*"', "", drawn)
    drawn = drawn.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', drawn)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", drawn)


def png(spec: Spec, scale: float = 2.0) -> bytes:
    """The figure as a PNG image."""
    _fonts()
    return bytes(vl_convert.vegalite_to_png(spec, scale=scale))


def config() -> Spec:
    """Look of every figure."""
    axis = {
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": HAIR,
        "labelColor": INK,
        "titleColor": QUIET,
        "titleFontWeight": 400,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titlePadding": 8,
        "tickSize": 4,
    }
    return {
        "font": FAMILY,
        "background": "transparent",
        "view": {"stroke": None},
        "axis": axis,
        "axisY": {"domain": False, "ticks": False, "titleAngle": 0, "titleAlign": "left", "titleX": 0, "titleY": -14},
        "axisX": {"grid": False},
        "text": {"font": FAMILY, "fontSize": 11, "color": INK},
    }


def lines(series: Sequence[Line], axes: Axes, size: Size) -> Spec:
    """Lines with markers, 95 % intervals as whiskers, labels at their right ends."""
    shown = [s for s in series if s.points]
    top = axes.y_max or nice(max((p[3] or p[1] for s in shown for p in s.points), default=1.0))
    lowest = min((p[1] for s in shown for p in s.points if p[1] > 0), default=1.0)
    bottom = max(s for s in _steps(lowest / 10, lowest)) if axes.y_log else 0.0
    scale: Spec = {"domain": [bottom, top], "nice": False, "type": "log" if axes.y_log else "linear"}
    layers = [layer for s in shown for layer in _line(s, axes, scale)]
    layers += _labels(shown, scale, size)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": size.width,
        "height": size.height,
        "padding": {"left": 2, "right": 2, "top": 20, "bottom": 2},
        "autosize": {"type": "pad", "contains": "content"},
        "layer": layers,
        "config": config(),
    }


def _x(axes: Axes) -> Spec:
    axis: Spec = {"title": axes.x, "format": "~g"}
    if axes.x_ticks:
        axis["values"] = list(axes.x_ticks)
    if axes.x_whole:
        axis |= {"tickMinStep": 1, "tickCount": 8}
    if axes.x_labels:
        cases = [f"datum.value == {v!r} ? '{t}' : " for v, t in axes.x_labels.items()]
        axis["labelExpr"] = "".join(cases) + "''"
    return {"field": "x", "type": "quantitative", "axis": axis, "scale": {"nice": False, "zero": False, "padding": 8}}


def _y(axes: Axes, scale: Spec) -> Spec:
    low, high = scale["domain"]
    axis = {
        "title": axes.y,
        "tickCount": 5,
        "minExtent": 36,
        "format": "~g" if high < 10 else ",~g" if axes.y_log else ",.0f",
    }
    if axes.y_log:
        axis["values"] = _steps(low, high)
    return {"field": "y", "type": "quantitative", "axis": axis, "scale": scale}


def _line(series: Line, axes: Axes, scale: Spec) -> list[Spec]:
    rows = [{"x": x, "y": y, "low": low, "high": high} for x, y, low, high in series.points]
    x, y = _x(axes), _y(axes, scale)
    line = {"type": "line", "color": series.colour, "strokeWidth": 2, "strokeDash": list(series.dash)}
    dot = {
        "type": "point",
        "shape": series.marker,
        "size": 42,
        "opacity": 1,
        "color": series.colour,
        "strokeWidth": 1.6,
    }
    dot["fill"] = "#ffffff" if series.hollow else series.colour
    layers: list[Spec] = [{"data": {"values": rows}, "mark": line, "encoding": {"x": x, "y": y}}]
    whiskers = [{**r, "low": max(r["low"], scale["domain"][0])} for r in rows if r["low"] is not None]
    if whiskers:
        mark = {"type": "rule", "color": series.colour, "strokeWidth": 1.2, "clip": True}
        ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
        layers.append({"data": {"values": whiskers}, "mark": mark, "encoding": ends})
        for end in ("low", "high"):
            tick = {
                "type": "tick",
                "color": series.colour,
                "size": 7,
                "thickness": 1.2,
                "orient": "horizontal",
                "clip": True,
            }
            layers.append({"data": {"values": whiskers}, "mark": tick, "encoding": {"x": x, "y": {**y, "field": end}}})
    if len(rows) <= MARKED_MAX:
        layers.append({"data": {"values": rows}, "mark": dot, "encoding": {"x": x, "y": y}})
    return layers


def _labels(series: Sequence[Line], scale: Spec, size: Size) -> list[Spec]:
    """Each line's name beside the drawing, moved apart; a thin leader goes to lines that end earlier."""
    low, high = scale["domain"]

    def pixel(y: float) -> float:
        share = (
            math.log(max(y, low) / low) / math.log(high / low) if scale["type"] == "log" else (y - low) / (high - low)
        )
        return size.height * (1 - min(1.0, share))

    right = max(s.points[-1][0] for s in series) if series else 0.0
    series = [s for s in series if s.label]
    wrapped = {s.label: wrap(s.label, size.labels) for s in series}
    wanted = sorted(((pixel(s.points[-1][1]), s) for s in series), key=lambda pair: pair[0])
    places = apart([p for p, _ in wanted], [13.0 * len(wrapped[s.label]) + LABEL_GAP for _, s in wanted], size.height)
    # The drawing is as wide as its contents: an unseen box keeps all figures of a size alike.
    box = {"type": "rect", "x": size.width, "x2": size.width + size.labels, "y": 0, "y2": 1, "opacity": 0}
    layers: list[Spec] = [{"data": {"values": [{}]}, "mark": box}]
    for (_, one), place in zip(wanted, places, strict=True):
        text = {
            "type": "text",
            "align": "left",
            "baseline": "middle",
            "fontWeight": 700,
            "color": one.colour,
            "lineHeight": 13,
        }
        text |= {"x": size.width + 8, "y": place - 6.5 * (len(wrapped[one.label]) - 1), "text": wrapped[one.label]}
        layers.append({"data": {"values": [{}]}, "mark": text})
        if one.points[-1][0] < right:
            layers.append(_leader(one, size.width + 5, place))
    return layers


def _leader(series: Line, x: float, y: float) -> Spec:
    """From the line's last point to where its label begins, in pixels."""
    end = {"values": [{"x": series.points[-1][0], "y": series.points[-1][1]}]}
    encoding: Spec = {c: {"field": c, "type": "quantitative"} for c in ("x", "y")}
    encoding |= {"x2": {"value": x}, "y2": {"value": y}}
    mark = {"type": "rule", "color": series.colour, "strokeWidth": 0.7, "opacity": 0.6}
    return {"data": end, "mark": mark, "encoding": encoding}


def wrap(text: str, pixels: int) -> list[str]:
    """Lines that fit into `pixels` in 11-pixel letters; breaks at spaces, and anywhere in Japanese."""
    room, out, current, used = pixels - 10, [], "", 0.0
    for piece in re.findall(r"[ -~\u00a0-\u024f]+? |[ -~\u00a0-\u024f]+|.", text):
        width = sum(11.2 if ord(c) > 0x2E80 else 6.4 for c in piece.rstrip())
        if current and used + width > room and piece not in NEVER_FIRST:
            out.append(current.rstrip())
            current, used = "", 0.0
        current, used = current + piece, used + width + (3.0 if piece.endswith(" ") else 0.0)
    return [*out, current.rstrip()]


def apart(places: Sequence[float], heights: Sequence[float], limit: float) -> list[float]:
    """Places in rising order, moved so that neighbours keep clear of each other and of the drawing's lower edge."""
    moved = list(places)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + (heights[i - 1] + heights[i]) / 2)
    over = (moved[-1] - limit) if moved else 0.0
    if over > 0:
        moved[-1] -= over
        for i in range(len(moved) - 2, -1, -1):
            moved[i] = min(moved[i], moved[i + 1] - (heights[i] + heights[i + 1]) / 2)
    return moved


def nice(value: float) -> float:
    """The next 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten, at least 2 % above `value`."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10 ** math.floor(math.log10(value))
    return next(float(step * power) for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15) if step * power >= value * 1.02)


def _steps(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten from `low` to `high`; low itself where there is none."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    return [s for s in found if low * 0.999 <= s <= high * 1.001] or [low]


def bars(
    rows: Sequence[tuple[str, float]], axis: str, size: Size, intervals: Sequence[tuple[float, float] | None] = ()
) -> Spec:
    """Horizontal bars with their values in percent, largest first; over each its interval, if `intervals` has one."""
    labels = size.labels + 60
    spans = [*intervals, *([None] * (len(rows) - len(intervals)))]
    values = []
    for (name, value), span in sorted(zip(rows, spans, strict=True), key=lambda r: -r[0][1]):
        one = {"name": "\n".join(wrap(name, labels)), "y": value, "text": f"{value:.0f} %", "end": value}
        if span is not None:
            one |= {"low": span[0], "high": span[1], "end": max(value, span[1])}
        values.append(one)
    y = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "axis": {"title": None, "labelLimit": labels, "domain": False, "titleAngle": 0},
    }
    scale = {"domain": [0, 100], "clamp": True}
    x = {
        "field": "y",
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": axis, "values": [0, 25, 50, 75, 100]},
    }
    ends = {"low": {"field": "low", "type": "quantitative", "scale": scale}, "high": {"field": "high"}}
    there = [{"filter": "isValid(datum.low)"}]
    span_mark = {"mark": {"type": "rule", "color": THEIRS, "strokeWidth": 2}, "transform": there}
    text = {"type": "text", "align": "left", "dx": 4}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": size.width,
        "height": {"step": 26},
        "padding": {"left": 4, "right": 40, "top": 8, "bottom": 4},
        "data": {"values": values},
        "layer": [
            {"mark": {"type": "bar", "color": OURS, "height": 12}, "encoding": {"x": x, "y": y}},
            {**span_mark, "encoding": {"x": ends["low"], "x2": ends["high"], "y": y}},
            {"mark": text, "encoding": {"x": {**x, "field": "end"}, "y": y, "text": {"field": "text"}}},
        ],
        "config": config(),
    }


def panels(*parts: Spec) -> Spec:
    """Figures over one another, with the same width."""
    kept = [{k: v for k, v in s.items() if k in ("width", "height", "layer")} for s in parts]
    return {
        "$schema": parts[0]["$schema"],
        "padding": parts[0]["padding"],
        "vconcat": kept,
        "spacing": 44,
        "resolve": {"scale": {"x": "independent", "y": "independent"}},
        "config": config(),
    }
