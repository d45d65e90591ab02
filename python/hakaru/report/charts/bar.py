"""Bar chart: measured values with intervals, and published values as outlines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hakaru.report.charts.deferred import alt
from hakaru.report.charts.marks import chart_of, layered, spacer
from hakaru.report.charts.text import pixels, wrap
from hakaru.report.charts.theme import INK, LINE_PX, OURS, THEIRS, Size

ROW_PX = 21
GAP_PX = 10
TEXT_GAP_PX = 6


@dataclass(frozen=True)
class Bar:
    """One level: the measured value with its interval and the text at the end of the bar, and the
    published value if there is one.
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    text: str
    published: float | None = None
    published_text: str = ""


def bars(rows: Sequence[Bar], axis: str, size: Size, most: float | None = None) -> alt.LayerChart:
    """Horizontal bars in the given order. The axis ends at `most`, by default at the largest value.

    The outline below a bar is the published value.
    """
    labels = [wrap(bar.label, size.room * 0.4) for bar in rows]
    left = max(pixels(line) for text in labels for line in text) + 14
    right = max(pixels(text) for bar in rows for text in (bar.text, bar.published_text)) + TEXT_GAP_PX + 4
    width = max(60.0, size.room - left - right)
    values = [row for place, bar in enumerate(rows) for row in _rows(place, bar)]
    several = any(not row["ours"] for row in values)
    step = max(ROW_PX * (2 if several else 1), LINE_PX * max(map(len, labels))) + GAP_PX
    scale = alt.Scale(domain=[0, most or max((row["end"] for row in values), default=1.0) or 1.0], nice=False)
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=axis, tickCount=4, grid=True))
    base = chart_of(values).encode(x=x, y=names(labels))
    if several:
        base = base.encode(yOffset=alt.YOffset("ours:N", sort=[True, False], scale=alt.Scale(paddingOuter=0.15)))
    measured, published = (base.transform_filter(f"datum.ours === {flag}") for flag in ("true", "false"))
    layers = [
        measured.mark_bar(aria=True, color=OURS, size=13).encode(alt.Description("says:N")),
        published.mark_bar(filled=False, stroke=THEIRS, strokeWidth=1.4, strokeDash=[4, 2], size=11),
        measured.transform_filter("isValid(datum.low) && datum.high !== datum.low")
        .mark_rule(color=INK)
        .encode(alt.X("low:Q"), alt.X2("high:Q")),
        _text(measured).mark_text(align="left", baseline="middle", dx=TEXT_GAP_PX, color=INK, fontWeight=700),
        _text(published).mark_text(align="left", baseline="middle", dx=TEXT_GAP_PX, color=THEIRS),
        spacer(-left, width + right),
    ]
    return layered(layers, width, {"step": step, "for": "position"}, in_words(rows))


def in_words(rows: Sequence[Bar]) -> list[str]:
    """The numbers of bars in words."""
    texts = [(bar.label, ", ".join(filter(None, [bar.text, bar.published_text]))) for bar in rows]
    return [f"{label}: {text}" for label, text in texts if text]


def _text(chart: alt.Chart) -> alt.Chart:
    """The text at the end of each bar."""
    return chart.encode(alt.X("end:Q"), alt.Text("text:N"))


def names(labels: Sequence[Sequence[str]]) -> alt.Y:
    """Band axis over the field `place`, labelled with the lines of each name."""
    written = f"{json.dumps([list(text) for text in labels])}[datum.value]"
    return alt.Y("place:O", axis=alt.Axis(title=None, labelExpr=written))


def _rows(place: int, bar: Bar) -> list[dict[str, Any]]:
    """The rows of the measured and of the published value, each with the position of its text."""
    rows: list[dict[str, Any]] = []
    if bar.value is not None:
        # The axis starts at 0. An interval that reaches below would be drawn across the labels.
        low = None if bar.low is None else max(bar.low, 0.0)
        span = {"low": low, "high": bar.high, "end": max(bar.value, bar.high or 0.0)}
        measured = {"value": bar.value, "text": bar.text, "says": f"{bar.label}: {bar.text}"}
        rows.append({"place": place, "ours": True} | measured | span)
    if bar.published is not None:
        published = {"value": bar.published, "end": bar.published, "text": bar.published_text}
        rows.append({"place": place, "ours": False} | published)
    return rows
