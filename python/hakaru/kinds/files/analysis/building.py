"""The time in which trees are built on new virtual disks: the rate at which the disks grow, and the
use of the pools below them until the end of the load. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition

TREES = "trees"
"""Entity of the counters of building."""
SHOWN_MAX = 200
"""Instants of a repetition's use of the pools at most."""


def mb_per_s(repetition: Repetition) -> float:
    """Return the bytes of files per second, of all clients together, from their first sample until
    the last file is complete; NaN if no client has two samples of building.

    A disk that grows allocates space for nearly each of these bytes.
    """
    series = _series(repetition, "files", TREES, "bytes_done")
    ends = [end for each in series if (end := _end_ns(each)) is not None]
    if not ends:
        return math.nan
    begin = min(int(each.at_ns[0]) for each in series)
    return sum(float(each.value[-1] - each.value[0]) for each in series) / 1e6 / ((max(ends) - begin) / 1e9)


def pool_use(repetition: Repetition) -> dict[str, list[float]] | None:
    """Return `seconds` since building has begun, and `bytes` in use in all pools together at these
    instants, ascending, until the end of the load. None without a pool, or without samples.
    """
    trees = _series(repetition, "files", TREES, "bytes_done")
    pools = _series(repetition, "array", "pool/", "used_bytes_now")
    if not trees or not pools:
        return None
    begin, end = min(int(each.at_ns[0]) for each in trees), repetition.window[1]
    instants = [int(at) for at in pools[0].at_ns if begin <= at <= end]
    if not instants:
        return None
    places = np.unique(np.linspace(0, len(instants) - 1, SHOWN_MAX).round().astype(int))
    shown = [instants[place] for place in places]
    return {
        "seconds": [(at - begin) / 1e9 for at in shown],
        "bytes": [sum(pool.at(at) for pool in pools) for at in shown],
    }


def _series(repetition: Repetition, engine: str, entity: str, name: str) -> Sequence[Series]:
    return [series for _, series in repetition.counters.select(engine=engine, entity=entity, name=name)]


def _end_ns(series: Series) -> int | None:
    """The first instant at which a counter has its last value; None if it never grows."""
    place = int(np.searchsorted(series.value, series.value[-1]))
    return int(series.at_ns[place]) if place > 0 else None
