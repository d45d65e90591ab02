"""From counters to findings.

    run directory ── run_data ──> repetitions ── metrics, utilisation, checks ──> points
        points ── sweep ──> curves
        curves ── limiter, usl, reference, expectations ──> findings ── summary ──> summary.json

`summarise(run_dir)` is all that others call. Vocabulary: a *metric* is what VMs achieved,
*utilisation* how much of a resource that took, a *sweep* the points that differ in one factor, a
*caveat* what may be wrong with a number, a *finding* a sentence with its evidence. Rates are
computed in `counters` alone, intervals in `estimate` alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def summarise(run_dir: Path) -> dict[str, Any]:
    """Analyse a run, write its `summary.json` atomically and give what was written
    (docs/reference/report-json.md).
    """
    from hakaru.analysis.summary import summarise as do  # scipy takes seconds to import; only those who analyse wait

    return do(run_dir)


__all__ = ["summarise"]
