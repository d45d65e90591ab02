"""Bars that stand beside published ones, and maps of two factors: figures of studies that have no curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.report.charts import HAIR, INK, OURS, THEIRS, Size, Spec, config, nice, wrap

ALARM = "#b3261e"
PALEST, DARKEST = (0xEE, 0xF3, 0xF8), (0x0B, 0x53, 0x94)
ROW_PX = 21
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


@dataclass(frozen=True)
class Bar:
    """One level: our value with its interval and what is written at its end; the published value, if there is one."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    text: str
    published: float | None = None
    published_text: str = ""


def beside(bars: Sequence[Bar], axis: str, size: Size) -> Spec:
    """Horizontal bars in the order given: ours filled, the published one under it as an outline."""
    room = size.width + size.labels
    left = min(round(room * 0.4), max(round(_pixels(line)) for b in bars for line in wrap(b.label, room // 2)) + 14)
    width = room - left
    rows, names, height = _places(bars, left)
    scale = {"domain": [0, nice(_top(rows, width))], "nice": False}
    x = {
        "field": "value",
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": axis, "tickCount": 4, "grid": True},
    }
    y: Spec = {"field": "y", "type": "quantitative", "axis": None}
    y["scale"] = {"domain": [height, 0], "nice": False, "zero": False}
    layers: list[Spec] = []
    outline = {"filled": False, "stroke": THEIRS, "strokeWidth": 1.4, "strokeDash": [4, 2], "size": 11}
    for ours, look in ((True, {"color": OURS, "size": 13}), (False, outline)):
        shown = [r for r in rows if r["ours"] is ours]
        if shown:
            mark = {"type": "bar", "orient": "horizontal"} | look
            layers.append({"data": {"values": shown}, "mark": mark, "encoding": {"x": x, "y": y}})
    whiskers = [r for r in rows if r["low"] is not None and r["high"] != r["low"]]
    if whiskers:
        ends = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}
        rule = {"type": "rule", "color": INK, "clip": True}
        layers.append({"data": {"values": whiskers}, "mark": rule, "encoding": ends})
    for row in rows:
        text = {"type": "text", "align": "left", "baseline": "middle", "dx": 6, "text": row["text"]}
        text |= {"color": INK if row["ours"] else THEIRS, "fontWeight": 700 if row["ours"] else 400}
        end = {"x": {**x, "field": "end"}, "y": y}
        layers.append({"data": {"values": [{"y": row["y"], "end": row["end"]}]}, "mark": text, "encoding": end})
    for name in names:
        label = {
            "type": "text",
            "align": "right",
            "baseline": "middle",
            "x": -8,
            "lineHeight": 13,
            "text": name["text"],
        }
        layers.append({"data": {"values": [{"y": name["y"]}]}, "mark": label, "encoding": {"y": y}})
    # An unseen box keeps the drawing as wide as all figures of its size, whatever its labels take.
    box = {"type": "rect", "x": -left, "x2": 0, "y": 0, "y2": 1, "opacity": 0}
    layers.append({"data": {"values": [{}]}, "mark": box})
    return {
        "$schema": SCHEMA,
        "width": width,
        "height": height + 6,
        "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
        "layer": layers,
        "config": config(),
    }


def _places(bars: Sequence[Bar], left: int) -> tuple[list[Spec], list[Spec], float]:
    """Where each bar and each label stands, in pixels from above, and how high all are."""
    rows: list[Spec] = []
    names: list[Spec] = []
    height = 0.0
    for bar in bars:
        lines = wrap(bar.label, left - 4)
        values = [(v, t, ours) for v, t, ours in _values(bar) if v is not None]
        block = max(ROW_PX * max(1, len(values)), 13 * len(lines) + 4)
        first = height + 8 + (block - ROW_PX * len(values)) / 2 + ROW_PX / 2
        names.append({"y": height + 8 + block / 2 - 6.5 * (len(lines) - 1), "text": lines})
        for i, (value, text, ours) in enumerate(values):
            low, high = (bar.low, bar.high) if ours else (None, None)
            place = {"y": first + i * ROW_PX, "value": value, "text": text, "ours": ours}
            rows.append(place | {"low": low, "high": high, "end": max(value, high or 0.0)})
        height += 8 + block
    return rows, names, height


def _values(bar: Bar) -> list[tuple[float | None, str, bool]]:
    return [(bar.value, bar.text, True), (bar.published, bar.published_text, False)]


def _top(rows: Sequence[Spec], width: int) -> float:
    """The end of the axis that leaves room for every text after its bar."""
    room = [(r["end"], max(40.0, width - _pixels(r["text"]) - 10)) for r in rows]
    return max((end * width / left for end, left in room), default=1.0) / 1.02


def _pixels(text: str) -> float:
    """Width of a text in 11-pixel letters, bold ones included."""
    return sum(11.2 if ord(c) > 0x2E80 else 6.3 for c in text)


@dataclass(frozen=True)
class Square:
    """A cell of a map: its column and row, its shade (0 to 100), what is written in it, whether it is framed."""

    column: int
    row: int
    percent: float | None
    text: str
    framed: bool


def heat(
    squares: Sequence[Square], columns: Sequence[str], rows: Sequence[str], axes: tuple[str, str], size: Size
) -> Spec:
    """Squares shaded by percent, the darker the more; a heavy line around the framed ones. Row 0 is lowest."""
    width = size.width + (0 if size.narrow else size.labels // 2)
    cell = 34
    height = cell * len(rows)
    x, y = _grid(columns, axes[0], "x"), _grid(rows, axes[1], "y")
    layers: list[Spec] = []
    for one in squares:
        data = {"values": [{"x": one.column, "x2": one.column + 1, "y": one.row, "y2": one.row + 1}]}
        mark = {"type": "rect", "color": _shade(one.percent), "stroke": "#ffffff", "strokeWidth": 1.5}
        layers.append(
            {"data": data, "mark": mark, "encoding": {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}}}
        )
    for one in squares:
        dark = (one.percent or 0.0) > 45
        text = {"type": "text", "text": one.text, "color": "#ffffff" if dark else INK, "fontWeight": 700}
        middle = {"values": [{"x": one.column + 0.5, "y": one.row + 0.5}]}
        layers.append({"data": middle, "mark": text, "encoding": {"x": x, "y": y}})
    edges = _edges({(s.column, s.row) for s in squares if s.framed})
    if edges:
        mark = {"type": "rule", "color": ALARM, "strokeWidth": 3.2, "strokeCap": "square"}
        ends = {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
        layers.append({"data": {"values": edges}, "mark": mark, "encoding": ends})
    return {
        "$schema": SCHEMA,
        "width": width,
        "height": height,
        "padding": {"left": 4, "right": 6, "top": 22, "bottom": 2},
        "layer": layers,
        "config": config(),
    }


def _grid(names: Sequence[str], title: str, channel: str) -> Spec:
    """An axis whose names stand in the middle of their cells."""
    cases = "".join(f"datum.value == {i + 0.5} ? {name!r} : " for i, name in enumerate(names))
    axis: Spec = {"title": title, "values": [i + 0.5 for i in range(len(names))], "labelExpr": cases + "''"}
    axis |= {"grid": False, "ticks": False, "domain": False, "labelPadding": 6}
    return {
        "field": channel,
        "type": "quantitative",
        "scale": {"domain": [0, len(names)], "nice": False, "zero": False},
        "axis": axis,
    }


def _shade(percent: float | None) -> str:
    if percent is None:
        return HAIR
    share = min(max(percent / 100, 0.0), 1.0)
    mixed = [round(a + (b - a) * share) for a, b in zip(PALEST, DARKEST, strict=True)]
    return "#" + "".join(f"{v:02x}" for v in mixed)


def _edges(framed: set[tuple[int, int]]) -> list[dict[str, int]]:
    """Where a framed cell meets one that is not, or the end of the map."""
    found = []
    for column, row in sorted(framed):
        for dx, dy, line in (
            (-1, 0, (column, row, column, row + 1)),
            (1, 0, (column + 1, row, column + 1, row + 1)),
            (0, -1, (column, row, column + 1, row)),
            (0, 1, (column, row + 1, column + 1, row + 1)),
        ):
            if (column + dx, row + dy) not in framed:
                found.append(dict(zip(("x", "y", "x2", "y2"), line, strict=True)))
    return found
