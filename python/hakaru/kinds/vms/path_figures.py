"""Figures of a study of distance.

throughput_N   MB/s over the round-trip time, a line for each setting of a group, with dashed bounds
               and, as dotted lines, plain TCP streams over the same path with the same sockets
phases, tcp    time of commands and of the sender's TCP by phase and state: bars of the first group
window         window and send buffer of one point over time
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms.analysis.flows import PHASES, SHARES
from hakaru.report import charts
from hakaru.report.charts import Axes, Chart, Line, Size, Stack
from hakaru.report.figures import Figure, note, origin_of
from hakaru.report.sweep import Summary, factor_title
from hakaru.wording import say

Json = dict[str, Any]

DISTANCES_MAX = 3
"""Distances of the first group that are shown as bars: the nearest above 0, the middle, the
farthest.
"""
BARS_MAX = 14
TICK_SHARE = 0.06
STREAM_DASHES = ((1, 3), (4, 3, 1, 3), (6, 2), (2, 5))
LINES_MAX = len(charts.PALETTE)


def of_run(summary: Summary, language: str) -> list[Figure]:
    """All figures of the run; none if nothing was measured."""
    measured = [p for p in summary["points"] if p["metrics"]["mb_per_s"]["mean"] is not None]
    if not measured:
        return []
    figures = [_throughput(summary, curves, i, language) for i, curves in enumerate(groups(summary))]
    shown = bar_points(summary)
    for name, parts in (("phases", PHASES), ("tcp", tuple(f"tcp_{s}" for s in SHARES))):
        figures += _shares(summary, shown, name, parts, language)
    return figures + _windows(summary, shown, language)


def groups(summary: Summary) -> list[list[Json]]:
    """Groups of curves that are drawn together, in the order of the study. Plain streams have no
    figure of their own; each is drawn beside the loads over the same path.
    """
    groups: list[list[Json]] = []
    for curve in summary["curves"]:
        if curve["plain_stream"]:
            continue
        group = next((g for g in groups if g[0]["group"] == curve["group"]), None)
        if group is None:
            groups.append([curve])
        else:
            group.append(curve)
    return groups


def chief_rtt(summary: Summary) -> float | None:
    """The chief distance: round-trip time of the middle distance of the first group, ms; None
    without curves.
    """
    rtts = distances(summary)
    return rtts[len(rtts) // 2] if rtts else None


def distances(summary: Summary) -> list[float]:
    """Round-trip times above 0 of the first group, ms: all if there are up to three, otherwise the
    nearest, the middle and the farthest.
    """
    curve_groups = groups(summary)
    rtts = sorted({rtt for curve in curve_groups[0] for rtt in curve["rtt_ms"] if rtt > 0}) if curve_groups else []
    if len(rtts) <= DISTANCES_MAX:
        return rtts
    return [rtts[0], rtts[len(rtts) // 2], rtts[-1]]


def bar_points(summary: Summary) -> list[Json]:
    """Points that are shown as bars: those of the first group at `distances`, in the order of
    distance. Without curves, the first points.
    """
    points = {p["point"]: p for p in summary["points"]}
    curve_groups = groups(summary)
    if not curve_groups:
        return list(points.values())[:BARS_MAX]
    rtts = distances(summary)
    shown = [
        points[i]
        for rtt in rtts
        for curve in curve_groups[0]
        for i, at in zip(curve["points"], curve["rtt_ms"], strict=True)
        if at == rtt and i in points
    ]
    return shown[:BARS_MAX]


def label(summary: Summary, point: Json) -> str:
    """The levels of a point, without factors that are equal in all points of the run."""
    points = summary["points"]
    varied = {f: v for f, v in point["factors"].items() if len({str(p["factors"].get(f)) for p in points}) > 1}
    return sentences.series(varied or point["factors"])


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
    series += _streams(points, drawn, language)
    levels = sorted({x for curve in drawn for x in curve["rtt_ms"]})
    shown = ticks(levels)
    axes = Axes(say(language, "axis.rtt"), "MB/s", shown, x_labels={t: f"{t:g}" for t in shown})
    shared = {f: v for f, v in curves[0]["where"].items() if all(c["where"].get(f) == v for c in curves)}
    shared = {f: v for f, v in shared.items() if f not in curves[0]["name"] and f != "vms"}
    shared_words = sentences.series(shared, language)
    title = (
        say(language, "figure.distance.of", {"series": shared_words})
        if shared_words
        else say(language, "figure.distance")
    )
    # Figures of the same pattern differ by what their lines are.
    if by := [factor_title(factor, language) for factor in dict.fromkeys(f for c in drawn for f in c["name"])]:
        title += say(language, "figure.distance.by", {"factors": say(language, "list.separator").join(by)})
    noted_points = [points[i] for curve in drawn for i in curve["points"]]
    caption = note(noted_points, language, "mb_per_s") + say(language, "figure.distance.bounds")
    if any(points[i].get("plain_stream") for curve in drawn for i in curve["points"]):
        caption += say(language, "figure.distance.streams")
    return Figure(f"throughput_{index}", title, caption, lambda size: charts.lines(series, axes, size))


def _streams(points: dict[str, Json], curves: list[Json], language: str) -> list[Line]:
    """A dotted line for each set of plain streams beside these curves."""
    names: dict[tuple[tuple[float, str], ...], list[str]] = {}
    for curve in curves:
        beside = [(x, points[p].get("plain_stream")) for x, p in zip(curve["rtt_ms"], curve["points"], strict=True)]
        streams = tuple((x, str(stream["point"])) for x, stream in beside if stream)
        if streams:
            levels = say(language, "list.separator").join(str(level) for level in curve["name"].values())
            names.setdefault(streams, []).append(levels)
    lines = []
    for i, (streams, settings) in enumerate(names.items()):
        rates = [(x, points[p]["metrics"]["mb_per_s"]) for x, p in streams]
        line = [(x, r["mean"], r["low"], r["high"]) for x, r in rates if r["mean"] is not None]
        name = say(language, "label.plain_stream")
        if len(names) > 1:
            values = {"settings": say(language, "list.separator").join(settings)}
            name = say(language, "label.plain_stream.of", values)
        lines.append(Line(name, line, charts.theme.QUIET, STREAM_DASHES[i % len(STREAM_DASHES)], "cross"))
    return lines


def ticks(levels: list[float]) -> list[float]:
    """Levels far enough apart for tick labels; the farthest is always included."""
    chosen: list[float] = []
    for level in reversed(levels):
        if not chosen or chosen[-1] - level >= TICK_SHARE * levels[-1]:
            chosen.append(level)
    return chosen[::-1]


def _shares(summary: Summary, points: list[Json], name: str, parts: tuple[str, ...], language: str) -> list[Figure]:
    stacks, noted_points = [], []
    for point in points:
        percents = [point["metrics"][f"{part}_percent"]["mean"] for part in parts]
        if any(p is not None for p in percents):
            stacks.append(Stack(label(summary, point), percents))
            noted_points.append(point)
    if not stacks:
        return []
    names = [say(language, f"metric.{part}_percent") for part in parts]
    title, axis = say(language, f"figure.distance.{name}"), say(language, "axis.share")
    spec = lambda size: charts.stacks(stacks, names, axis, size)  # noqa: E731
    caption = note(noted_points, language, "mb_per_s", "shares")
    caption += say(language, "figure.distance.phases.note") if name == "phases" else ""
    return [Figure(name, title, caption, spec)]


def _windows(summary: Summary, shown: list[Json], language: str) -> list[Figure]:
    """The figure `window`, of the farthest point that has the window over time. Of several such
    points, the one with the most data in flight. The same figure of the plain stream beside it
    (`window_stream`), if there is one.
    """
    candidates = [p for p in shown or summary["points"] if _has_window(p)]
    if not candidates:
        return []
    farthest = max(p["path"]["rtt_ms"] for p in candidates)
    point = max(
        (p for p in candidates if p["path"]["rtt_ms"] == farthest),
        key=lambda p: p["metrics"]["in_flight_mb_max"]["mean"] or 0.0,
    )
    figures = _window("window", summary, point, language)
    beside = (point.get("plain_stream") or {}).get("point")
    streams = [p for p in summary["points"] if p["point"] == beside and _has_window(p)]
    return [*figures, *(figure for s in streams for figure in _window("window_stream", summary, s, language))]


def _has_window(point: Json) -> bool:
    return len(point["over_time"].get("window_t_s") or []) > 2


def _window(name: str, summary: Summary, point: Json, language: str) -> list[Figure]:
    over = point["over_time"]
    series = []
    lines = ("congestion_window", "in_flight", "not_sent", "buffered")
    for i, (label_id, line) in enumerate((f"label.{n}", f"window_{n.removesuffix('_window')}_mb") for n in lines):
        values = zip(over["window_t_s"], over.get(line) or [], strict=False)
        drawn = [(t, v, None, None) for t, v in values if t is not None and v is not None]
        if drawn:
            series.append(Line(say(language, label_id), drawn, *charts.look(i)))
    if not series:
        return []
    axes = Axes(say(language, "axis.seconds"), "MB")

    def draw(size: Size) -> Chart:
        return charts.lines(series, axes, size)

    title = say(language, "figure.distance.window", {"series": label(summary, point)})
    caption = say(language, "figure.note.window", {"origin": origin_of([point], language)})
    return [Figure(name, title, caption, draw)]
