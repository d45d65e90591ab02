"""Analysis of copies: rates, paths of the frames, and use of time.

    study ── setup ──> conditions of a point
        counters ── metrics, hops, tcp ──> values of a repetition
        points ── rules, maps, neighbours, reference ──> findings ── summary

Vocabulary: a *job* copies one image; a *hop* is one direction of a link that the data passes; the
data passes two *legs* (`read`: source to host, `write`: host to destination); the *path* is the
write leg, and the rate of its *narrowest* hop is the rate of the path; *collapse* means that the
jobs use less than half of the path while frames are dropped.
"""

from hakaru.kinds.copy.analysis.summary import ANALYSIS

__all__ = ["ANALYSIS"]
