"""Analysis of loads on files.

repetitions ── points ──> estimates, rules ── findings, sweeps over the number of tools ── summary
"""

from hakaru.kinds.files.analysis.summary import ANALYSIS

__all__ = ["ANALYSIS"]
