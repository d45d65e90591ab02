"""Copies: from their counters to where the frames and the time went.

    study ── setup ──> conditions of a point
        counters ── metrics, hops, tcp ──> numbers of a repetition
        points ── rules, maps, neighbours, reference ──> findings ── summary

Vocabulary: a *job* copies one image; a *hop* is one direction of a link on the data's way, which
has two *legs* (`read`: source to host, `write`: host to destination); the *path* is the write leg,
its *narrowest* hop the one whose rate is the path's; *collapse* is a path used to less than half.
"""

from hakaru.kinds.copy.analysis.summary import ANALYSIS

__all__ = ["ANALYSIS"]
