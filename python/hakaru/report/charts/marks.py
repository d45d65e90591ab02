"""Parts of all charts: charts of rows, layers, and an invisible box that fixes the width."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.report.charts.deferred import alt

_NUMBERS = itertools.count()

Height = float | Mapping[str, Any]


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart with inline data."""
    return alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))


def fixed() -> alt.Chart:
    """A chart of one empty row, for marks with a fixed position."""
    return chart_of([{}])


def spacer(left: float, right: float) -> alt.Chart:
    """An invisible box between two pixels, so that all charts of a size are equally wide."""
    box: alt.Chart = fixed().mark_rect(x=left, x2=right, y=0, y2=1, opacity=0)
    return box


def named(chart: alt.Chart, css: str) -> alt.Chart:
    """The layer with a class in the drawing: `sN` for the series N, `keep` for marks whose colours
    a dark page must not change, because their text is legible on them.
    """
    # Vega requires that the names of a chart's layers differ.
    layer: alt.Chart = chart.properties(name=f"{css}_{next(_NUMBERS)}")
    return layer


def layered(
    layers: Sequence[alt.Chart], width: float, height: Height, numbers: Sequence[str] = (), series: Sequence[str] = ()
) -> alt.LayerChart:
    """The layers as one chart, the first at the bottom. `numbers` are what the chart shows, for
    readers who do not see it; `series` are the names of the series `s0`, `s1`, ….
    """
    about = {"numbers": list(numbers), "series": list(series)}
    return alt.LayerChart(layer=list(layers), width=width, height=height, usermeta=about)
