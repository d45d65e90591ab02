"""Charts of a report, built with Altair: lines, bars, columns, dots, stacked bars, heat maps.

    chart = lines([Line("this run", [(1.0, 812.0, 790.0, 834.0)])], Axes("VMs", "IOPS"), WIDE)
    svg(chart, "iops", "Requests per second")

A chart function takes data and a `Size` and returns an Altair chart. `svg` and `png` draw it with
the theme `hakaru` and the bundled fonts. Each kind of chart is one module of this package.
"""

from hakaru.report.charts.bar import Bar, bars
from hakaru.report.charts.columns import Columns, columns
from hakaru.report.charts.deferred import Chart
from hakaru.report.charts.dots import dots
from hakaru.report.charts.heat import Cell, heat
from hakaru.report.charts.line import Axes, Line, LinePoint, lines, log_ticks, panels
from hakaru.report.charts.render import numbers_of, png, save, series_of, spec, svg
from hakaru.report.charts.stack import Stack, stacks
from hakaru.report.charts.theme import (
    DARK_CSS,
    DASHES,
    MARKERS,
    NARROW,
    OURS,
    PALETTE,
    PAPER,
    QUIET,
    THEIRS,
    WIDE,
    Size,
    look,
)

__all__ = [
    "DARK_CSS",
    "DASHES",
    "MARKERS",
    "NARROW",
    "OURS",
    "PALETTE",
    "PAPER",
    "QUIET",
    "THEIRS",
    "WIDE",
    "Axes",
    "Bar",
    "Cell",
    "Chart",
    "Columns",
    "Line",
    "LinePoint",
    "Size",
    "Stack",
    "bars",
    "columns",
    "dots",
    "heat",
    "lines",
    "log_ticks",
    "look",
    "numbers_of",
    "panels",
    "png",
    "save",
    "series_of",
    "spec",
    "stacks",
    "svg",
]
