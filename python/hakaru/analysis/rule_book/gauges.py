"""Values that rules of thumb look at, from the counters of one repetition.

    response_ms              mean time of a request, with its time in the queue, ms
    queue_per_drive          mean number of requests at a RAID group or guest's disk, per drive
    drive_busy_percent       mean busy time of a RAID group's drives, %
    commands_per_drive       mean number of commands at the drive with the most (tags)
    write_waits_percent      writes that waited for space in the array's cache, %
    write_pending_percent    mean fill of the cache, % of its write-pending limit
    controller_busy_percent  busy time of the array's controller, %

Devices are named as resources (`hakaru.analysis.utilisation`): `group/0`, `cache`, and
`disk/sda/NODE`. The array's counters have all of them. A host's disks have only the response time
and the busy time, because the drives behind them cannot be counted from the host. A guest's disks
are LUs or virtual, so they have no busy time of drives. They have the queue if all drives of the
lab are in one group, which is then behind them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np

from hakaru.analysis.counters import Counters, Series
from hakaru.analysis.utilisation import arrays, busy_percent

Gauge = Literal[
    "response_ms",
    "queue_per_drive",
    "drive_busy_percent",
    "commands_per_drive",
    "write_waits_percent",
    "write_pending_percent",
    "controller_busy_percent",
]
UNITS: Mapping[Gauge, str] = {
    "response_ms": "ms",
    "queue_per_drive": "requests",
    "drive_busy_percent": "percent",
    "commands_per_drive": "commands",
    "write_waits_percent": "percent",
    "write_pending_percent": "percent",
    "controller_busy_percent": "percent",
}
GaugeValues = Mapping[Gauge, Mapping[str, float]]
"""Gauge → device → value."""

Window = tuple[int, int]
_Found = Iterator[tuple[Gauge, str, float]]


def of_repetition(counters: Counters, window: Window) -> GaugeValues:
    """The gauges of one repetition, without those that have no counters. `window`: its measuring
    phase, nanoseconds.
    """
    values: dict[Gauge, dict[str, float]] = {}
    for found in (_groups(counters, window), _caches(counters, window), _disks(counters, window)):
        for gauge, device, value in found:
            if math.isfinite(value):
                values.setdefault(gauge, {})[device] = value
    return values


def _rates(counters: Counters, window: Window, node: str, entity: str, name: str) -> dict[str, float]:
    selected = counters.select(engine="array", node=node, entity=entity, name=name)
    return {key.entity: series.rate(*window) for key, series in selected}


def _groups(counters: Counters, window: Window) -> _Found:
    for node, suffix, prefix in arrays(counters):
        present = {e: rate / 1e9 for e, rate in _rates(counters, window, node, "drive/", "queue_ns").items()}
        busy = busy_percent(counters, window, node, "drive/")
        waiting = _rates(counters, window, node, "group/", "queue_ns")
        served = _rates(counters, window, node, "group/", "ops")
        for entity, queue_ns in sorted(waiting.items()):
            number = entity.removeprefix("group/")
            drives = [drive for drive in present if drive.startswith(f"drive/{number}.")]
            device = f"group/{prefix}{number}"
            if served.get(entity, 0.0) > 0:
                yield "response_ms", device, queue_ns / served[entity] / 1e6
            if drives:
                yield "queue_per_drive", device, queue_ns / 1e9 / len(drives)
                yield "drive_busy_percent", device, sum(busy[drive] for drive in drives) / len(drives)
                yield "commands_per_drive", device, max(present[drive] for drive in drives)
        for percent in busy_percent(counters, window, node, "controller").values():
            yield "controller_busy_percent", f"controller{suffix}", percent


def _caches(counters: Counters, window: Window) -> _Found:
    start, end = window
    for node, suffix, _ in arrays(counters):
        series = {name: counters.get(node, "array", "cache", name) for name in ("stalls", "writes")}
        stalls, writes = (each.increase(start, end) if each else math.nan for each in series.values())
        if writes > 0:
            # A write counts as waiting when it arrives, and as a write when it ends.
            yield "write_waits_percent", f"cache{suffix}", min(100.0, 100.0 * stalls / writes)
        pending, limit = (
            counters.get(node, "array", "cache", f"write_pending_{name}_now") for name in ("bytes", "limit_bytes")
        )
        if pending is not None and limit is not None and limit.value[-1] > 0:
            yield "write_pending_percent", f"cache{suffix}", 100.0 * _mean(pending, window) / float(limit.value[-1])


def _mean(series: Series, window: Window) -> float:
    inside = (series.at_ns >= window[0]) & (series.at_ns <= window[1])
    return float(np.mean(series.value[inside])) if inside.any() else math.nan


def _disks(counters: Counters, window: Window) -> _Found:
    drives = _drives_of_single_group(counters)
    for key, busy in counters.select(engine="watch", entity="disk/", name="busy_ns"):
        queue = counters.get(key.node, "watch", key.entity, "queue_ns")
        if key.node not in counters.guests:
            yield "drive_busy_percent", f"{key.entity}/{key.node}", busy.rate(*window) / 1e7
        elif queue is not None and drives > 0:
            yield "queue_per_drive", f"{key.entity}/{key.node}", queue.rate(*window) / 1e9 / drives
        completed, waited = 0.0, 0.0
        for operation in ("read", "write"):
            count = counters.get(key.node, "watch", key.entity, f"{operation}s")
            total = counters.get(key.node, "watch", key.entity, f"{operation}_latency_ns_sum")
            if count is not None and total is not None:
                completed += count.increase(*window)
                waited += total.increase(*window)
        if completed > 0:
            yield "response_ms", f"{key.entity}/{key.node}", waited / completed / 1e6


def _drives_of_single_group(counters: Counters) -> int:
    """Number of drives of the only RAID group; 0 if there are several groups, or none."""
    drives = {(key.node, key.entity) for key in counters.keys(engine="array") if key.entity.startswith("drive/")}
    groups = {(node, entity.partition(".")[0]) for node, entity in drives}
    return len(drives) if len(groups) == 1 else 0
