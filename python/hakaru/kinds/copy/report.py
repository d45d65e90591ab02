"""What the terminal and the report show of copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.report import backup, backup_figures
from hakaru.report.figures import Figure
from hakaru.report.kind import ReportKind, Table
from hakaru.wording import number, percent

Json = dict[str, Any]
COLUMNS = ("MB/s", "±", "path", "last s", "dropped", "resent %", "timeouts")


class CopyReport(ReportKind):
    """The part of the kind `copy` that reports use."""

    def table(self, summary: Json) -> Table:
        """Rate, share of the path, losses."""
        return Table(COLUMNS, [_cells(point) for point in summary["points"]])

    def chief_findings(self, summary: Json) -> list[Json]:
        """About the slow point and those that another path limits."""
        return backup.chief_findings(summary)

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """The slow copy beside the fast one."""
        return backup.tiles(summary, language)

    def method(self, summary: Json, study: Json, lab: Json, language: str) -> list[str]:
        """The copy and its path."""
        return backup.method(study, lab, language)

    def parts(self, summary: Json, letters: Mapping[str, str], language: str) -> Json:
        """Tables of points and of hops."""
        return {"copies": backup.parts(summary, dict(letters), language)}

    def figures(self, summary: Json, language: str, series: int = 0) -> list[Figure]:
        """Bars, courses, maps."""
        return backup_figures.of_run(summary, language)


def _cells(point: Json) -> list[str]:
    metrics = point["metrics"]
    rate = metrics.get("mb_per_s") or {}
    half = None if rate.get("high") is None else (rate["high"] - rate["low"]) / 2
    shown = ("last_done_s", "dropped_frames", "retransmitted_percent", "timeouts")
    return [
        number(rate.get("mean")),
        number(half),
        percent((metrics.get("path_percent") or {}).get("mean")),
        *(number((metrics.get(name) or {}).get("mean")) for name in shown),
    ]


REPORT = CopyReport()
