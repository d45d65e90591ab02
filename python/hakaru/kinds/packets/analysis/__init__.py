"""Analysis of searches for the highest rate that a device forwards.

trials of a repetition ── trials ──> rates, losses by place, CPU of each trial
    repetitions ── points ──> estimates, rules ── findings ── summary
"""

from hakaru.kinds.packets.analysis.summary import ANALYSIS

__all__ = ["ANALYSIS"]
