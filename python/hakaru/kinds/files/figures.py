"""Figures of a study of files.

rates       files per second: against the number of tools, or of each point
time        share of the tools' time that each operation takes
pool        use of the pool over time, while the trees are built and used, the mean length of its
            runs, and its use in percent if it grows, with a dotted line at each growth, and a
            dashed one at each extension of a disk
stack       bytes of each layer below the trees after each stage, for each kind of disk
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hakaru.analysis import sentences
from hakaru.fileserver.space import LAYERS, STAGES
from hakaru.kinds.files import names
from hakaru.report import charts, goals
from hakaru.report.charts import PALETTE, Axes, Bar, Chart, Columns, Line, LinePoint, Size, Stack
from hakaru.report.figures import Figure, note
from hakaru.wording import number, say

Json = dict[str, Any]
KIB, MIB = 1 << 10, 1 << 20


def of_run(summary: Json, language: str) -> list[Figure]:
    """All figures of the run; none if nothing was measured."""
    measured = [p for p in summary["points"] if p["metrics"][names.RATE]["mean"] is not None]
    if not measured:
        return []
    figures = [_swept(measured, summary["goals"], language) or _rates(measured, language), _time(measured, language)]
    chained = [point for point in measured if point.get("pool_use")]
    figures += [_pool(chained, language)] if chained else []
    layered = [point for point in measured if point.get("space")]
    return [*figures, _stack(layered, language)] if layered else figures


def label(point: Json, language: str) -> str:
    """A point's levels in words."""
    return sentences.series(point["factors"], language) or str(point["point"])


def _swept(measured: list[Json], searched: list[Json], language: str) -> Figure | None:
    """The rate against the number of tools, one line per combination of other levels; None if the
    number is the same everywhere. A single search for a goal is marked.
    """
    if any(names.SWEPT not in point["factors"] for point in measured):
        return None
    groups: dict[str, list[Json]] = {}
    for point in measured:
        others = {factor: level for factor, level in point["factors"].items() if factor != names.SWEPT}
        groups.setdefault(sentences.series(others, language), []).append(point)
    lines = []
    for place, (title, points) in enumerate(groups.items()):
        ordered = sorted(points, key=lambda p: float(p["factors"][names.SWEPT]))
        rates = [(float(p["factors"][names.SWEPT]), p["metrics"][names.RATE]) for p in ordered]
        values: list[LinePoint] = [(tools, rate["mean"], rate["low"], rate["high"]) for tools, rate in rates]
        if len(searched) == len(groups) == 1 and searched[0]["over"] == names.SWEPT:
            lines += goals.lines(searched[0], {names.RATE: values}, language)
        lines.append(Line(title, values, *charts.look(place)))
    if not any(len(line.points) > 1 for line in lines):
        return None
    axes = Axes(say(language, "axis.tools"), say(language, "axis.files"))

    def draw(size: Size) -> Chart:
        return charts.lines(lines, axes, size)

    return Figure("rates", say(language, "figure.files.tools"), note(measured, language, names.RATE), draw)


def _rates(points: list[Json], language: str) -> Figure:
    rows = []
    for point in points:
        rate = point["metrics"][names.RATE]
        text = say(language, "figure.files.rate", {"rate": number(rate["mean"], language)})
        rows.append(Bar(label(point, language), rate["mean"], rate["low"], rate["high"], text))
    axis = say(language, "axis.files")

    def draw(size: Size) -> Chart:
        return charts.bars(rows, axis, size)

    return Figure("rates", say(language, "figure.files"), note(points, language, names.RATE), draw)


def _time(points: list[Json], language: str) -> Figure:
    """Shares of the operations, and the rest: the tools' own work."""
    known = [name for name in names.SHARED if any(names.share(name) in point["metrics"] for point in points)]
    parts = [say(language, f"operation.{name}") for name in (*known, "own")]
    rows = []
    for point in points:
        # A point whose load lacks an operation spends no time on it.
        shares = [point["metrics"].get(names.share(name), {"mean": 0.0})["mean"] for name in known]
        rest = None if None in shares else max(0.0, 100.0 - sum(shares))
        rows.append(Stack(label(point, language), [*shares, rest]))
    axis = say(language, "axis.time_share")

    def draw(size: Size) -> Chart:
        return charts.stacks(rows, parts, axis, size)

    about = note(points, language, names.RATE, "table")
    return Figure("time", say(language, "figure.files.time"), about, draw)


