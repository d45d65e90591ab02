"""What the report shows of a tuning. Its table on the terminal is that of `hakaru tune`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from hakaru.kinds.vms.report import REPORT as VMS
from hakaru.report import tuning
from hakaru.report.figures import Figure
from hakaru.report.kind import ReportKind, Table

Json = dict[str, Any]


class TuningReport(ReportKind):
    """The part of the kind `tuning` that reports use."""

    def table(self, summary: Json) -> Table:
        """As for any load by VMs."""
        return VMS.table(summary)

    def chief_findings(self, summary: Json) -> list[Json]:
        """Best, reach, peer, advice."""
        return [f for f in summary["findings"] if f["kind"] in tuning.CHIEF]

    def tiles(self, summary: Json, language: str) -> list[Json]:
        """Best, default, what could be reached, memory."""
        return tuning.tiles(summary, language)

    def method(self, summary: Json, study: Json, lab: Json, language: str) -> list[str]:
        """As for any load by VMs."""
        return VMS.method(summary, study, lab, language)

    def parts(self, summary: Json, letters: Mapping[str, str], language: str) -> Json:
        """Tables and texts of the tuning."""
        return {"tuned": tuning.parts(summary, language)}

    def figures(self, summary: Json, language: str, series: int = 0) -> list[Figure]:
        """Its course, and what each knob is worth."""
        return tuning.figures(summary, language)

    def point_name(self, point: Json, language: str) -> str:
        """Its id: points differ in a dozen knobs."""
        return str(point["point"])

    def redo(self, summary: Json) -> str:
        """The command as it was given."""
        return shlex.join(map(str, summary["run"]["command"]))


REPORT = TuningReport()
