"""Rendering of charts to SVG and PNG, with the bundled fonts and without a browser or network."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hakaru.errors import UsageError
from hakaru.report.charts.deferred import Chart, vl_convert
from hakaru.report.fonts import FAMILY, FOLDER
from hakaru.store import write_atomic

SVG = "{http://www.w3.org/2000/svg}"
CLASS = re.compile(r"\b(s\d+|keep)_\d+_marks\b")
"""Class of marks that `marks.named` made."""
NOISE = ("role", "aria-roledescription", "aria-hidden", "aria-label", "class", "pointer-events")
"""Attributes of marks that are removed, because the chart as a whole has a label."""


GEOMETRY = frozenset(("d", "transform", "x", "y", "x1", "x2", "y1", "y2", "width", "height"))
"""Attributes with numbers, of which two decimals are enough."""
FRACTION = re.compile(r"\d+\.\d{3,}")
USUAL = {"opacity": "1", "stroke-width": "1", "font-family": FAMILY}
"""Attributes that every element inherits from the whole drawing, or has by default."""


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


@functools.cache
def _fonts() -> None:
    vl_convert.register_font_directory(str(FOLDER))


def spec(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite specification with the theme. It is not validated, because validation takes
    longer than drawing.
    """
    return dict(chart.to_dict(validate=False))


def numbers_of(chart: Chart) -> list[str]:
    """The numbers that a chart shows, in words."""
    return list(chart.usermeta["numbers"])


def series_of(chart: Chart) -> list[str]:
    """The names of the series of a chart, whose marks have the classes `s0`, `s1`, …."""
    return list(chart.usermeta["series"])


def svg(chart: Chart, label: str = "") -> str:
    """The chart as an SVG element. For screen readers its name is `label` with the numbers of the
    chart. Marks have tooltips.

    It has no ids, so a page can hold any number of charts.
    """
    _fonts()
    drawn = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec(chart)))  # trusted: output of our renderer
    for element in list(drawn.iter()):
        element.tag = element.tag.removeprefix(SVG)
        tooltip = element.get("aria-label")
        css = CLASS.search(element.get("class", ""))
        for name in NOISE:
            element.attrib.pop(name, None)
        for name in GEOMETRY & element.attrib.keys():
            element.set(name, FRACTION.sub(_rounded, element.attrib[name]))
        for name, value in USUAL.items():
            if element.get(name) == value:
                del element.attrib[name]
        if css:
            element.set("class", css[1])
        if tooltip:
            ElementTree.SubElement(element, "title").text = tooltip
    drawn.attrib |= {
        "xmlns": SVG.strip("{}"),
        "font-family": FAMILY,
        "role": "img",
        "aria-label": ". ".join(filter(None, [label, "; ".join(numbers_of(chart))])),
    }
    return ElementTree.tostring(drawn, encoding="unicode")


def png(chart: Chart, scale: float = 2.0) -> bytes:
    """The chart as a PNG image."""
    _fonts()
    return bytes(vl_convert.vegalite_to_png(spec(chart), scale=scale))


def save(chart: Chart, title: str, path: Path) -> Path:
    """Draw the chart on white into a .svg or .png file, and return its path. Raises UsageError for
    other types.
    """
    drawn = chart.properties(background="white")
    match path.suffix:
        case ".png":
            raw = png(drawn)
        case ".svg":
            raw = svg(drawn, title).encode()
        case _:
            raise UsageError(f"{path}: unknown type of figure", "use a file name that ends in .svg or .png")
    write_atomic(path, lambda file: file.write(raw))
    return path
