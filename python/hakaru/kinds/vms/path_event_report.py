"""Events of paths in the report: tiles about the gaps in service, a table of all events, and for
each point a timeline: rate and usable paths over time, with a dotted line at each event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms.events import RETURNS
from hakaru.report import charts
from hakaru.report.blocks import Across, Cell, Column, Group, Row, Table
from hakaru.report.charts import Axes, Chart, Line, LinePoint, Size
from hakaru.report.figures import Figure, note
from hakaru.wording import MISSING, number, say

Json = dict[str, Any]
NameOf = Callable[[Json, str], str]
"""Name of a point in a language."""
COLUMNS = ("at_s", "gap", "failover", "timers", "share", "changed", "repeated", "failed", "usable", "late")
CAVEAT = "gap_unexplained"
"""The caveat that belongs to the row of its event."""
FIGURES_MAX = 8
"""Maximum number of points with a timeline, in the order of the run."""


def points_of(summary: Json) -> list[Json]:
    """Points with events."""
    return [point for point in summary["points"] if point.get("events")]


def label(event: Json, language: str) -> str:
    """An event in words: `link array.1 is cut`."""
    return say(language, f"event.{event['event']}", {"object": str(event["object"])})


def tiles(summary: Json, language: str) -> list[Json]:
    """The longest gap in service after each way to fail, beside the failover and its timers, and
    the failed requests, from the findings about failures; none without them.
    """
    found = [finding for finding in summary["findings"] if finding["kind"] == "failover"]
    longest: dict[str, tuple[Json, Json]] = {}
    for finding in found:
        for event in finding["evidence"]["events"]:
            known = longest.get(event["event"])
            if event["gap_ms_max"] is not None and (known is None or event["gap_ms_max"] > known[0]["gap_ms_max"]):
                longest[event["event"]] = event, finding["where"]
    shown = [_gap_tile(event, where, language) for event, where in longest.values()]
    if not shown:
        return []
    failed = sum(finding["evidence"]["errors"] for finding in found)
    small = say(language, "tile.failover.failed.small", {"points": len(found)}) if len(found) > 1 else ""
    return [
        *shown,
        {"title": say(language, "tile.failover.failed"), "value": number(failed, language), "small": small},
    ]


def _gap_tile(event: Json, where: Json, language: str) -> Json:
    values = {name: _duration(event[f"{name}_ms"], language) for name in ("failover", "timers")}
    small = named = sentences.series(where, language)
    if event["failover_ms"] is not None:
        small = say(language, "tile.failover.timers" if event["timers_ms"] else "tile.failover.moved", values)
        small = say(language, "tile.failover.at", {"text": small, "where": named}) if named else small
    return {
        "title": say(language, "tile.failover.gap", {"event": label(event, language)}),
        "value": _duration(event["gap_ms_max"], language),
        "small": small,
    }


def _duration(ms: float | None, language: str) -> str:
    """A time in the unit in which it is easy to read: `16.3 ms`, `15.0 s`."""
    if ms is None:
        return MISSING
    return f"{number(ms, language)} ms" if ms < 1000 else f"{number(ms / 1000, language)} s"


def tables(summary: Json, letters: Mapping[str, str], name_of: NameOf, language: str) -> list[Table]:
    """The table of the events of all points; none without events."""
    points = points_of(summary)
    if not points:
        return []
    columns = [Column("", header=True), Column(say(language, "table.events.event"), "words", header=True)]
    columns += [Column(say(language, f"table.events.{name}")) for name in COLUMNS]
    rows: list[Row | Across] = []
    for point in points:
        rows.append(Across(name_of(point, language), heading=True))
        marks = [letters[CAVEAT]] if any(c["caveat"] == CAVEAT for c in point["caveats"]) else []
        for i, event in enumerate(point["events"]):
            cells = [str(i + 1), label(event, language), *_cells(event, language)]
            state = "" if point["valid"] else "invalid"
            rows.append(Row(cells, state, marks if event["explained"] is False else ()))
    return [Table(say(language, "table.events"), columns, rows, caveats=True)]


def _cells(event: Json, language: str) -> list[Cell | str]:
    is_failure = event["event"] in RETURNS
    timers = number(event["timers_ms"], language)
    judged = event["explained"] is not None and event["failover_ms"] and event["timers_ms"]
    share = 100 * event["failover_ms"] / event["timers_ms"] if judged else None
    return [
        number(event["at_s"], language),
        Cell(number(event["gap_ms"], language), bold=is_failure),
        number(event["failover_ms"], language),
        f"≤ {timers}" if event["timers_are_most"] else timers,
        MISSING if share is None else f"{share:.0f} %",
        number(event["changed_ms"], language),
        number(event["commands_repeated"], language),
        number(event["errors"], language),
        number(event["usable_min"], language),
        number(event["late_ms_max"], language),
    ]


def groups(summary: Json, name_of: NameOf, language: str) -> list[Group]:
    """The timelines; none without events."""
    drawn = [point for point in points_of(summary) if len(point["over_time"].get("paths_usable") or []) > 1]
    figures = [_timeline(point, i, name_of(point, language), language) for i, point in enumerate(drawn[:FIGURES_MAX])]
    return [Group(figures, say(language, "figure.events.group"))] if figures else []


def _timeline(point: Json, index: int, name: str, language: str) -> Figure:
    over = point["over_time"]

    def line(key: str) -> list[LinePoint]:
        pairs = zip(over["t_s"], over[key], strict=True)
        return [(t, v, None, None) for t, v in pairs if t is not None and v is not None]

    rate, usable = line("iops"), line("paths_usable")
    axis, unit = say(language, "axis.seconds"), say(language, "unit.iops")

    def draw(size: Size) -> Chart:
        half = Size(size.width, size.height * 5 // 9, size.labels)
        panels = []
        for points, title, x in ((rate, unit, ""), (usable, say(language, "label.paths_usable"), axis)):
            top = max((p[1] for p in points), default=1.0) or 1.0
            series = [Line(title, points, charts.OURS, (1, 0), "none"), *_marks(over["event_s"], top)]
            panels.append(charts.lines(series, Axes(x, title, x_whole=True), half))
        return charts.panels(*panels)

    events = []
    for i, event in enumerate(point["events"]):
        values = {"number": str(i + 1), "event": label(event, language), "at_s": event["at_s"]}
        events.append(say(language, "figure.events.mark", values))
    caption = note([point], language, "iops", "one")
    caption += say(language, "figure.events.marks", {"events": say(language, "list.separator").join(events)})
    return Figure(f"events_{index}", say(language, "figure.events", {"point": name}), caption, draw)


def _marks(seconds: list[float], top: float) -> list[Line]:
    """A dotted line at each event."""
    return [Line("", [(t, 0.0, None, None), (t, top, None, None)], charts.QUIET, (2, 3), "none") for t in seconds]
