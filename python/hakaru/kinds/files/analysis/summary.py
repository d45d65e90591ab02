"""Analysis of a run of loads on files into its summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import expectations, reference, summary
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.points import Point
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.run_data import RunData
from hakaru.analysis.sweep import sweeps_of
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis import differences, findings, misalignment, points
from hakaru.kinds.files.rules import STAGES


class FilesAnalysis(AnalysisKind):
    """The part of the kind `files` that analysis uses."""

    @property
    def rules(self) -> Stages:
        """The possible bottlenecks, in order."""
        return STAGES

    def point(self, run: RunData, raw: Mapping[str, Any]) -> Point:
        """One point of a run."""
        return points.analyse(run, raw)

    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run."""
        measured = [points.analyse(run, raw) for raw in run.points]
        analysed: list[Point] = [*measured]
        sweeps = [
            sweep
            for sweep in sweeps_of(analysed, names.SWEPT, is_searched=bool(run.searches))
            if sweep.over == names.SWEPT and len(sweep.points) > 1
        ]
        compared = reference.compare(run, analysed)
        several = len(analysed) > 1
        found = [*differences.findings(measured, several), *misalignment.findings(measured, several)]
        found += findings.of_servers(measured, several)
        found += [*findings.of_spaces(measured, several), *findings.of_growths(measured, several)]
        found += findings.of_extensions(measured, several)
        found += [*findings.of_run(measured, sweeps), *summary.findings_of(compared, several)]
        results = expectations.Results([], [], compared, analysed)
        return summary.of_run(run, analysed, found, compared, results, several) | {"sweeps": []}


ANALYSIS = FilesAnalysis()
