"""Analysis of copies into their summary. Points are judged one by one, and heat maps replace
sweeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import expectations, reference, summary
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.points import Point
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.run_data import RunData
from hakaru.kinds.copy.analysis import findings as copy_findings
from hakaru.kinds.copy.analysis import maps, points
from hakaru.kinds.copy.rules import STAGES


class CopyAnalysis(AnalysisKind):
    """The part of the kind `copy` that analysis uses."""

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
        heat_maps = maps.maps_of(analysed)
        several = len(analysed) > 1
        all_findings = copy_findings.of_run(run.study, analysed, heat_maps, compared.tables) if analysed else []
        all_findings += summary.findings_of(compared, several)
        results = expectations.Results([], [], compared, list(analysed))
        common = summary.of_run(run, list(analysed), all_findings, compared, results, several)
        return common | {"sweeps": [], "maps": [m.to_json() for m in heat_maps]}


ANALYSIS = CopyAnalysis()
