"""Analysis of a load by VMs into its summary: sweeps, references, curves over the distance,
bottlenecks.

The steps are the same for every form of lab. If the distance varies, points that are the only ones
at their number of VMs are judged one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import bottleneck, expectations, findings, goals, reference, summary, sweep
from hakaru.analysis.kind import AnalysisKind
from hakaru.analysis.points import Point
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.run_data import RunData
from hakaru.analysis.sweep import Sweep
from hakaru.kinds.vms.analysis import curves, failovers, initiators, neighbours, paths, points
from hakaru.kinds.vms.analysis import findings as vms_findings
from hakaru.kinds.vms.analysis.curves import Curve
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.rules import STAGES

SWEPT = "vms"
"""The factor that sweeps go over, unless a search goes over another one."""
LOADS = (SWEPT, "queue_depth", "rate_per_s")
"""Factors with which the load grows."""


class VmsAnalysis(AnalysisKind):
    """The part of the kind `vms` that analysis uses."""

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
        points.attach_streams(analysed)
        distance_curves = curves.curves_of(analysed)
        streamless = [p for p in analysed if not p.setup.is_stream]
        all_sweeps = sweep.sweeps_of(
            list(streamless),
            run.searches[0].over if run.searches else SWEPT,
            is_searched=bool(run.searches),
            sweeps_lone=not distance_curves,
        )
        sweeps = [s for s in all_sweeps if _is_shown(s, distance_curves) and not paths.is_secondary(s, all_sweeps)]
        over_paths = [paths.is_compared(s, streamless) for s in sweeps]
        verdicts = [
            bottleneck.judge_sweep(STAGES, s) if s.is_searched or s.over in LOADS else bottleneck.judge_peak(s)
            for s in sweeps
        ]
        # The run judged its levels point by point, before a sweep could show what limits them.
        answers = goals.answers_of(run, analysed)
        for sweep_, verdict in zip(sweeps, verdicts, strict=True):
            summary.mark_test_setup_limited(sweep_, verdict)
        compared = reference.compare(run, list(analysed))
        several = len(sweeps) > 1 or bool(distance_curves)
        all_findings = failovers.of_run(streamless) + neighbours.of_run(streamless)
        all_findings += initiators.of_run(run, streamless)
        for sweep_, verdict, of_paths in zip(sweeps, verdicts, over_paths, strict=True):
            if not of_paths:
                all_findings += findings.of_sweep(sweep_, verdict, several, grows=sweep_.over in LOADS)
        all_findings += paths.of_run(streamless)
        load_curves = [c for c in distance_curves if not c.is_stream]
        all_findings += vms_findings.of_run(load_curves, _unswept(analysed, sweeps), len(analysed) > 1)
        all_findings += summary.findings_of(compared, several)
        results = expectations.Results(sweeps, verdicts, compared, list(analysed))
        common = summary.of_run(
            run, list(analysed), all_findings, compared, results, several or len(analysed) > len(sweeps), answers
        )
        return common | {
            "sweeps": [summary.describe_sweep(s, v) for s, v in zip(sweeps, verdicts, strict=True)],
            "curves": [c.to_json() for c in distance_curves],
        }


def _is_shown(candidate: Sweep, distance_curves: list[Curve]) -> bool:
    """Whether a sweep is reported. A sweep of a single level is not if there are curves over the
    distance.
    """
    return len(candidate.points) > 1 or not distance_curves


def _unswept(analysed: list[VmsPoint], sweeps: list[Sweep]) -> list[VmsPoint]:
    """Points in no sweep and in no comparison of paths or neighbours."""
    swept = {p.id for s in sweeps for p in s.points} | paths.compared(analysed) | neighbours.compared(analysed)
    return [p for p in analysed if p.id not in swept]


ANALYSIS = VmsAnalysis()
