"""The write cache of an array's timing model: its fill level, and the time that writes waited for
space.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hakaru.analysis.rules.evidence import Cache
from hakaru.analysis.run_data import Repetition


def of_repetition(repetition: Repetition) -> list[Cache]:
    """One element per array with a modelled cache that received writes, the longest wait first."""
    counters, (start, end) = repetition.counters, repetition.window
    caches = []
    for node in counters.nodes("array"):
        series = {n: counters.get(node, "array", "cache", n) for n in ("stall_ns", "queue_ns", "writes")}
        stalled, spent, writes = (s.increase(start, end) if s else 0.0 for s in series.values())
        pending, limit = (
            counters.get(node, "array", "cache", f"write_pending_{name}_now") for name in ("bytes", "limit_bytes")
        )
        if pending is None or limit is None or writes <= 0 or spent <= 0:
            continue
        inside = (pending.at_ns >= start) & (pending.at_ns <= end)
        limit_bytes = float(limit.value[-1])
        filled = 100 * float(np.mean(pending.value[inside])) / limit_bytes if inside.any() and limit_bytes > 0 else 0.0
        caches.append(Cache(filled, min(100.0, 100 * stalled / spent)))
    return sorted(caches, key=lambda cache: -cache.stalled_percent)


def mean(caches: Sequence[Cache]) -> Cache | None:
    """Mean over repetitions, with one cache per repetition; None for an empty list."""
    if not caches:
        return None
    pending = float(np.mean([cache.pending_percent for cache in caches]))
    return Cache(pending, float(np.mean([cache.stalled_percent for cache in caches])))
