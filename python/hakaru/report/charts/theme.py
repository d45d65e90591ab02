"""Appearance of all charts: colours, sizes, and the Altair theme `hakaru`.

Series differ in colour, dash and marker, so that a chart is readable in greyscale. `look(i)`
returns these for the series with index `i`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hakaru.report.fonts import FAMILY

if TYPE_CHECKING:
    from altair.theme import ThemeConfig

INK, QUIET, HAIR, PAPER, ALARM = "#1d2733", "#5c6773", "#d9dee3", "#ffffff", "#b3261e"
OURS, THEIRS = "#0b5394", "#8a5a00"
PALEST = "#eef3f8"
"""Lightest shade of a heat map; `OURS` is the darkest."""
PALETTE = (OURS, ALARM, "#1b7a4b", THEIRS, "#6a3d9a", QUIET, "#0e7c86", "#a0457a")
"""Colours of series, by index. Dashes and markers distinguish the series in greyscale."""
SHADES = ("#0b5395", "#e3c78f", "#6a3d9b", "#a9cdea", "#1b7a4c", "#dfe3e7", "#8a5a01", "#f0d0d0")
"""Parts of a stacked bar: dark and light in turn, so that neighbours differ in greyscale. None is a
colour of `PALETTE`, because a dark page replaces those.
"""
DASHES = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 4), (1, 3), (12, 3), (5, 2, 1, 2))
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "circle", "square")
PLAIN = ".12~g"
"""Format of numbers on an axis. Without a number of digits, Vega takes one from the distance of the
ticks and prints 10 as 1e+1.
"""
DARK_CSS = Path(__file__).parent / "dark.css"
"""Style sheet of charts on a dark page."""
FONT_PX = 11
AXIS_PX = 36
"""Minimum space for the numbers of a value axis, in pixels."""
LINE_PX = 13


@dataclass(frozen=True)
class Size:
    """Drawing area in pixels. `labels` is the space to its right for the names of lines."""

    width: int
    height: int
    labels: int

    @property
    def narrow(self) -> bool:
        """Whether this is the size for the screen of a phone."""
        return self.width < 400

    @property
    def room(self) -> int:
        """Total width of axis, drawing area and labels in pixels, which is the same for all charts
        of this size.
        """
        return AXIS_PX + self.width + self.labels


WIDE = Size(560, 240, 150)
NARROW = Size(224, 220, 92)


def look(index: int) -> tuple[str, tuple[int, ...], str]:
    """Colour, dash and marker of the series with this index. They repeat together after 64: eight
    series with colours of their own, then the same colours with other dashes and markers.
    """
    place, turn = index % len(PALETTE), index // len(PALETTE)
    return PALETTE[place], DASHES[(place + turn) % len(DASHES)], MARKERS[(place + turn) % len(MARKERS)]


def theme() -> ThemeConfig:
    """Configuration that Altair adds to every chart."""
    axis: dict[str, Any] = {
        "domainColor": INK,
        "tickColor": INK,
        "gridColor": HAIR,
        "labelColor": INK,
        "titleColor": QUIET,
        "titleFontWeight": 400,
        "labelFontSize": FONT_PX,
        "titleFontSize": FONT_PX,
        "titlePadding": 8,
        "tickSize": 4,
    }
    value_axis: dict[str, Any] = {
        "domain": False,
        "ticks": False,
        "titleAngle": 0,
        "titleAlign": "left",
        "titleX": 0,
        "titleY": -14,
    }
    legend: dict[str, Any] = {
        "orient": "top",
        "title": None,
        "labelFontSize": FONT_PX,
        "symbolType": "square",
        "labelLimit": 0,
    }
    config: dict[str, Any] = {
        "font": FAMILY,
        "aria": False,
        "background": "transparent",
        "padding": {"left": 2, "right": 4, "top": 20, "bottom": 2},
        "view": {"stroke": None},
        "axis": axis,
        "axisYQuantitative": value_axis,
        "axisX": {"grid": False},
        "axisBand": {"domain": False, "ticks": False, "grid": False, "labelLimit": 0, "labelPadding": 8},
        "legend": legend,
        "text": {"font": FAMILY, "fontSize": FONT_PX, "color": INK, "lineHeight": LINE_PX},
    }
    return cast("ThemeConfig", {"config": config})
