"""The report of a tuning. Its table on the terminal is that of `hakaru tune`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.kinds.tuning import parts
from hakaru.kinds.vms.report import REPORT as VMS
from hakaru.lab.plan import LabPlan
from hakaru.report.blocks import Group, Section, Table
from hakaru.report.kind import ReportKind, TerminalTable
from hakaru.study import Study

Json = dict[str, Any]


class TuningReport(ReportKind):
    """The part of the kind `tuning` that reports use."""

    def table(self, summary: Json) -> TerminalTable:
        """As for any load by VMs."""
        return VMS.table(summary)

    def chief_findings(self, summary: Json) -> list[Json]:
        """Findings about the best setting, the reachable rate, the peer and the advice."""
        return [f for f in summary["findings"] if f["kind"] in parts.CHIEF]

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """Best rate, default rate, reachable rate, memory."""
        return parts.tiles(summary, language)

    def method(self, summary: Json, study: Study, plan: LabPlan | None, language: str) -> list[str]:
        """As for any load by VMs."""
        return VMS.method(summary, study, plan, language)

    def groups(self, summary: Json, study: Study, language: str) -> list[Group]:
        """Figures of the course of the search, and of the loss when each setting is reverted."""
        return [Group(parts.figures(summary, language))]

    def tables(self, summary: Json, letters: Mapping[str, str], language: str) -> list[Table]:
        """Conditions, settings and trials."""
        return parts.tables(summary, language)

    def sections(self, summary: Json, language: str) -> list[Section]:
        """Settings to apply."""
        return parts.sections(summary, language)

    def point_name(self, point: Json, language: str) -> str:
        """The id of the point, because points differ in many knobs."""
        return str(point["point"])

    def point_names(self, points: Sequence[Json], language: str) -> list[str]:
        """The ids of the points."""
        return [self.point_name(point, language) for point in points]

    def redo(self, run: Json) -> str:
        """The command that started the tuning."""
        return shlex.join(map(str, run["command"]))


REPORT = TuningReport()
