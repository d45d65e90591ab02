"""Parts of all charts: charts of rows, layers, and an invisible box that fixes the width."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hakaru.report.charts.deferred import alt

_NUMBERS = itertools.count()

Height = float | Mapping[str, Any]


class _Rows:
    """Rows that Altair takes as they are, because the object has `_schema` and `to_dict`. It would
    copy lists at every step in which a chart is made, and look for objects to convert in each row.
    """

    _schema: ClassVar[dict[str, str]] = {"type": "array"}

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = [dict(row) for row in rows]

    def to_dict(self, *_arguments: Any, **_options: Any) -> list[dict[str, Any]]:
        return self._rows


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart with inline data. Its encodings must be objects such as `alt.Y2("high:Q")`, because
    Altair takes 20 ms to find the class for a name with a string.
    """
    values: Any = _Rows(rows)
    return alt.Chart(alt.InlineData(values=values))


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
    layer: alt.Chart = chart.copy(deep=False)
    layer.name = f"{css}_{next(_NUMBERS)}"
    return layer


def layered(
    layers: Sequence[alt.Chart], width: float, height: Height, numbers: Sequence[str] = (), series: Sequence[str] = ()
) -> alt.LayerChart:
    """The layers as one chart, the first at the bottom. `numbers` are what the chart shows, for
    readers who do not see it; `series` are the names of the series `s0`, `s1`, ….
    """
    about = {"numbers": list(numbers), "series": list(series)}
    return alt.LayerChart(layer=list(layers), width=width, height=height, usermeta=about)
