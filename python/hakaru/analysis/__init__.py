"""Analysis of runs: from counters to findings.

    run directory ── run_data ──> repetitions ── metrics, utilisation, checks ──> points
        points ── sweep ──> curves
        curves ── bottleneck, usl, reference, expectations ──> findings ── summary ──> summary.json

`summarise(run_dir)` is the entry point. Vocabulary: a *metric* is a result of the load, such as a
rate; *utilisation* is the share of a resource that the load used; a *sweep* is a set of points that
differ in one factor; a *caveat* limits what a number means; a *finding* is a sentence with its
evidence. Only `counters` computes rates, and only `estimate` computes intervals.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # kinds import this package while the models of studies are being built
    from hakaru.study import Loaded


def summarise(run_dir: Path, published: Loaded | None = None) -> dict[str, Any]:
    """Analyse a run, write its `summary.json` atomically, and return the content
    (docs/reference/report-json.md). `published`: a study whose published numbers replace those that
    the run recorded.
    """
    from hakaru.analysis.summary import summarise as analyse  # importing scipy takes seconds

    return analyse(run_dir, published)


__all__ = ["summarise"]
