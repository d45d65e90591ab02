"""Metrics of the guests in which the chains of file servers are: of several guests or disks, the
worst value. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hakaru.analysis import rule_book
from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import guest_percent
from hakaru.kinds.files.analysis.below import DISK


def of_repetition(repetition: Repetition) -> dict[str, float]:
    """Return use of the CPUs, the least memory available, and response time, queue length and busy
    time of the disks, by the counters of the guests' kernels; NaN without counters.
    """
    counters, window = repetition.counters, repetition.window

    def rates(name: str) -> Iterable[float]:
        selected = counters.select(engine="watch", entity=DISK, name=name)
        return (series.rate(*window) for key, series in selected if key.node in counters.guests)

    memory = counters.select(engine="watch", entity="machine", name="mem_available_bytes_now")
    least = [_least(series, window) for key, series in memory if key.node in counters.guests]
    response = rule_book.of_repetition(counters, window).get("response_ms", {})
    return {
        "guest_percent": _highest(guest_percent(counters, window, node) for node in counters.guests),
        "guest_available_mib": min(filter(math.isfinite, least), default=math.nan) / (1 << 20),
        "guest_disk_response_ms": _highest(
            ms for disk, ms in response.items() if disk.startswith(DISK) and disk.rpartition("/")[2] in counters.guests
        ),
        "guest_disk_queue": _highest(rates("queue_ns")) / 1e9,
        "guest_disk_busy_percent": _highest(rates("busy_ns")) / 1e7,
    }


def _highest(values: Iterable[float]) -> float:
    return max((value for value in values if math.isfinite(value)), default=math.nan)


def _least(series: Series, window: tuple[int, int]) -> float:
    inside = series.value[(series.at_ns >= window[0]) & (series.at_ns <= window[1])]
    return float(inside.min()) if len(inside) else math.nan
