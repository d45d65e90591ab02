"""Horizontal bars that add up to 100 %: where the time went. Parts are told apart by shade, and named above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.report.charts import INK, Size, Spec, config, wrap

# Dark and light in turn, so that neighbours keep apart in greyscale.
SHADES = ("#0b5394", "#e3c78f", "#6a3d9a", "#a9cdea", "#1b7a4b", "#dfe3e7", "#8a5a00", "#f0d0d0")
ROW_PX = 22
TOLD_FROM = 9.0
"""Percent from which a part has its number in it."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


@dataclass(frozen=True)
class Stack:
    """One bar: its name and the percent of each part, in the order of the parts' names; None where it is unknown."""

    label: str
    percents: Sequence[float | None]


def shares(stacks: Sequence[Stack], parts: Sequence[str], axis: str, size: Size) -> Spec:
    """Bars in the order given; parts that no bar has are left out of the key."""
    room = size.width + size.labels
    left = min(round(room * 0.42), 14 + max(round(_pixels(line)) for s in stacks for line in wrap(s.label, room // 2)))
    width = room - left
    present = [i for i in range(len(parts)) if any((s.percents[i] or 0.0) >= 0.5 for s in stacks)]
    key, top = _key([(parts[i], SHADES[place % len(SHADES)]) for place, i in enumerate(present)], width)
    rows, names, height = _rows(stacks, present, left, top)
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [0, 100], "nice": False},
        "axis": {"title": axis, "values": [0, 25, 50, 75, 100]},
    }
    y: Spec = {"field": "y", "type": "quantitative", "axis": None}
    y["scale"] = {"domain": [height, 0], "nice": False, "zero": False}
    layers: list[Spec] = []
    for place in range(len(present)):
        shown = [r for r in rows if r["part"] == place]
        mark = {"type": "rect", "color": SHADES[place % len(SHADES)], "stroke": "#ffffff", "strokeWidth": 0.8}
        ends = {"x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"}}
        layers.append({"data": {"values": shown}, "mark": mark, "encoding": ends})
    for row in rows:
        if row["x2"] - row["x"] >= TOLD_FROM:
            dark = row["part"] % len(SHADES) % 2 == 0
            text = {"type": "text", "text": f"{row['x2'] - row['x']:.0f}", "color": "#ffffff" if dark else INK}
            middle = {"values": [{"x": (row["x"] + row["x2"]) / 2, "y": (row["y"] + row["y2"]) / 2}]}
            layers.append({"data": middle, "mark": text | {"baseline": "middle"}, "encoding": {"x": x, "y": y}})
    for name in names:
        mark = {"type": "text", "align": "right", "baseline": "middle", "x": -8, "lineHeight": 13}
        layers.append(
            {"data": {"values": [{"y": name["y"]}]}, "mark": mark | {"text": name["text"]}, "encoding": {"y": y}}
        )
    layers += key
    # An unseen box keeps the drawing as wide as all figures of its size.
    box = {"type": "rect", "x": -left, "x2": 0, "y": 0, "y2": 1, "opacity": 0}
    layers.append({"data": {"values": [{}]}, "mark": box})
    return {
        "$schema": SCHEMA,
        "width": width,
        "height": height,
        "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
        "layer": layers,
        "config": config(),
    }


def _key(parts: Sequence[tuple[str, str]], width: int) -> tuple[list[Spec], int]:
    """Squares with names, in as many lines as they need, and how high that is."""
    layers: list[Spec] = []
    x, line = 0.0, 0
    for name, shade in parts:
        wide = 26 + _pixels(name)
        if x and x + wide > width:
            x, line = 0.0, line + 1
        y = 8 + 16 * line
        square = {"type": "rect", "x": x, "x2": x + 10, "y": y - 5, "y2": y + 5, "color": shade}
        text = {"type": "text", "x": x + 14, "y": y, "align": "left", "baseline": "middle", "text": name}
        layers += [{"data": {"values": [{}]}, "mark": mark} for mark in (square, text)]
        x += wide
    return layers, 16 * (line + 1) + 8


def _rows(stacks: Sequence[Stack], present: Sequence[int], left: int, top: int) -> tuple[list[Spec], list[Spec], float]:
    """Every part of every bar in pixels from above, the bars' names, and how high all are."""
    rows: list[Spec] = []
    names: list[Spec] = []
    height = float(top)
    for stack in stacks:
        lines = wrap(stack.label, left - 4)
        block = max(ROW_PX, 13 * len(lines) + 6)
        begin = 0.0
        for place, i in enumerate(present):
            end = begin + (stack.percents[i] or 0.0)
            if end > begin:
                middle = height + block / 2
                rows.append({"part": place, "x": begin, "x2": end, "y": middle - 8, "y2": middle + 8})
            begin = end
        names.append({"y": height + block / 2 - 6.5 * (len(lines) - 1), "text": lines})
        height += block
    return rows, names, height + 4


def _pixels(text: str) -> float:
    return sum(11.2 if ord(c) > 0x2E80 else 6.3 for c in text)
