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