def _pool(points: list[Json], language: str) -> Figure:
    """The bytes that the pool has taken since the trees were begun, its runs and its growth."""
    uses = {label(point, language): point["pool_use"] for point in points}
    growths, extensions = (
        sorted({second for use in uses.values() for second in use[f"{name}_s"]}) for name in ("growth", "extension")
    )
    events = [*((at, (2, 3)) for at in growths), *((at, (6, 3)) for at in extensions)]
    panels = {"pool_use": {name: [byte - use["bytes"][0] for byte in use["bytes"]] for name, use in uses.items()}}
    runs = {name: use["run_bytes"] for name, use in uses.items() if any(use["run_bytes"])}
    panels |= {"pool_run": runs} if runs else {}
    if growths:
        panels["pool_percent"] = {name: _percents(use) for name, use in uses.items()}
    units = {"pool_use": MIB, "pool_run": KIB, "pool_percent": 1}

    def draw(size: Size) -> Chart:
        part = Size(size.width, size.height * 5 // 9, size.labels) if len(panels) > 1 else size
        charted = []
        for panel, values in panels.items():
            drawn = {name: _points(uses[name]["seconds"], each, units[panel]) for name, each in values.items()}
            top = max((value for each in drawn.values() for _, value, _, _ in each), default=0.0) or 1.0
            series = [
                Line(name, each, PALETTE[place % len(PALETTE)], marker="none")
                for place, (name, each) in enumerate(drawn.items())
            ]
            marks = [Line("", _points([at, at], [0.0, top], 1), charts.QUIET, dash, "none") for at, dash in events]
            below = say(language, "axis.building") if panel == [*panels][-1] else ""
            charted.append(charts.lines([*series, *marks], Axes(below, say(language, f"axis.{panel}")), part))
        return charts.panels(*charted) if len(charted) > 1 else charted[0]

    caption = note(points, language, names.RATE, "pool")
    caption += say(language, "figure.files.pool.runs") if runs else ""
    caption += say(language, "figure.files.pool.growth") if growths else ""
    caption += say(language, "figure.files.pool.extension") if extensions else ""
    return Figure("pool", say(language, "figure.files.pool"), caption, draw)


def _percents(use: Json) -> list[float | None]:
    pairs = zip(use["bytes"], use["capacity_bytes"], strict=True)
    return [100 * used / capacity if capacity else None for used, capacity in pairs]


def _stack(points: list[Json], language: str) -> Figure:
    """The layers from the files down to the pool after each stage. Points whose disks and file
    systems are alike have the same layers, so the first one of them is shown.
    """
    alike: dict[str, Json] = {}
    for point in points:
        alike.setdefault(_disk_of(point["space"]), point)
    shown = list(alike.values())
    parts = [say(language, f"layer.{layer}") for layer in LAYERS]

    def draw(size: Size) -> Chart:
        charted = []
        for point in shown:
            stages = point["space"]["stages"]
            groups = [
                Columns(say(language, f"stage.{stage}"), [stages[stage][layer] / MIB for layer in LAYERS])
                for stage in STAGES
                if stage in stages
            ]
            axis = say(language, "axis.stack", {"point": label(point, language)})
            charted.append(charts.columns(groups, parts, axis, size))
        return charts.panels(*charted) if len(charted) > 1 else charted[0]

    caption = note(shown, language, names.RATE, "stack")
    caption += say(language, "figure.files.stack.alike") if len(shown) < len(points) else ""
    return Figure("stack", say(language, "figure.files.stack"), caption, draw)


def _disk_of(space: Json) -> str:
    """Everything that the bytes of the layers depend on, apart from the files."""
    disk = {name: space["disk"].get(name) for name in ("format", "subformat", "preallocation", "block", "discard")}
    others = (space["host_file_system"], space["guest_file_system"], space["page_bytes"], space["chains"])
    return repr((sorted(disk.items()), others))


def _points(seconds: Sequence[float], values: Sequence[float | None], unit: int) -> list[LinePoint]:
    pairs = zip(seconds, values, strict=True)
    return [(second, value / unit, None, None) for second, value in pairs if value is not None]
