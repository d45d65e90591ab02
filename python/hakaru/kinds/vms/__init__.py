"""VMs that load arrays: points are loads by one pattern and a number of VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hakaru.kind import Kind

if TYPE_CHECKING:
    from hakaru.analysis.kind import AnalysisKind
    from hakaru.report.kind import ReportKind
    from hakaru.run.kind import RunKind
    from hakaru.study.kind import StudyKind
    from hakaru.tune.kind import TuneKind


class Vms(Kind):
    """The kind `vms`."""

    name = "vms"

    @property
    def study(self) -> StudyKind:
        """Its part of a study."""
        from hakaru.kinds.vms.study import STUDY

        return STUDY

    @property
    def run(self) -> RunKind:
        """Its part of a run."""
        from hakaru.kinds.vms.run import RUN

        return RUN

    @property
    def analysis(self) -> AnalysisKind:
        """Its part of the analysis."""
        from hakaru.kinds.vms.analysis.summary import ANALYSIS

        return ANALYSIS

    @property
    def tune(self) -> TuneKind:
        """Its part of a tuning."""
        from hakaru.kinds.vms.tune import TUNE

        return TUNE

    @property
    def report(self) -> ReportKind:
        """Its part of a report."""
        from hakaru.kinds.vms.report import REPORT

        return REPORT


KIND = Vms()
