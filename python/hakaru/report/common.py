"""Cells and captions common to the tables of points of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.report.blocks import Cell, Column, Row, Table
from hakaru.report.figures import note
from hakaru.report.sweep import factor_title
from hakaru.wording import number, say

Json = dict[str, Any]


def varied_factors(points: Sequence[Json]) -> list[str]:
    """Factors that vary between the points, or all if none does. Blocks of a study may have
    different factors.
    """
    names = list(dict.fromkeys(factor for point in points for factor in point["factors"]))
    return [f for f in names if len({str(p["factors"].get(f, "")) for p in points}) > 1] or names


def level(point: Json, factor: str, language: str) -> str:
    """The cell of a point's level of a factor; empty if it lacks the factor."""
    value = point["factors"].get(factor, "")
    return sentences.level(language, factor, value) if isinstance(value, bool) else str(value)


def factors(points: Sequence[Json], language: str, metric: str) -> tuple[list[str], str]:
    """Factors that vary between the points, and a caption with the levels of the other factors and
    the number of repetitions that gave `metric`.
    """
    varied = varied_factors(points)
    fixed = sentences.series({f: v for f, v in points[0]["factors"].items() if f not in varied}, language)
    origin = note(points, language, metric, "table")
    return varied, say(language, "series", {"series": fixed, "text": origin}) if fixed else origin


def with_interval(metric: Mapping[str, Any], language: str) -> Cell:
    """A mean in bold, over its 95 % interval."""
    low, high = metric["low"], metric["high"]
    interval = "" if low is None else f"{number(low, language)}–{number(high, language)}"
    return Cell(number(metric["mean"], language), interval, bold=True)


def row(point: Json, cells: Sequence[Cell | str], letters: Mapping[str, str], state: str = "") -> Row:
    """The row of a point, with the letters of its caveats."""
    own = {caveat["caveat"] for caveat in point["caveats"]}
    marks = [letter for name, letter in letters.items() if name in own]
    return Row(cells, state if point["valid"] else "invalid", marks)


def points_table(
    points: Sequence[Json],
    letters: Mapping[str, str],
    language: str,
    *,
    title: str,
    metric: str,
    columns: Sequence[Column],
    cells: Callable[[Json], Sequence[Cell | str]],
) -> Table:
    """A table with a row for each point: its levels of the factors that vary, then `cells`.

    `title`: id of the message; the caption continues with the levels of the other factors and the
    repetitions of `metric`.
    """
    varied, about = factors(points, language, metric)
    heads = [Column(factor_title(factor, language), "level", header=True) for factor in varied]
    rows: list[Row] = []
    for point in points:
        levels: list[Cell | str] = [level(point, factor, language) for factor in varied]
        rows.append(row(point, [*levels, *cells(point)], letters))
    caption = say(language, "table.points.caption", {"title": say(language, title), "about": about})
    return Table(caption, [*heads, *columns], rows, "numbers", caveats=True)
