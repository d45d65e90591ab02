"""Figures of a load over a distance.

throughput_N   MB/s over the round-trip time, a line for each setting of a group, with its bounds
               dashed
phases, tcp    where commands and the sender's TCP spent their time: bars of the first group
window         window and send buffer over time of one point
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms.analysis.flows import PHASES, SHARES
from hakaru.report import charts
from hakaru.report.charts import Axes, Chart, Line, Size, Stack
from hakaru.report.figures import Figure, note
from hakaru.report.sweep import Summary
from hakaru.wording import say

Json = dict[str, Any]

DISTANCES_MAX = 3
"""Of the first group in bars: the nearest that is one, the middle, the farthest."""
BARS_MAX = 14
TICK_SHARE = 0.06
LINES_MAX = len(charts.PALETTE)


def of_run(summary: Summary, language: str) -> list[Figure]:
    """All figures of the run; none where nothing was measured."""
    measured = [p for p in summary["points"] if p["metrics"]["mb_per_s"]["mean"] is not None]
    if not measured:
        return []
    figures = [_throughput(summary, curves, i, language) for i, curves in enumerate(groups(summary))]
    shown = bar_points(summary)
    for name, parts in (("phases", PHASES), ("tcp", tuple(f"tcp_{s}" for s in SHARES))):
        figures += _shares(summary, shown, name, parts, language)
    return figures + _window(summary, shown, language)


def groups(summary: Summary) -> list[list[Json]]:
    """Curves that are drawn together, in the order of the study."""
    found: list[list[Json]] = []
    for curve in summary["curves"]:
        same = next((g for g in found if g[0]["group"] == curve["group"]), None)
        if same is None:
            found.append([curve])
        else:
            same.append(curve)
    return found


def chief_rtt(summary: Summary) -> float | None:
    """The distance that is told first: the middle one of the first group."""
    several = distances(summary)
    return several[len(several) // 2] if several else None


def distances(summary: Summary) -> list[float]:
    """Round-trip times of the first group that are not 0, ms; at most three."""
    first = groups(summary)
    every = sorted({rtt for curve in first[0] for rtt in curve["rtt_ms"] if rtt > 0}) if first else []
    if len(every) <= DISTANCES_MAX:
        return every
    return [every[0], every[len(every) // 2], every[-1]]


def bar_points(summary: Summary) -> list[Json]:
    """Points shown as bars: the first group's at some distances, in the order of distance; else the
    first points.
    """
    points = {p["point"]: p for p in summary["points"]}
    first = groups(summary)
    if not first:
        return list(points.values())[:BARS_MAX]
    wanted = distances(summary)
    found = [
        points[i]
        for rtt in wanted
        for curve in first[0]
        for i, at in zip(curve["points"], curve["rtt_ms"], strict=True)
        if at == rtt and i in points
    ]
    return found[:BARS_MAX]


def label(summary: Summary, point: Json) -> str:
    """A point's levels in which the points of the run differ."""
    every = summary["points"]
    own = {f: v for f, v in point["factors"].items() if len({str(p["factors"].get(f)) for p in every}) > 1}
    return sentences.series(own or point["factors"])


def _throughput(summary: Summary, curves: list[Json], index: int, language: str) -> Figure:
    points = {p["point"]: p for p in summary["points"]}
    drawn = curves[:LINES_MAX]
    series: list[Line] = []
    for i, curve in enumerate(drawn):
        colour, marker = charts.PALETTE[i], charts.MARKERS[i]
        bound = [(x, y, None, None) for x, y in curve["bound"]]
        series.append(Line("", bound, colour, (3, 3), "none"))
        rates = [(x, points[p]["metrics"]["mb_per_s"]) for x, p in zip(curve["rtt_ms"], curve["points"], strict=True)]
        line = [(x, r["mean"], r["low"], r["high"]) for x, r in rates if r["mean"] is not None]
        name = sentences.series(curve["name"], language) or sentences.series(curve["where"], language)
        series.append(Line(name, line, colour, (1, 0), marker))
    levels = sorted({x for curve in drawn for x in curve["rtt_ms"]})
    shown = ticks(levels)
    axes = Axes(say(language, "axis.rtt"), "MB/s", shown, x_labels={t: f"{t:g}" for t in shown})
    shared = {f: v for f, v in curves[0]["where"].items() if all(c["where"].get(f) == v for c in curves)}
    shared = {f: v for f, v in shared.items() if f not in curves[0]["name"] and f != "vms"}
    said = sentences.series(shared, language)
    title = say(language, "figure.distance.of", {"series": said}) if said else say(language, "figure.distance")
    about = [points[i] for curve in drawn for i in curve["points"]]
    caption = note(about, language) + say(language, "figure.distance.bounds")
    return Figure(f"throughput_{index}", title, caption, lambda size: charts.lines(series, axes, size))


def ticks(levels: list[float]) -> list[float]:
    """Levels that have room beside one another; the farthest always."""
    found: list[float] = []
    for level in reversed(levels):
        if not found or found[-1] - level >= TICK_SHARE * levels[-1]:
            found.append(level)
    return found[::-1]


def _shares(summary: Summary, points: list[Json], name: str, parts: tuple[str, ...], language: str) -> list[Figure]:
    stacks, about = [], []
    for point in points:
        percents = [point["metrics"][f"{part}_percent"]["mean"] for part in parts]
        if any(p is not None for p in percents):
            stacks.append(Stack(label(summary, point), percents))
            about.append(point)
    if not stacks:
        return []
    names = [say(language, f"metric.{part}_percent") for part in parts]
    title, axis = say(language, f"figure.distance.{name}"), say(language, "axis.share")
    spec = lambda size: charts.stacks(stacks, names, axis, size)  # noqa: E731
    caption = note(about, language, "shares")
    caption += say(language, "figure.distance.phases.note") if name == "phases" else ""
    return [Figure(name, title, caption, spec)]


def _window(summary: Summary, shown: list[Json], language: str) -> list[Figure]:
    """Of the farthest point shown that has a course of the window, the one with the most in
    flight.
    """
    told = [p for p in shown or summary["points"] if len(p["over_time"].get("window_t_s") or []) > 2]
    if not told:
        return []
    farthest = max(p["path"]["rtt_ms"] for p in told)
    point = max(
        (p for p in told if p["path"]["rtt_ms"] == farthest),
        key=lambda p: p["metrics"]["in_flight_mb_max"]["mean"] or 0.0,
    )
    over = point["over_time"]
    series = []
    lines = ("congestion_window", "in_flight", "not_sent", "buffered")
    for i, (said, name) in enumerate((f"label.{n}", f"window_{n.removesuffix('_window')}_mb") for n in lines):
        values = zip(over["window_t_s"], over.get(name) or [], strict=False)
        drawn = [(t, v, None, None) for t, v in values if t is not None and v is not None]
        if drawn:
            series.append(Line(say(language, said), drawn, *charts.look(i)))
    if not series:
        return []
    axes = Axes(say(language, "axis.seconds"), "MB")

    def draw(size: Size) -> Chart:
        return charts.lines(series, axes, size)

    title = say(language, "figure.distance.window", {"series": label(summary, point)})
    origin = say(language, f"origin.{point['origin']}")
    return [Figure("window", title, say(language, "figure.note.window", {"origin": origin}), draw)]
