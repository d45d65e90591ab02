"""Figures of a load by VMs, with captions that name the origin and n of the numbers.

throughput   IOPS and MB/s over the swept factor, with intervals and the published curve
latency      mean and percentiles of the response time, with the published mean
utilisation  each resource over the swept factor (bars if there is only one level)
distribution response time by percentile at the first, the best and the last level
over_time    rate and response time over one repetition of the best point
"""

from __future__ import annotations

import math

from hakaru.analysis import sentences
from hakaru.report import charts, goals
from hakaru.report.charts import Axes, Bar, Chart, Line, Size
from hakaru.report.figures import Figure, note
from hakaru.report.sweep import Summary, Sweep, factor_title
from hakaru.wording import say

MIB_IN_MB = (1 << 20) / 1e6
RESOURCES_MAX = 7


def of_sweep(summary: Summary, index: int, language: str) -> list[Figure]:
    """All figures of one sweep; none if nothing was measured."""
    sweep = Sweep(summary, index)
    if not sweep.measured:
        return []
    builders = [_throughput, _latency, _utilisation, _distribution, _over_time]
    if len(sweep.measured) == 1:
        builders = [_utilisation, _distribution, _over_time]
    figures_by_builder = [build(sweep, language) for build in builders]
    return [f for group in figures_by_builder for f in group]


def _axes(sweep: Sweep, language: str, y: str) -> Axes:
    rows = [row["level"] for r in sweep.references for row in r["rows"]]
    ticks = sorted({sweep.level(p) for p in sweep.points} | {float(level) for level in rows})
    return Axes(x=factor_title(sweep.over, language), y=y, x_ticks=ticks)


def _throughput(sweep: Sweep, language: str) -> list[Figure]:
    figures = []
    for metric, unit, published, factor in (
        ("iops", say(language, "unit.iops"), "iops", 1.0),
        ("mb_per_s", "MB/s", "mib_per_s", MIB_IN_MB),
    ):
        published_line = sweep.published(metric) or sweep.published(published, factor)
        series = [Line(say(language, "label.ours"), sweep.line(metric))]
        if published_line:
            title = sweep.reference_title(language)
            series.append(Line(title, published_line, charts.THEIRS, (6, 3), "square", hollow=True))
        series = [*goals.lines(sweep.goal, {metric: sweep.line(metric)}, language), *series]
        figures.append(_figure(sweep, language, metric, series, unit))
    return figures[:1] if _is_one_curve(sweep) else figures


def _is_one_curve(sweep: Sweep) -> bool:
    """Whether MB/s and IOPS have the same curve, because all requests are of one size."""
    sizes = [
        p["metrics"]["mb_per_s"]["mean"] / p["metrics"]["iops"]["mean"]
        for p in sweep.measured
        if p["metrics"]["iops"]["mean"] and p["metrics"]["mb_per_s"]["mean"]
    ]
    return bool(sizes) and max(sizes) <= 1.005 * min(sizes)


def _figure(sweep: Sweep, language: str, name: str, series: list[Line], unit: str) -> Figure:
    axes = _axes(sweep, language, unit)
    title = say(language, f"figure.{name}")
    return Figure(name, title, note(sweep.measured, language, "iops"), lambda size: charts.lines(series, axes, size))


def _latency(sweep: Sweep, language: str) -> list[Figure]:
    shown = (("latency_ms_mean", "mean", 0), ("latency_ms_p50", "p50", 2), ("latency_ms_p99", "p99", 1))
    series = []
    for metric, label, style in shown:
        series.append(Line(say(language, f"label.{label}"), sweep.line(metric), *charts.look(style)))
    limited = [limit["metric"] for limit in (sweep.goal or {"limits": ()})["limits"] if "latency_ms" in limit["metric"]]
    for style, metric in enumerate((m for m in limited if m not in (name for name, _, _ in shown)), 3):
        series.append(Line(sentences.metric(language, metric), sweep.line(metric), *charts.look(style)))
    series = [*goals.lines(sweep.goal, {m: sweep.line(m) for m in limited}, language), *series]
    published_line = sweep.published("latency_ms_mean")
    if published_line:
        label = say(language, "label.published_mean", {"title": sweep.reference_title(language)})
        series.append(Line(label, published_line, charts.THEIRS, (6, 3), "square", hollow=True))
    return [_figure(sweep, language, "latency", series, "ms")]


