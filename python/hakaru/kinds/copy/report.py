"""The report of copies: table for the terminal, figures, tables, method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.kinds.copy import figures, parts, tables
from hakaru.lab.plan import LabPlan
from hakaru.report import hops
from hakaru.report.blocks import Group, Section, Table
from hakaru.report.kind import ReportKind, TerminalTable
from hakaru.study import Study
from hakaru.wording import number, percent, say

Json = dict[str, Any]
COLUMNS = ("MiB/s", "±", "path", "sum", "fastest/slowest", "Jain", "last s", "dropped", "resent %", "timeouts")


class CopyReport(ReportKind):
    """The part of the kind `copy` that reports use."""

    def table(self, summary: Json) -> TerminalTable:
        """Rate by wall clock, share of the path, sum of the jobs' own rates, fairness, losses."""
        return TerminalTable(COLUMNS, [_cells(point) for point in summary["points"]])

    def chief_findings(self, summary: Json) -> list[Json]:
        """Findings about the slow point, and about a point on a different path."""
        return parts.chief_findings(summary)

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The slow copy compared with the fast one."""
        return parts.tiles(summary, language)

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """The copy and its path."""
        return parts.method(study, plan, language)

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """Bars, heat maps, and the slow copy over time."""
        return [Group(figures.of_run(summary, language))]

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """Tables of points and of VMs."""
        return tables.of_run(summary, letters, language)

    def about_tables(self, summary: Json, language: str) -> str:
        """Meaning of the columns."""
        return say(language, "table.copies")

    def sections(self, summary: Json, language: str) -> list[Section]:
        """Hop tables of the plain points."""
        plain = figures.plain_points(summary)
        return hops.section([(figures.label(summary, point), point) for point in plain], language)


def _cells(point: Json) -> list[str]:
    metrics = point["metrics"]
    rate = metrics.get("mib_per_s") or {}
    half = None if rate.get("high") is None else (rate["high"] - rate["low"]) / 2
    shown = (
        "sum_mib_per_s",
        "fastest_to_slowest",
        "jain_index",
        "last_done_s",
        "dropped_frames",
        "retransmitted_percent",
        "timeouts",
    )
    return [
        number(rate.get("mean")),
        number(half),
        percent((metrics.get("path_percent") or {}).get("mean")),
        *(number((metrics.get(name) or {}).get("mean")) for name in shown),
    ]


REPORT = CopyReport()
