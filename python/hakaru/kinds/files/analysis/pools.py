"""Pools below the trees: their use and their fragmentation over time, and their growth during the
load. Pure.

A run is a number of pages of a volume that follow one another in their RAID group, in the order of
the volume. The shorter the runs are in the mean, the more fragmented is the pool. All pools of a
point count together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.files import names
from hakaru.kinds.files.analysis import building, changes
from hakaru.kinds.files.events import EXTEND, GROW

SHOWN_MAX = 200
"""Instants of a repetition's use of the pools at most."""
OverTime = Mapping[str, Sequence[float | None]]


def over_time(repetition: Repetition) -> OverTime | None:
    """Return `seconds` since building has begun, ascending, until the end of the load, and for each
    of these instants `bytes` in use in all pools, their `capacity_bytes`, and the mean length of
    their runs, `run_bytes`. `growth_s` has the seconds at which a pool grew, `extension_s` those at
    which a disk was extended. None without a pool, or without samples.
    """
    begin, pools = building.begin_ns(repetition), _gauges(repetition, "used_bytes_now")
    if begin is None or not pools:
        return None
    instants = [int(at) for at in pools[0].at_ns if begin <= at <= repetition.window[1]]
    if not instants:
        return None
    places = np.unique(np.linspace(0, len(instants) - 1, SHOWN_MAX).round().astype(int))
    shown = [instants[place] for place in places]
    capacities = _gauges(repetition, "capacity_bytes_now")
    return {
        "seconds": [(at - begin) / 1e9 for at in shown],
        "bytes": [_total(pools, at) for at in shown],
        "capacity_bytes": [_total(capacities, at) if capacities else None for at in shown],
        "run_bytes": [length if math.isfinite(length := run_bytes(repetition, at)) else None for at in shown],
        "growth_s": [(int(event["begun_ns"]) - begin) / 1e9 for event in changes.of(repetition, GROW)],
        "extension_s": [(int(event["begun_ns"]) - begin) / 1e9 for event in changes.of(repetition, EXTEND)],
    }


def run_bytes(repetition: Repetition, instant_ns: int) -> float:
    """Return the mean length of the runs at an instant; NaN if there are none."""
    mapped, runs = (_total(_gauges(repetition, name), instant_ns) for name in ("mapped_bytes_now", "runs_now"))
    return mapped / runs if runs else math.nan


def growth(repetition: Repetition) -> dict[str, float]:
    """Return the metrics of the growth of pools; NaN without one.

    The time is that of the longest order to an array. `during` lasts from the first order to a
    second after the last one.
    """
    events = changes.of(repetition, GROW)
    if not events:
        return dict.fromkeys(names.GROWTH, math.nan)
    begun, done = changes.span(events)
    used, capacity = (_gauges(repetition, f"{name}_bytes_now") for name in ("used", "capacity"))
    capacities = _total(capacity, begun), _total_after(capacity, done)
    percents = [
        100 * size / room if room else math.nan
        for size, room in zip((_total(used, begun), _total_after(used, done)), capacities, strict=True)
    ]
    values = [
        changes.longest_ms(events),
        *(room / (1 << 20) for room in capacities),
        *percents,
        *changes.rates_around(repetition, events),
    ]
    return dict(zip(names.GROWTH, values, strict=True))


def _gauges(repetition: Repetition, name: str) -> list[Series]:
    return [series for _, series in repetition.counters.select(engine="array", entity="pool/", name=name)]


def _total(gauges: Sequence[Series], instant_ns: int) -> float:
    """Sum of the last values up to an instant, or of the first ones."""
    return sum(
        float(each.value[max(0, int(np.searchsorted(each.at_ns, instant_ns, side="right")) - 1)]) for each in gauges
    )


def _total_after(gauges: Sequence[Series], instant_ns: int) -> float:
    """Sum of the first values from an instant on, or of the last ones."""
    return sum(
        float(each.value[min(len(each.at_ns) - 1, int(np.searchsorted(each.at_ns, instant_ns)))]) for each in gauges
    )
