"""Heat map of two factors: shaded cells with their values, and a frame around selected cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hakaru.report.charts.deferred import alt
from hakaru.report.charts.marks import chart_of, layered, named, spacer
from hakaru.report.charts.theme import ALARM, AXIS_PX, HAIR, INK, OURS, PALEST, PAPER, Size

CELL_PX = 34
DARK_FROM = 45
"""Percent from which a cell is dark enough for white text."""


@dataclass(frozen=True)
class Cell:
    """A cell: column and row from 0, shade in percent (None: unknown), text, and whether it is
    framed.
    """

    column: int
    row: int
    percent: float | None
    text: str
    framed: bool


def heat(
    cells: Sequence[Cell], columns: Sequence[str], rows: Sequence[str], axes: tuple[str, str], size: Size
) -> alt.LayerChart:
    """Heat map of cells; a higher percentage is darker. Row 0 is at the bottom."""
    values = [
        {"x": c.column, "x2": c.column + 1, "y": c.row, "y2": c.row + 1, "percent": c.percent, "text": c.text}
        | {"says": f"{axes[0]} {columns[c.column]}, {axes[1]} {rows[c.row]}: {c.text}"}
        for c in cells
    ]
    x = alt.X("x:Q", axis=_axis(columns, axes[0]), scale=_scale(columns))
    # By default, an axis of so many pixels has fewer ticks than rows, and thins `values` out.
    y = alt.Y("y:Q", axis=_axis(rows, axes[1], AXIS_PX, thins_out=False), scale=_scale(rows))
    chart = chart_of(values)
    shade = alt.Color("percent:Q", scale=alt.Scale(domain=[0, 100], range=[PALEST, OURS]), legend=None)
    places = chart.encode(x, alt.X2("x2:Q"), y, alt.Y2("y2:Q"))
    known, unknown = (places.transform_filter(f"{test}(datum.percent)") for test in ("isValid", "!isValid"))
    squares = [
        known.mark_rect(aria=True, stroke=PAPER, strokeWidth=1.5).encode(shade, alt.Description("says:N")),
        unknown.mark_rect(fill=HAIR, stroke=PAPER, strokeWidth=1.5),
    ]
    middle = chart.transform_calculate(mx="datum.x + 0.5", my="datum.y + 0.5")
    middle = middle.encode(alt.X("mx:Q"), alt.Y("my:Q"), alt.Text("text:N"))
    texts = [
        middle.transform_filter(f"(datum.percent > {DARK_FROM}) === {dark}").mark_text(fontWeight=700, color=colour)
        for dark, colour in (("true", PAPER), ("false", INK))
    ]
    kept = [named(layer, "keep") for layer in (*squares, *texts)]
    layers = [*kept, spacer(0, size.width + size.labels)]
    if edges := border({(c.column, c.row) for c in cells if c.framed}):
        frame = chart_of(edges).mark_rule(color=ALARM, strokeWidth=3.2, strokeCap="square")
        layers.append(frame.encode(alt.X("x:Q"), alt.Y("y:Q"), alt.X2("x2:Q"), alt.Y2("y2:Q")))
    width = size.width + (0 if size.narrow else size.labels // 2)
    return layered(layers, width, CELL_PX * len(rows), [str(value["says"]) for value in values])


def _axis(names: Sequence[str], title: str, extent: float = 0, *, thins_out: bool = True) -> alt.Axis:
    """An axis in units of cells, with each name at the middle of its cells. `thins_out`: names are
    left out where there is no room for all.
    """
    cases = "".join(f"datum.value == {i + 0.5} ? {json.dumps(name)} : " for i, name in enumerate(names))
    return alt.Axis(
        title=title,
        values=[i + 0.5 for i in range(len(names))],
        labelExpr=cases + "''",
        grid=False,
        ticks=False,
        domain=False,
        labelPadding=6,
        minExtent=extent,
        tickCount=alt.Undefined if thins_out else len(names),
    )


def _scale(names: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=[0, len(names)], nice=False, zero=False)


def border(framed: set[tuple[int, int]]) -> list[dict[str, int]]:
    """Edges of the framed region, including those at the border of the map."""
    edges = []
    for column, row in sorted(framed):
        for dx, dy, line in (
            (-1, 0, (column, row, column, row + 1)),
            (1, 0, (column + 1, row, column + 1, row + 1)),
            (0, -1, (column, row, column + 1, row)),
            (0, 1, (column, row + 1, column + 1, row + 1)),
        ):
            if (column + dx, row + dy) not in framed:
                edges.append(dict(zip(("x", "y", "x2", "y2"), line, strict=True)))
    return edges
