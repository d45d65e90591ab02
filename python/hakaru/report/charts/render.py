"""Rendering of charts to SVG and PNG, with the bundled fonts and without a browser or network."""

from __future__ import annotations

import functools
from typing import Any
from xml.etree import ElementTree

import altair as alt
import vl_convert

from hakaru.report.fonts import FOLDER

Chart = alt.LayerChart | alt.VConcatChart
"""Any chart that a chart function returns."""
SVG = "{http://www.w3.org/2000/svg}"
NOISE = ("role", "aria-roledescription", "aria-hidden", "aria-label", "class", "pointer-events")
"""Attributes of marks that are removed, because the chart as a whole has a label."""


@functools.cache
def _fonts() -> None:
    vl_convert.register_font_directory(str(FOLDER))


def spec(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite specification with the theme. It is not validated, because validation takes
    longer than drawing.
    """
    return dict(chart.to_dict(validate=False))


def svg(chart: Chart, label: str = "") -> str:
    """The chart as an SVG element with `label` as its name for screen readers. Marks have tooltips.

    It has no ids, so a page can hold any number of charts.
    """
    _fonts()
    drawn = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec(chart)))  # trusted: output of our renderer
    for element in list(drawn.iter()):
        element.tag = element.tag.removeprefix(SVG)
        tooltip = element.get("aria-label")
        for name in NOISE:
            element.attrib.pop(name, None)
        if tooltip:
            ElementTree.SubElement(element, "title").text = tooltip
    drawn.attrib |= {"xmlns": SVG.strip("{}"), "role": "img", "aria-label": label}
    return ElementTree.tostring(drawn, encoding="unicode")


def png(chart: Chart, scale: float = 2.0) -> bytes:
    """The chart as a PNG image."""
    _fonts()
    return bytes(vl_convert.vegalite_to_png(spec(chart), scale=scale))
