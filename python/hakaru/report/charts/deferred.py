"""Altair and its renderer, which belong to the extra `report`. They take most of a second to
import, so both are imported when the first chart is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hakaru.extras import Deferred
from hakaru.report.charts.theme import theme


def _prepare(altair: Any) -> None:
    altair.data_transformers.consolidate_datasets = False
    # Otherwise Altair validates every part of a chart when it is made, which takes longer than
    # drawing. A test validates all kinds of chart.
    altair.utils.schemapi.disable_debug_mode()
    altair.theme.register("hakaru", enable=True)(theme)
    # Altair copies all parts of a chart whenever the chart becomes a part of another, which takes a
    # quarter of the time of a report. No part is changed afterwards, so they can be shared.
    original = altair.utils.schemapi.SchemaBase.copy

    def copy(chart: Any, deep: bool | list[str] = True, ignore: list[str] | None = None) -> Any:
        return original(chart, False if deep is True else deep, ignore)

    for kind in (altair.Chart, altair.LayerChart, altair.VConcatChart):
        kind.copy = copy


if TYPE_CHECKING:
    import altair as alt
    import vl_convert

    Chart = alt.LayerChart | alt.VConcatChart
else:
    alt = Deferred("altair", "report", _prepare)
    vl_convert = Deferred("vl_convert", "report")
    Chart = Any
"""`Chart` is any chart that a chart function returns."""

__all__ = ["Chart", "alt", "vl_convert"]
