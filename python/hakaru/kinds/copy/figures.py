"""Figures of a study that copies images.

patterns    MiB/s of each plain point (a point with the same factors as the study's first) by wall
            clock, and the published value
jobs        MiB/s of each job by rank, and of the published VMs, if a table has them
map_N       throughput over buffer and streams, with the region of collapse framed
changes     MiB/s of the points that vary other settings
over_time   the slow point over time: rate, longest queue, frames dropped, timeouts
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.report import charts
from hakaru.report.charts import Axes, Bar, Cell, Chart, Line, Size
from hakaru.report.figures import Figure, note, origin_of, value_bars, with_interval
from hakaru.report.sweep import Summary
from hakaru.study.part import level_text
from hakaru.units import format_size
from hakaru.wording import number, say, tenths

Json = dict[str, Any]


def of_run(summary: Summary, language: str) -> list[Figure]:
    """All figures of the run; none if nothing was copied."""
    plain = [p for p in plain_points(summary) if p["metrics"]["mib_per_s"]["mean"] is not None]
    if not plain:
        return []
    figures = [_patterns(summary, plain, language), *_jobs(summary, plain, language)]
    figures += [_map(summary, i, language) for i in range(len(summary["maps"]))]
    figures += _changes(summary, language)
    slow = slow_point(summary)
    return figures + (_over_time(slow, language) if slow else [])


def slow_point(summary: Summary) -> Json | None:
    """Return the point that the report explains, or None if no point was measured.

    If the findings contain ratios, this is the slowest point that a ratio calls slow. Otherwise it
    is the slowest plain point.
    """
    measured = [p for p in plain_points(summary) if p["metrics"]["mib_per_s"]["mean"] is not None]
    ratios = [f for f in summary["findings"] if f["kind"] == "ratio"]
    slow = [f["where"] | {f["evidence"]["over"]: f["evidence"]["slow"]} for f in ratios]
    measured = [p for p in measured if p["factors"] in slow] or measured
    return min(measured, key=lambda p: p["metrics"]["mib_per_s"]["mean"], default=None)


def plain_points(summary: Summary) -> list[Json]:
    """The points with the same factors as the study's first one."""
    points: list[Json] = summary["points"]
    return [p for p in points if p["factors"].keys() == points[0]["factors"].keys()]


def label(summary: Summary, point: Json) -> str:
    """A point's levels in words. Factors that plain points lack are named."""
    plain = summary["points"][0]["factors"]
    return ", ".join(level_text(v) if f in plain else f"{f} {level_text(v)}" for f, v in point["factors"].items())


def published(summary: Summary, point: Json, metric: str = "mib_per_s") -> tuple[Json, Json] | None:
    """The published table that covers a metric of a point, and its row; None if there is none."""
    for reference in summary["references"]:
        if reference["metric"] != metric:
            continue
        for row in reference["rows"]:
            if point["factors"] == reference["where"] | {reference["over"]: row["level"]}:
                return reference, row
    return None


def _bar(summary: Summary, point: Json, language: str, *, share: bool) -> Bar:
    """The bar of a point. `share`: whether its text includes the share of the path."""
    rate, used = point["metrics"]["mib_per_s"], point["metrics"]["path_percent"]["mean"]
    text = f"{with_interval(rate, language)} MiB/s"
    if share and used is not None:
        text = say(language, "figure.bar.share", {"rate": text, "percent": tenths(used, language)})
    reference_row = published(summary, point)
    if reference_row is None:
        return Bar(label(summary, point), rate["mean"], rate["low"], rate["high"], text)
    value = reference_row[1]["published"]
    published_text = say(language, "figure.bar.published", {"rate": number(value, language)})
    return Bar(label(summary, point), rate["mean"], rate["low"], rate["high"], text, value, published_text)


def _patterns(summary: Summary, plain: list[Json], language: str) -> Figure:
    bars, short = ([_bar(summary, p, language, share=s) for p in plain] for s in (True, False))
    titles = [r["title"][language] for r in summary["references"] if r["metric"] == "mib_per_s"]
    caption = note(plain, language, "mib_per_s")
    if titles:
        caption += say(language, "figure.patterns.published", {"title": titles[0]})
    title = say(language, "figure.patterns")

    def draw(size: Size) -> Chart:
        return value_bars(short if size.narrow else bars, "MiB/s", language, size)

    return Figure("patterns", title, caption, draw)