def resources(sweep: Sweep) -> list[str]:
    """Resources to draw, the fullest first: at most seven, without sums, and only the two busiest
    links.
    """
    fullest: dict[str, float] = {}
    for point in sweep.measured:
        for name, use in point["utilisation"].items():
            if use["mean"] is not None and not name.startswith(("drives_average", "group/")):
                fullest[name] = max(fullest.get(name, 0.0), use["mean"])
    links = sorted((n for n in fullest if n.startswith("link/")), key=lambda n: -fullest[n])
    shown = [n for n in fullest if not n.startswith("link/")] + links[:2]
    return sorted(shown, key=lambda n: -fullest[n])[:RESOURCES_MAX]


def _utilisation(sweep: Sweep, language: str) -> list[Figure]:
    names = resources(sweep)
    if not names:
        return []
    title = say(language, "figure.utilisation")
    if len(sweep.measured) == 1:
        use = sweep.measured[0]["utilisation"]
        percents = sorted(((float(use[n]["mean"]), n) for n in names if n in use), reverse=True)
        rows = [Bar(sentences.resource(language, n), p, None, None, f"{p:.0f} %") for p, n in percents]
        axis, caption = say(language, "unit.percent"), note(sweep.measured, language, "iops", "use")
        most = max(100.0, *(p for p, _ in percents))
        return [Figure("utilisation", title, caption, lambda size: charts.bars(rows, axis, size, most))]
    series = []
    for i, name in enumerate(names):
        used = [(sweep.level(p), p["utilisation"].get(name, {}).get("mean")) for p in sweep.measured]
        points = [(x, y, None, None) for x, y in used if y is not None]
        series.append(Line(sentences.resource(language, name), points, *charts.look(i)))
    top = max(100.0, max(p[1] for s in series for p in s.points))
    ticks = sorted({sweep.level(p) for p in sweep.points})
    titles = (factor_title(sweep.over, language), say(language, "unit.percent"))
    axes = Axes(*titles, ticks, y_max=104.0 if top <= 104 else top * 1.05)
    spec = lambda size: charts.lines(series, axes, size)  # noqa: E731
    return [Figure("utilisation", title, note(sweep.measured, language, "iops", "use"), spec)]


NINES = {0.5: "50 %", 0.9: "90 %", 0.99: "99 %", 0.999: "99.9 %", 0.9999: "99.99 %"}


def _nines(percent: float) -> float:
    return round(-math.log10(1 - min(percent, 99.995) / 100), 4)


def _distribution(sweep: Sweep, language: str) -> list[Figure]:
    chosen = [sweep.measured[0], sweep.peak, sweep.measured[-1]]
    distinct = list({p["point"]: p for p in chosen if p is not None}.values())
    series = []
    for i, point in enumerate(distinct):
        rows = [(_nines(p), ms, None, None) for p, ms in point["distribution"]["all"] if 10 <= p <= 99.99 and ms > 0]
        series.append(Line(sentences.level(language, sweep.over, sweep.level(point)), rows, *charts.look(i)))
    if not any(s.points for s in series):
        return []
    ticks = {_nines(100 * share): label for share, label in NINES.items()}
    axes = Axes(say(language, "axis.percentile"), "ms", list(ticks), y_log=True, x_labels=ticks)
    title = say(language, "figure.distribution")
    spec = lambda size: charts.lines(series, axes, size)  # noqa: E731
    return [Figure("distribution", title, note(sweep.measured, language, "iops", "merged"), spec)]


def _over_time(sweep: Sweep, language: str) -> list[Figure]:
    point = sweep.peak or sweep.measured[0]
    over = point["over_time"]
    if not over:
        return []

    def points(name: str) -> list[tuple[float, float, float | None, float | None]]:
        return [(t, v, None, None) for t, v in zip(over["t_s"], over[name], strict=True) if v is not None]

    rate = [Line(say(language, "unit.iops"), points("iops"))]
    latency = [
        Line(say(language, "label.mean"), points("latency_ms_mean"), charts.PALETTE[0]),
        Line(say(language, "label.p99"), points("latency_ms_p99"), charts.PALETTE[1], charts.DASHES[1], "square"),
    ]
    axis = say(language, "axis.seconds")

    def draw(size: Size) -> Chart:
        half = Size(size.width, size.height * 5 // 9, size.labels)
        upper = charts.lines(rate, Axes("", say(language, "unit.iops"), x_whole=True), half)
        return charts.panels(upper, charts.lines(latency, Axes(axis, "ms", x_whole=True), half))

    level = sentences.level(language, sweep.over, sweep.level(point))
    title = say(language, "figure.over_time", {"level": level})
    return [Figure("over_time", title, note(sweep.measured, language, "iops", "one"), draw)]
