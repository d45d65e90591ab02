"""Figures with the curves of several runs, which `hakaru compare` draws and its page shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.comparison.rows import CHIEF
from hakaru.analysis.comparison.runs import Compared
from hakaru.errors import UsageError
from hakaru.report import charts
from hakaru.report.charts import Axes, Line, LinePoint, Size
from hakaru.report.figures import Figure, note
from hakaru.report.sweep import factor_title
from hakaru.study.part import level_text
from hakaru.wording import say

NOTHING_TO_DRAW = "a figure needs a factor with several numbers, and two runs with two valid points each over it"
Point = Mapping[str, Any]
Curves = Sequence[tuple[str, list[LinePoint]]]
"""Run and its points, for each run."""
Levels = tuple[tuple[str, Any], ...]


def overlays(compared: Sequence[Compared], language: str, metrics: Sequence[str] = ()) -> list[Figure]:
    """One figure for each metric and each combination of the other levels, over the factor with the
    most numeric levels: the baseline and every run compared with it, with their intervals.

    `metrics`: default the chief ones that the runs have, without MiB/s beside MB/s. Empty if no
    factor has at least two numeric levels at points that all runs have.
    """
    runs = [(compared[0].before, compared[0].points_before)]
    runs += [(each.after, each.points_after) for each in compared]
    over = _swept([points for _, points in runs])
    if over is None:
        return []
    found: list[Figure] = []
    for metric in metrics or CHIEF:
        if not metrics and metric == "mib_per_s" and any(figure.name == "mb_per_s" for figure in found):
            continue
        for others in _groups(runs[0][1], over):
            curves = [(run["run"], _curve(points, over, others, metric)) for run, points in runs]
            if sum(len(curve) > 1 for _, curve in curves) > 1:
                shown = [p for _, points in runs for p in points if _others(p, over) == others and _has(p, metric)]
                unit = sentences.unit(shown[0]["metrics"][metric]["unit"]).strip()
                words = sentences.metric(language, metric)
                axis = f"{words} [{unit}]" if unit and f"({unit})" not in words else words
                axes = _axes(axis, over, curves, language)
                found.append(_figure(metric, words, others, axes, curves, note(shown, language, metric), language))
    return found


def draw(figures: Sequence[Figure], name: str, path: Path) -> None:
    """Draw the first figure of the metric `name` into `path`, a .svg or .png file. Raises
    UsageError if there is none.
    """
    chosen = [figure for figure in figures if figure.name == name] or list(figures if not name else ())
    if not chosen:
        available = ", ".join(dict.fromkeys(figure.name for figure in figures))
        hint = f"there are figures of {available}" if available else NOTHING_TO_DRAW
        raise UsageError(f"no figure of {name or 'the runs'}", hint)
    charts.save(chosen[0].draw(charts.WIDE), chosen[0].title, path)


def _has(point: Point, metric: str) -> bool:
    value = point["metrics"].get(metric)
    return value is not None and value["mean"] is not None


def _swept(runs: Sequence[Sequence[Point]]) -> str | None:
    """The factor with the most numeric levels that all runs have; None if none has two."""
    shared: dict[str, int] = {}
    for name in dict.fromkeys(name for point in runs[0] for name in point["factors"]):
        levels = [{p["factors"].get(name) for p in points} for points in runs]
        numbers = [level for level in set.intersection(*levels) if _is_number(level)]
        if len(numbers) > 1:
            shared[name] = len(numbers)
    return max(shared, key=lambda name: shared[name], default=None)


def _is_number(level: object) -> bool:
    return isinstance(level, int | float) and not isinstance(level, bool)


def _others(point: Point, over: str) -> Levels:
    """The other levels, by the names of their factors, whose order differs between studies."""
    return tuple(sorted((name, level) for name, level in point["factors"].items() if name != over))


def _groups(points: Sequence[Point], over: str) -> Iterator[Levels]:
    """Combinations of the other levels, in the order of the points."""
    yield from dict.fromkeys(_others(point, over) for point in points)


def _curve(points: Sequence[Point], over: str, others: Levels, metric: str) -> list[LinePoint]:
    valid = [p for p in points if p["valid"] and _others(p, over) == others and _has(p, metric)]
    values = [(float(p["factors"][over]), p["metrics"][metric]) for p in valid if _is_number(p["factors"].get(over))]
    return sorted((level, value["mean"], value["low"], value["high"]) for level, value in values)


def _axes(y: str, over: str, curves: Curves, language: str) -> Axes:
    ticks = sorted({level for _, points in curves for level, *_ in points})
    return Axes(x=factor_title(over, language), y=y, x_ticks=ticks)


def _figure(metric: str, words: str, others: Levels, axes: Axes, curves: Curves, about: str, language: str) -> Figure:
    series = [Line(name, points, *charts.look(i)) for i, (name, points) in enumerate(curves)]
    levels = say(language, "list.separator").join(f"{name} {level_text(level)}" for name, level in others)

    def drawn(size: Size) -> charts.Chart:
        return charts.lines(series, axes, size)

    return Figure(metric, f"{words} ({levels})" if levels else words, about, drawn)
