"""The rate at which trees are built on new virtual disks, which grow meanwhile. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition

TREES = "trees"
"""Entity of the counters of building."""


def mb_per_s(repetition: Repetition) -> float:
    """Return the bytes of files per second, of all clients together, from their first sample until
    the last file is complete; NaN if no client has two samples of building.

    A disk that grows allocates space for nearly each of these bytes.
    """
    series = _series(repetition)
    ends = [end for each in series if (end := _end_ns(each)) is not None]
    if not ends:
        return math.nan
    begin = min(int(each.at_ns[0]) for each in series)
    return sum(float(each.value[-1] - each.value[0]) for each in series) / 1e6 / ((max(ends) - begin) / 1e9)


def begin_ns(repetition: Repetition) -> int | None:
    """Return the instant of the first sample of building; None if there is none."""
    return min((int(each.at_ns[0]) for each in _series(repetition)), default=None)


def _series(repetition: Repetition) -> Sequence[Series]:
    selected = repetition.counters.select(engine="files", entity=TREES, name="bytes_done")
    return [series for _, series in selected]


def _end_ns(series: Series) -> int | None:
    """The first instant at which a counter has its last value; None if it never grows."""
    place = int(np.searchsorted(series.value, series.value[-1]))
    return int(series.at_ns[place]) if place > 0 else None
