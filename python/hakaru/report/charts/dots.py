"""Dot chart on a logarithmic axis: measured values with intervals, and published values as hollow
marks.

For values that differ by more than a decade, of which bars would show only the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hakaru.report.charts.bar import GAP_PX, ROW_PX, TEXT_GAP_PX, Bar, in_words, names
from hakaru.report.charts.deferred import alt
from hakaru.report.charts.marks import chart_of, layered, spacer
from hakaru.report.charts.text import pixels, wrap
from hakaru.report.charts.theme import INK, LINE_PX, OURS, PLAIN, THEIRS, Size


def dots(rows: Sequence[Bar], axis: str, size: Size) -> alt.LayerChart:
    """One row per value, in the given order. The published value is on the line below. Values of 0
    or less are not drawn.
    """
    labels = [wrap(bar.label, size.room * 0.4) for bar in rows]
    left = max(pixels(line) for text in labels for line in text) + 14
    right = max(pixels(text) for bar in rows for text in (bar.text, bar.published_text)) + TEXT_GAP_PX + 10
    width = max(60.0, size.room - left - right)
    values = [row for place, bar in enumerate(rows) for row in _rows(place, bar)]
    several = any(not row["ours"] for row in values)
    step = max(ROW_PX * (2 if several else 1), LINE_PX * max(map(len, labels))) + GAP_PX
    ends = [row[name] for row in values for name in ("value", "low", "high") if row.get(name)]
    domain = [10 ** math.floor(math.log10(min(ends))), max(ends) * 1.05]
    x = alt.X(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(title=axis, values=_ticks(*domain), format=PLAIN, grid=True),
    )
    base = chart_of(values).encode(x=x, y=names(labels))
    if several:
        base = base.encode(yOffset=alt.YOffset("ours:N", sort=[True, False], scale=alt.Scale(paddingOuter=0.15)))
    measured, published = (base.transform_filter(f"datum.ours === {flag}") for flag in ("true", "false"))
    layers = [
        measured.transform_filter("isValid(datum.low) && datum.high !== datum.low")
        .mark_rule(color=INK, strokeWidth=1.6)
        .encode(alt.X("low:Q"), alt.X2("high:Q")),
        measured.mark_point(aria=True, filled=True, color=OURS, size=70, opacity=1).encode(alt.Description("says:N")),
        published.mark_point(filled=False, stroke=THEIRS, strokeWidth=1.6, size=60, shape="diamond"),
        _text(measured).mark_text(align="left", baseline="middle", dx=TEXT_GAP_PX + 4, color=INK, fontWeight=700),
        _text(published).mark_text(align="left", baseline="middle", dx=TEXT_GAP_PX + 4, color=THEIRS),
        spacer(-left, width + right),
    ]
    return layered(layers, width, {"step": step, "for": "position"}, in_words(rows))


def _text(chart: alt.Chart) -> alt.Chart:
    """The text to the right of each mark and its interval."""
    return chart.encode(alt.X("end:Q"), alt.Text("text:N"))


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times the powers of ten in the range."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return [tick for tick in ticks if low <= tick <= high]


def _rows(place: int, bar: Bar) -> list[dict[str, Any]]:
    """The rows of the measured and of the published value, each with the position of its text."""
    rows: list[dict[str, Any]] = []
    if bar.value is not None and bar.value > 0:
        # An interval that reaches 0 has no place on the axis. It is drawn to a tenth of the value.
        low = None if bar.low is None else max(bar.low, bar.value / 10)
        span = {"low": low, "high": bar.high, "end": max(bar.value, bar.high or 0.0)}
        measured = {"value": bar.value, "text": bar.text, "says": f"{bar.label}: {bar.text}"}
        rows.append({"place": place, "ours": True} | measured | span)
    if bar.published is not None and bar.published > 0:
        published = {"value": bar.published, "end": bar.published, "text": bar.published_text}
        rows.append({"place": place, "ours": False} | published)
    return rows
