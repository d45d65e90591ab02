"""Vertical bars in groups that share one axis of values, with a legend above."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.report.charts.deferred import alt
from hakaru.report.charts.line import nice
from hakaru.report.charts.marks import chart_of, layered, named
from hakaru.report.charts.text import wrap
from hakaru.report.charts.theme import AXIS_PX, INK, PLAIN, SHADES, Size
from hakaru.wording import number

SLANTED = -40
"""Angle of the names of groups that have no room side by side."""
LEGEND_OFFSET_PX = 24
"""Distance of the legend from the bars: the title of the axis is between them."""


@dataclass(frozen=True)
class Columns:
    """One group: its name, and the value of each part in order; None if it is unknown."""

    label: str
    values: Sequence[float | None]


def columns(groups: Sequence[Columns], parts: Sequence[str], axis: str, size: Size) -> alt.LayerChart:
    """Groups from left to right, each with a bar for each part in the given order. The height of
    the bars is three quarters of that of lines.
    """
    width, height = size.width + size.labels, size.height * 3 // 4
    # On a phone, names beside each other would overlap.
    labels = [[group.label] if size.narrow else wrap(group.label, width / len(groups) - 8) for group in groups]
    cells = [
        {
            "group": place,
            "part": part,
            "value": value,
            "says": f"{group.label}, {part}: {number(value)}",
        }
        for place, group in enumerate(groups)
        for part, value in zip(parts, group.values, strict=True)
        if value is not None
    ]
    top = nice(max((value for group in groups for value in group.values if value is not None), default=0.0))
    x_axis = alt.Axis(
        title=None,
        labelExpr=f"{json.dumps(labels)}[datum.value]",
        labelAngle=SLANTED if size.narrow else 0,
        labelAlign="right" if size.narrow else "center",
    )
    chart = chart_of(cells).encode(
        alt.X("group:O", axis=x_axis, scale=alt.Scale(paddingInner=0.16, paddingOuter=0.08)),
        alt.XOffset("part:N", sort=list(parts)),
        alt.Y(
            "value:Q",
            scale=alt.Scale(domain=[0, top], nice=False),
            axis=alt.Axis(title=axis, minExtent=AXIS_PX, tickCount=4, format=PLAIN if top < 10 else ",.0f"),
        ),
        alt.Color(
            "part:N",
            scale=alt.Scale(domain=list(parts), range=list(SHADES[: len(parts)])),
            legend=alt.Legend(columns=3 if size.narrow else len(parts), offset=LEGEND_OFFSET_PX),
        ),
        alt.Description("says:N"),
    )
    bars = chart.mark_bar(aria=True, stroke=INK, strokeWidth=0.4)
    return layered([named(bars, "keep")], width, height, [str(cell["says"]) for cell in cells])
