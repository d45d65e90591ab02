"""The first page about noisy neighbours, from the findings about them: tiles, and for each
comparison two figures.

neighbours_p99    99th percentile of the victims alone, beside the aggressors, and with each remedy
neighbours_rate   their rate at the same points
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.report.blocks import Group
from hakaru.report.charts import Bar, Chart, Size
from hakaru.report.figures import Figure, note, value_bars, with_interval
from hakaru.wording import say

Json = dict[str, Any]
SHOWN = (("neighbours_p99", "victim_latency_ms_p99", "ms"), ("neighbours_rate", "victim_iops", "IOPS"))
"""Figure, metric and unit of the figures."""


def findings(summary: Json) -> list[Json]:
    """The findings about neighbours, one per comparison."""
    return [finding for finding in summary["findings"] if finding["kind"] == "neighbours"]


def tiles(summary: Json, language: str) -> list[Json]:
    """The victims' service alone, beside the aggressors and with the remedy that helps most, and
    the bottleneck beside the aggressors; of the first comparison.
    """
    found = findings(summary)
    if not found:
        return []
    evidence = found[0]["evidence"]
    points = evidence["points"]
    alone, beside = points[evidence["alone"]], points[evidence["beside"]]
    shown = [
        _tile(language, "alone", alone, say(language, "tile.neighbours.rate", {"iops": alone["victim_iops"]})),
        _tile(language, "beside", beside, _compared(beside, language)),
    ]
    if (best := points.get(evidence["best"])) is not None:
        remedy = label(evidence, evidence["best"], language)
        shown.append(_tile(language, "best", best, _compared(best, language), remedy))
    elif len(points) > 2 and evidence["increased"]:
        title = say(language, "tile.neighbours.best.none")
        shown.append({"title": title, "value": say(language, "tile.neighbours.none"), "small": ""})
    limiter = say(language, f"limiter.{evidence['limiter']}")
    return [*shown, {"title": say(language, "tile.neighbours.limiter"), "value": limiter, "small": ""}]


def tiles_about(summary: Json, language: str) -> str:
    """The comparison of the tiles, if the run has several."""
    found = findings(summary)
    return sentences.series(found[0]["where"], language) if len(found) > 1 else ""


def groups(summary: Json, language: str) -> list[Group]:
    """The figures of each comparison."""
    return [
        Group(_figures(summary, finding["evidence"], language), sentences.series(finding["where"], language))
        for finding in findings(summary)
    ]


def label(evidence: Json, point: str, language: str) -> str:
    """The levels of a point that vary in its comparison."""
    every = [each["factors"] for each in evidence["points"].values()]
    levels = evidence["points"][point]["factors"]
    varied = {f: level for f, level in levels.items() if len({str(other.get(f)) for other in every}) > 1}
    return sentences.series(varied, language) or point


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
        bars.append(Bar(label(evidence, point["point"], language), value["mean"], value["low"], value["high"], text))

    def draw(size: Size) -> Chart:
        return value_bars(bars, unit, language, size)

    return Figure(name, say(language, f"figure.{name}"), note(points, language, metric), draw)
