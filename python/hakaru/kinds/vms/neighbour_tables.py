"""The tables of points whose VMs have roles: the service of victims and aggressors; the caps and
the parts of the array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hakaru.report import common
from hakaru.report.blocks import Column, Table
from hakaru.wording import number, say

Json = dict[str, Any]
SERVICE = (
    "victim_iops",
    "victim_latency_ms_mean",
    "victim_latency_ms_p50",
    "victim_latency_ms_p99",
    "victim_latency_ms_p999",
    "aggressor_iops",
    "aggressor_mb_per_s",
    "aggressor_latency_ms_mean",
)
ARRAY = (
    "cap_iops",
    "cap_mb_per_s",
    "cap_delayed_percent",
    "cap_wait_ms_mean",
    "port_ms_mean",
    "controller_ms_mean",
    "cache_ms_mean",
    "drives_ms_mean",
    "pool_mb_per_s",
)
"""Metrics of each table, in order. Those without any value are left out."""
WITH_INTERVAL = ("victim_iops", "victim_latency_ms_p99")


def has_roles(summary: Json) -> bool:
    """Whether the VMs of the run have roles."""
    return any("victim_iops" in point["metrics"] for point in summary["points"])


def of_run(
    summary: Json, letters: Mapping[str, str], name_of: Callable[[Json, str], str], language: str
) -> list[Table]:
    """The tables, if the VMs of the run have roles. `name_of`: the name of a point in a language.
    They are two, because one would be wider than a page of paper.
    """
    points = [point for point in summary["points"] if "victim_iops" in point["metrics"]]
    tables = []
    for title, names in (("table.neighbours", SERVICE), ("table.neighbours.array", ARRAY)):
        shown = [name for name in names if any(point["metrics"][name]["mean"] is not None for point in points)]
        if shown:
            tables.append(_table(points, say(language, title), shown, letters, name_of, language))
    return tables


def _table(
    points: Sequence[Json],
    title: str,
    shown: Sequence[str],
    letters: Mapping[str, str],
    name_of: Callable[[Json, str], str],
    language: str,
) -> Table:
    columns = [Column(say(language, "table.neighbours.point"), "level", header=True)]
    columns += [Column(say(language, f"table.{name}")) for name in shown]
    rows = []
    for point in points:
        metrics = point["metrics"]
        cells = [
            common.with_interval(metrics[name], language)
            if name in WITH_INTERVAL
            else number(metrics[name]["mean"], language)
            for name in shown
        ]
        rows.append(common.row(point, [name_of(point, language), *cells], letters, ""))
    return Table(title, columns, rows, caveats=True)
