"""Copies of disk images from array to array, all jobs started at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hakaru.kind import Kind

if TYPE_CHECKING:
    from hakaru.analysis.kind import AnalysisKind
    from hakaru.report.kind import ReportKind
    from hakaru.run.kind import RunKind
    from hakaru.study.kind import StudyKind


class Copy(Kind):
    """The kind `copy`."""

    name = "copy"

    @property
    def study(self) -> StudyKind:
        """Its part of a study."""
        from hakaru.kinds.copy.study import STUDY

        return STUDY

    @property
    def run(self) -> RunKind:
        """Its part of a run."""
        from hakaru.kinds.copy.run import RUN

        return RUN

    @property
    def analysis(self) -> AnalysisKind:
        """Its part of the analysis."""
        from hakaru.kinds.copy.analysis.summary import ANALYSIS

        return ANALYSIS

    @property
    def report(self) -> ReportKind:
        """Its part of a report."""
        from hakaru.kinds.copy.report import REPORT

        return REPORT


KIND = Copy()
