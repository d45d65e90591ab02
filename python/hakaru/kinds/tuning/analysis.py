"""Analysis of the trials of a tuning into its summary, with the course of the search and the advice
instead of sweeps.
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import expectations, summary
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.reference import NOTHING
from hakaru.analysis.run_data import RunData
from hakaru.tune import summary as tuning


class TuningAnalysis(AnalysisKind):
    """The part of the kind `tuning` that analysis uses."""

    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run."""
        analysed, findings, described, valid = tuning.analyse(run)
        results = expectations.Results([], [], NOTHING, analysed)
        common = summary.of_run(run, analysed, findings, NOTHING, results, False)
        return common | {"sweeps": [], "tuning": described, "valid": valid}


ANALYSIS = TuningAnalysis()
