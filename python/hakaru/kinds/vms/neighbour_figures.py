"""The first page about noisy neighbours, from the findings about them: tiles, a figure of all
comparisons if there are several, and for each comparison two figures.

neighbour_cases   99th percentile of the victims at each point of each comparison
neighbours_p99    99th percentile of the victims alone, beside the aggressors, and with each remedy
neighbours_rate   their rate at the same points
"""

from __future__ import annotations

import math
from typing import Any

from hakaru.analysis import sentences
from hakaru.kinds.vms import neighbour_matrix
from hakaru.kinds.vms.analysis import neighbour_cases
from hakaru.report import charts
from hakaru.report.blocks import Group
from hakaru.report.charts import Bar, Cell, Chart, Size
from hakaru.report.figures import Figure, note, value_bars, with_interval
from hakaru.wording import number, say

Json = dict[str, Any]
SHOWN = (("neighbours_p99", "victim_latency_ms_p99", "ms"), ("neighbours_rate", "victim_iops", "IOPS"))
"""Figure, metric and unit of the figures."""


def findings(summary: Json) -> list[Json]:
    """The findings about neighbours, one per comparison."""
    return [finding for finding in summary["findings"] if finding["kind"] == "neighbours"]


def tiles(summary: Json, language: str) -> list[Json]:
    """The victims' service alone, beside the aggressors and with the remedy that helps most, and
    the bottleneck beside the aggressors. Of several comparisons, the cost and the bottleneck in
    each, and the remedies that help in all of them.
    """
    found = findings(summary)
    if not found:
        return []
    if (cases := neighbour_matrix.cases(summary)) is not None:
        return _tiles_of_cases(cases, language)
    evidence = found[0]["evidence"]
    points = evidence["points"]
    alone, beside = points[evidence["alone"]], points[evidence["beside"]]
    shown = [
        _tile(language, "alone", alone, say(language, "tile.neighbours.rate", {"iops": alone["victim_iops"]})),
        _tile(language, "beside", beside, _compared(beside, language)),
    ]
    if (best := points.get(evidence["best"])) is not None:
        remedy = neighbour_matrix.label(evidence, evidence["best"], language)
        shown.append(_tile(language, "best", best, _compared(best, language), remedy))
    elif len(points) > 2 and evidence["increased"]:
        title = say(language, "tile.neighbours.best.none")
        shown.append({"title": title, "value": say(language, "tile.neighbours.none"), "small": ""})
    limiter = say(language, f"limiter.{evidence['limiter']}")
    return [*shown, {"title": say(language, "tile.neighbours.limiter"), "value": limiter, "small": ""}]


def groups(summary: Json, language: str) -> list[Group]:
    """The figure of all comparisons, and the figures of each."""
    about_all = neighbour_matrix.cases(summary)
    first = [] if about_all is None else [Group([_matrix(summary, language)])]
    each = [
        Group(_figures(summary, finding["evidence"], language), sentences.series(finding["where"], language))
        for finding in findings(summary)
    ]
    return first + each


def _tiles_of_cases(cases: Json, language: str) -> list[Json]:
    shown = []
    for case in cases["cases"]:
        name, rate = sentences.series(case["where"], language), case["rate_ratio"]["mean"]
        limiter = say(language, f"limiter.{case['limiter']}")
        values = {"percent": None if rate is None else 100 * rate, "limiter": limiter}
        shown.append(
            {
                "title": say(language, "tile.neighbours.case", {"case": name}),
                "value": say(language, "tile.neighbours.case.value", {"times": case["p99_ratio"]["mean"]}),
                "small": say(language, "tile.neighbours.case.small", values),
            }
        )
    title = say(language, "tile.neighbours.everywhere")
    if not cases["everywhere"]:
        return [*shown, {"title": title, "value": say(language, "tile.neighbours.everywhere.none"), "small": ""}]
    remedies = [remedy for case in cases["cases"] for remedy in case["remedies"]]
    kept = [r["aggressor_ratio"]["mean"] for r in remedies if r["label"] in cases["everywhere"]]
    shares = [100 * share for share in kept if share is not None]
    left = {"left": neighbour_cases.span(language, shares)}
    small = say(language, "tile.neighbours.everywhere.small", left) if shares else ""
    value = say(language, "list.separator").join(cases["everywhere"])
    return [*shown, {"title": title, "value": value, "small": small}]


def _matrix(summary: Json, language: str) -> Figure:
    """The heat map of all comparisons: the darker, the longer."""
    matrix = neighbour_matrix.matrix(summary, "p99_ratio", language)
    known = [each["mean"] for each in matrix.values.values() if each["mean"] is not None]
    most = max(known, default=1.0)

    def shade(ratio: float | None) -> float | None:
        """Logarithm of the ratio, in percent of that of the largest one."""
        if ratio is None:
            return None
        return 100 * math.log(max(ratio, 1.0)) / math.log(most) if most > 1 else 0.0

    cells = [
        Cell(column, len(matrix.rows) - 1 - row, shade(each["mean"]), number(each["mean"], language), False)
        for (row, column), each in matrix.values.items()
    ]
    points = [point for point in summary["points"] if "victim_iops" in point["metrics"]]

    def draw(size: Size) -> Chart:
        return charts.heat(cells, matrix.columns, matrix.rows[::-1], matrix.axes, size)

    title = say(language, "figure.neighbour_cases")
    return Figure("neighbour_cases", title, note(points, language, "victim_latency_ms_p99"), draw)


def _tile(language: str, name: str, point: Json, small: str, remedy: str = "") -> Json:
    value = say(language, "tile.neighbours.value", {"ms": point["victim_latency_ms_p99"]})
    return {"title": say(language, f"tile.neighbours.{name}", {"label": remedy}), "value": value, "small": small}


def _compared(point: Json, language: str) -> str:
    """The service at a point as a multiple of that alone, and the rate."""
    values = {"times": point["p99_ratio"]["mean"], "iops": point["victim_iops"]}
    return say(language, "tile.neighbours.compared", values)


def _figures(summary: Json, evidence: Json, language: str) -> list[Figure]:
    points = [point for point in summary["points"] if point["point"] in evidence["points"]]
    # The points to compare with come first; the remedies follow in the order of the study.
    order = [evidence["alone"], evidence["beside"]]
    points.sort(key=lambda point: order.index(point["point"]) if point["point"] in order else len(order))
    return [_figure(points, evidence, name, metric, unit, language) for name, metric, unit in SHOWN]


def _figure(points: list[Json], evidence: Json, name: str, metric: str, unit: str, language: str) -> Figure:
    bars = []
    for point in points:
        value = point["metrics"][metric]
        text = f"{with_interval(value, language)} {unit}"
        label = neighbour_matrix.label(evidence, point["point"], language)
        bars.append(Bar(label, value["mean"], value["low"], value["high"], text))

    def draw(size: Size) -> Chart:
        return value_bars(bars, unit, language, size)

    return Figure(name, say(language, f"figure.{name}"), note(points, language, metric), draw)
