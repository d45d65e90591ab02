"""Loads of VMs: rates and latencies, how far a load stays from closed-form bounds, and its
bottleneck.

    study ── setup ── bounds ──> what is possible
        counters ── metrics, flows, over_time ──> what was measured
        points ── rules, curves, sweeps ──> findings ── summary

Vocabulary: a *request* (a block) goes as one *command* or several; a *turn* is one round trip that
a command waits for (for an R2T, or for its response); *payload rate* is what the narrowest link
carries of data, less the headers of Ethernet, IP, TCP and iSCSI; the *bound* of a point is the
lowest of its closed forms.
"""

from hakaru.kinds.vms.analysis.summary import ANALYSIS

__all__ = ["ANALYSIS"]
