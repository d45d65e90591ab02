"""From the samples of a load by VMs to its summary."""

from __future__ import annotations

from typing import Any

from hakaru.analysis import expectations, findings, limiter, points, reference, summary, sweep
from hakaru.analysis.distance import curves
from hakaru.analysis.distance import findings as distance_findings
from hakaru.analysis.distance import points as distance_points
from hakaru.analysis.distance.setup import is_distance
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.run_data import RunData
from hakaru.analysis.utilisation import nics_of_lab


class VmsAnalysis(AnalysisKind):
    """The part of the kind `vms` that analysis uses."""

    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run."""
        return _linked(run) if is_distance(run.study) else _star(run)


def _star(run: RunData) -> dict[str, Any]:
    nics = nics_of_lab(run.lab)
    analysed = [points.analyse(run, raw, nics) for raw in run.points]
    sweeps = sweep.sweeps_of(analysed)
    verdicts = [limiter.judge(s) for s in sweeps]
    for one, verdict in zip(sweeps, verdicts, strict=True):
        summary.mark_tester_limited(one, verdict)
    comparisons = reference.compare(run.study, sweeps)
    several = len(sweeps) > 1
    found = [f for s, v in zip(sweeps, verdicts, strict=True) for f in findings.of_sweep(s, v, several)]
    found += [findings.of_comparison(c, several) for c in comparisons if c.metric in summary.COMPARED]
    results = expectations.Results(sweeps, verdicts, comparisons, analysed)
    common = summary.of_run(run, analysed, found, comparisons, results, several)
    return common | {"sweeps": [summary.describe_sweep(s, v) for s, v in zip(sweeps, verdicts, strict=True)]}


def _linked(run: RunData) -> dict[str, Any]:
    """A load over a lab that is described link by link: points are judged one by one."""
    nics = nics_of_lab(run.lab)
    analysed = [distance_points.analyse(run, raw, nics) for raw in run.points]
    found_curves = curves.curves_of(analysed)
    found = distance_findings.of_run(analysed, found_curves)
    results = expectations.Results([], [], [], list(analysed))
    common = summary.of_run(run, list(analysed), found, [], results, len(analysed) > 1)
    return common | {"sweeps": [], "curves": [c.to_json() for c in found_curves]}


ANALYSIS = VmsAnalysis()