def _jobs(summary: Summary, plain: list[Json], language: str) -> list[Figure]:
    """Rates of jobs and of published VMs, both with the fastest first."""
    bars: list[Bar] = []
    shown: list[Json] = []
    for point in plain:
        for rank in range(1, len(point["metrics"])):
            reference_row = published(summary, point, f"ranked_mib_per_s/{rank}")
            rate = point["metrics"].get(f"ranked_mib_per_s/{rank}")
            if reference_row is None or rate is None:
                break
            published_rate = reference_row[1]["published"]
            published_text = say(language, "figure.bar.published", {"rate": number(published_rate, language)})
            rate_text = f"{with_interval(rate, language)} MiB/s"
            bar_label = say(language, "figure.jobs.rank", {"level": str(reference_row[1]["level"]), "rank": rank})
            bars.append(
                Bar(bar_label, rate["mean"], rate["low"], rate["high"], rate_text, published_rate, published_text)
            )
        shown += [point] if bars and point not in shown else []
    if not bars:
        return []
    title = say(language, "figure.jobs")

    def draw(size: Size) -> Chart:
        return value_bars(bars, "MiB/s", language, size)

    return [Figure("jobs", title, note(shown, language, "mib_per_s"), draw)]


def _map(summary: Summary, index: int, language: str) -> Figure:
    map_ = summary["maps"][index]
    streams = sorted({c["streams"] for c in map_["cells"]})
    buffers = sorted({c["buffer_bytes"] for c in map_["cells"]})
    cells = [
        Cell(
            streams.index(c["streams"]),
            buffers.index(c["buffer_bytes"]),
            c["path_percent"],
            number(c["mib_per_s"], language),
            bool(c["collapsed"]),
        )
        for c in map_["cells"]
    ]
    axes = (say(language, "axis.streams"), say(language, "axis.buffer"))
    columns, rows = [str(s) for s in streams], [format_size(b) for b in buffers]
    title = say(language, "figure.map", {"series": sentences.series(map_["where"], language)})
    by_id = {p["point"]: p for p in summary["points"]}
    caption = note([by_id[c["point"]] for c in map_["cells"]], language, "mib_per_s", "map")
    caption += say(language, "figure.map.framed", {"percent": map_["collapse_percent"]})
    return Figure(f"map_{index + 1}", title, caption, lambda size: charts.heat(cells, columns, rows, axes, size))


def _changes(summary: Summary, language: str) -> list[Figure]:
    """The figure `changes`, of points that are neither plain nor in a map."""
    known = {c["point"] for m in summary["maps"] for c in m["cells"]} | {p["point"] for p in plain_points(summary)}
    others = [p for p in summary["points"] if p["point"] not in known and p["metrics"]["mib_per_s"]["mean"] is not None]
    if not others:
        return []
    bars, short = ([_bar(summary, p, language, share=s) for p in others] for s in (True, False))

    def draw(size: Size) -> Chart:
        return value_bars(short if size.narrow else bars, "MiB/s", language, size)

    return [Figure("changes", say(language, "figure.changes"), note(others, language, "mib_per_s"), draw)]


def _over_time(point: Json, language: str) -> list[Figure]:
    over = point["over_time"]
    shown = [
        ("mib_per_s", "label.rate", "MiB/s", charts.OURS, point["path"]["payload_mib_per_s"], "label.path"),
        ("queue_peak_kib", "label.queue", "KiB", charts.PALETTE[2], _kib(point["path"]["queue_bytes"]), "label.buffer"),
        ("dropped_frames", "label.drops", "", charts.PALETTE[1], None, ""),
        ("timeouts", "label.timeouts", "", charts.PALETTE[4], None, ""),
    ]
    present = [row for row in shown if over.get(row[0])]
    if not present:
        return []
    seconds = over["t_s"]

    def draw(size: Size) -> Chart:
        part = Size(size.width, size.height * 2 // 5, size.labels)
        specs = []
        for i, (name, label_id, unit, colour, limit, limit_label) in enumerate(present):
            points = [(t, v, None, None) for t, v in zip(seconds, over[name], strict=True) if v is not None]
            series = [Line(say(language, label_id), points, colour)]
            if limit:
                ends = [(seconds[0], limit, None, None), (seconds[-1], limit, None, None)]
                series.append(Line(say(language, limit_label), ends, charts.QUIET, (4, 3), "none"))
            last = say(language, "axis.copy_seconds") if i == len(present) - 1 else ""
            axes = Axes(last, unit or say(language, "unit.count"), x_whole=True, y_whole=not unit)
            specs.append(charts.lines(series, axes, part))
        return charts.panels(*specs)

    title = say(language, "figure.copy_over_time", {"series": sentences.series(point["factors"], language)})
    caption = say(language, "figure.note.copy", {"origin": origin_of([point], language)})
    return [Figure("over_time", title, caption, draw)]


def _kib(value: float | None) -> float | None:
    return value / 1024 if value else None
