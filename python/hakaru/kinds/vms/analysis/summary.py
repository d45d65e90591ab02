"""From the samples of a load by VMs to its summary: sweeps, references, curves over the distance,
bottlenecks.

The same passes whatever the form of the lab. Where the distance varies, points that stand alone at
their number of VMs are judged one by one.
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import bottleneck, expectations, findings, reference, summary, sweep
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.run_data import RunData
from hakaru.analysis.sweep import Sweep
from hakaru.analysis.utilisation import nics_of_lab
from hakaru.kinds.vms.analysis import curves, points
from hakaru.kinds.vms.analysis import findings as vms_findings
from hakaru.kinds.vms.analysis.curves import Curve
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.rules import STAGES

SWEPT = "vms"
"""The factor that sweeps go over."""


class VmsAnalysis(AnalysisKind):
    """The part of the kind `vms` that analysis uses."""

    @property
    def rules(self) -> Stages:
        """The possible bottlenecks, in order."""
        return STAGES

    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run."""
        nics = nics_of_lab(run.lab)
        analysed = [points.analyse(run, raw, nics) for raw in run.points]
        found_curves = curves.curves_of(analysed)
        sweeps = [s for s in sweep.sweeps_of(list(analysed), SWEPT) if _is_told(s, found_curves)]
        verdicts = [bottleneck.judge_sweep(STAGES, s) for s in sweeps]
        for one, verdict in zip(sweeps, verdicts, strict=True):
            summary.mark_test_setup_limited(one, verdict)
        comparisons = reference.compare(run, sweeps)
        several = len(sweeps) > 1 or bool(found_curves)
        found = [f for s, v in zip(sweeps, verdicts, strict=True) for f in findings.of_sweep(s, v, several)]
        found += vms_findings.of_run(found_curves, _alone(analysed, sweeps), len(analysed) > 1)
        found += [findings.of_comparison(c, several) for c in comparisons if c.metric in summary.COMPARED]
        results = expectations.Results(sweeps, verdicts, comparisons, list(analysed))
        common = summary.of_run(
            run, list(analysed), found, comparisons, results, several or len(analysed) > len(sweeps)
        )
        return common | {
            "sweeps": [summary.describe_sweep(s, v) for s, v in zip(sweeps, verdicts, strict=True)],
            "curves": [c.to_json() for c in found_curves],
        }


def _is_told(one: Sweep, found_curves: list[Curve]) -> bool:
    """Whether a sweep is shown: one of a single level is not, beside curves over the distance."""
    return len(one.points) > 1 or not found_curves


def _alone(analysed: list[VmsPoint], sweeps: list[Sweep]) -> list[VmsPoint]:
    """Points that no sweep tells of."""
    swept = {p.id for s in sweeps for p in s.points}
    return [p for p in analysed if p.id not in swept]


ANALYSIS = VmsAnalysis()
