"""Parts that all charts use: a chart over rows, layers, and an unseen box that fixes the width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

Height = float | Mapping[str, Any]


def over(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart over these rows."""
    return alt.Chart(alt.InlineData(values=[dict(row) for row in rows]))


def still() -> alt.Chart:
    """A chart over one empty row, for marks with a fixed place."""
    return over([{}])


def unseen(left: float, right: float) -> alt.Chart:
    """An invisible box between two pixels, so that all charts of a size are equally wide."""
    box: alt.Chart = still().mark_rect(x=left, x2=right, y=0, y2=1, opacity=0)
    return box


def layered(layers: Sequence[alt.Chart], width: float, height: Height) -> alt.LayerChart:
    """The layers as one chart, the first at the bottom."""
    return alt.LayerChart(layer=list(layers), width=width, height=height)
