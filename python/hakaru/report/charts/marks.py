"""Parts of all charts: charts of rows, layers, and an invisible box that fixes the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

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


def layered(layers: Sequence[alt.Chart], width: float, height: Height) -> alt.LayerChart:
    """The layers as one chart, the first at the bottom."""
    return alt.LayerChart(layer=list(layers), width=width, height=height)
