"""The write cache of an array's model: how full it was, and how long writes waited for room in
it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hakaru.analysis.rules.evidence import Cache
from hakaru.analysis.run_data import Repetition


def of_repetition(repetition: Repetition) -> list[Cache]:
    """One element per array with a modelled cache that took writes, the longest wait first."""
    counters, (start, end) = repetition.counters, repetition.window
    caches = []
    for node in counters.nodes("array"):
        series = {n: counters.get(node, "array", "cache", n) for n in ("stall_ns", "queue_ns", "writes")}
        stalled, present, writes = (s.increase(start, end) if s else 0.0 for s in series.values())
        pending, limit = (
            counters.get(node, "array", "cache", f"write_pending_{name}_now") for name in ("bytes", "limit_bytes")
        )
        if pending is None or limit is None or writes <= 0 or present <= 0:
            continue
        inside = (pending.at_ns >= start) & (pending.at_ns <= end)
        most = float(limit.value[-1])
        filled = 100 * float(np.mean(pending.value[inside])) / most if inside.any() and most > 0 else 0.0
        caches.append(Cache(filled, min(100.0, 100 * stalled / present)))
    return sorted(caches, key=lambda cache: -cache.stalled_percent)


def mean(caches: Sequence[Cache]) -> Cache | None:
    """Over repetitions, of the array that waited longest in each."""
    if not caches:
        return None
    pending = float(np.mean([cache.pending_percent for cache in caches]))
    return Cache(pending, float(np.mean([cache.stalled_percent for cache in caches])))
