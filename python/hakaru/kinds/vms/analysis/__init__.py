"""Analysis of loads of VMs: rates and latencies, their distance from closed-form bounds, and the
bottleneck.

    study ── setup ──> bounds
        counters ── metrics, flows, over_time ──> measured values
        points ── rules, curves, sweeps ──> findings ── summary

Vocabulary: a *request* (a block) is sent as one or several *commands*; a *turn* is one round trip
that a command waits for (for an R2T, or for its response); the *payload rate* is the data rate of
the narrowest link without the headers of Ethernet, IP, TCP and iSCSI; the *bound* of a point is the
lowest of its closed forms.
"""

from hakaru.kinds.vms.analysis.summary import ANALYSIS

__all__ = ["ANALYSIS"]
