"""Stacked bars of shares that add up to 100 %, with a legend above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.report.charts.bar import names
from hakaru.report.charts.deferred import alt
from hakaru.report.charts.marks import chart_of, layered, named, spacer
from hakaru.report.charts.text import pixels, wrap
from hakaru.report.charts.theme import INK, LINE_PX, PAPER, SHADES, Size

ROW_PX = 22
BAR_PX = 16
SHOWN_FROM = 0.5
"""Least percentage in some bar with which a part is drawn and in the legend."""
WRITTEN_FROM = 9.0
"""Least percentage with which a part contains its number."""


@dataclass(frozen=True)
class Stack:
    """One bar: its name, and the percentage of each part in order; None if it is unknown."""

    label: str
    percents: Sequence[float | None]


def stacks(rows: Sequence[Stack], parts: Sequence[str], axis: str, size: Size) -> alt.LayerChart:
    """Stacked bars in the given order. Parts below 0.5 % in all bars are left out."""
    labels = [wrap(row.label, size.room * 0.42) for row in rows]
    left = max(pixels(line) for text in labels for line in text) + 14
    width = size.room - left
    present = [i for i in range(len(parts)) if any((row.percents[i] or 0.0) >= SHOWN_FROM for row in rows)]
    shown = [parts[i] for i in present]
    shades = {name: SHADES[place % len(SHADES)] for place, name in enumerate(shown)}
    step = max(ROW_PX, LINE_PX * max(map(len, labels)) + 6)
    columns = max(1, int(width // max((pixels(name) + 30 for name in shown), default=width)))
    cells = [cell for place, row in enumerate(rows) for cell in _cells(place, row, parts, present)]
    chart = chart_of(cells).encode(
        y=names(labels),
        x=alt.X(
            "begin:Q",
            scale=alt.Scale(domain=[0, 100], nice=False),
            axis=alt.Axis(title=axis, values=[0, 25, 50, 75, 100]),
        ),
    )
    filled = chart.mark_bar(aria=True, size=BAR_PX, stroke=PAPER, strokeWidth=0.8).encode(
        alt.X2("end:Q"),
        alt.Color(
            "part:N",
            scale=alt.Scale(domain=shown, range=list(shades.values())),
            legend=alt.Legend(columns=columns, offset=6),
        ),
        alt.Description("says:N"),
    )
    written = chart.transform_filter(f"datum.share >= {WRITTEN_FROM}").encode(alt.X("middle:Q"), alt.Text("text:N"))
    layers = [named(filled, "keep")]
    for dark in (True, False):
        of_shade = [name for place, name in enumerate(shown) if (place % 2 == 0) is dark]
        text = written.transform_filter(alt.FieldOneOfPredicate("part", of_shade))
        layers.append(named(text.mark_text(baseline="middle", color=PAPER if dark else INK), "keep"))
    return layered([*layers, spacer(-left, 0)], width, {"step": step}, [str(cell["says"]) for cell in cells])


def _cells(place: int, row: Stack, parts: Sequence[str], present: Sequence[int]) -> list[dict[str, object]]:
    """The parts of one bar, each with its start and end in percent."""
    cells: list[dict[str, object]] = []
    begin = 0.0
    for i in present:
        share = row.percents[i] or 0.0
        if share > 0:
            cell = {"place": place, "part": parts[i], "share": share, "begin": begin, "end": begin + share}
            says = {"text": f"{share:.0f}", "says": f"{row.label}, {parts[i]}: {share:.1f} %"}
            cells.append(cell | {"middle": begin + share / 2} | says)
        begin += share
    return cells
