"""Analysis of a run of searches into its summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import expectations, reference, summary
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.points import Point
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.run_data import RunData
from hakaru.kinds.packets.analysis import findings, points
from hakaru.kinds.packets.rules import STAGES


class PacketsAnalysis(AnalysisKind):
    """The part of the kind `packets` that analysis uses."""

    @property
    def rules(self) -> Stages:
        """The possible bottlenecks, in order."""
        return STAGES

    def point(self, run: RunData, raw: Mapping[str, Any]) -> Point:
        """One point of a run."""
        return points.analyse(run, raw)

    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run."""
        analysed = [points.analyse(run, raw) for raw in run.points]
        compared = reference.compare(run, list(analysed))
        several = len(analysed) > 1
        found = [*findings.of_run(analysed), *summary.findings_of(compared, several)]
        results = expectations.Results([], [], compared, list(analysed))
        return summary.of_run(run, list(analysed), found, compared, results, several) | {"sweeps": []}


ANALYSIS = PacketsAnalysis()
