"""Metrics of the layer below a chain: its LU, and the drives and cache of the array. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hakaru.analysis import rule_book
from hakaru.analysis.counters import Series, common_window
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import busy_series
from hakaru.kinds.files import names

DISK = "disk/"
"""Devices of gauges that a host sees, and not the array."""


def of_repetition(repetition: Repetition) -> dict[str, float]:
    """Return the rates of the LU and their ratio, the gauges of the array's devices, and the
    headroom of its drives; NaN without counters.
    """
    rates = {
        name: repetition.counters.total_rate(repetition.window, engine="array", entity="lu/", name=name)
        for name in ("reads", "writes", "read_bytes", "write_bytes")
    }
    found = {
        "lu_reads_per_s": rates["reads"],
        "lu_writes_per_s": rates["writes"],
        "lu_read_mb_per_s": rates["read_bytes"] / 1e6,
        "lu_write_mb_per_s": rates["write_bytes"] / 1e6,
        "lu_write_to_read": rates["write_bytes"] / rates["read_bytes"] if rates["read_bytes"] > 0 else math.nan,
    }
    found |= dict.fromkeys(names.GAUGES, math.nan)
    for gauge, by_device in rule_book.of_repetition(repetition.counters, repetition.window).items():
        of_array = [value for device, value in by_device.items() if not device.startswith(DISK)]
        if gauge in names.GAUGES and of_array:
            found[gauge] = max(of_array)
    return found | peaks(repetition) | cache(repetition) | headroom(found["drive_busy_percent"])


def peaks(repetition: Repetition) -> dict[str, float]:
    """Return the highest use of a drive, and the highest number of commands at one, between two
    samples of it; NaN without modelled drives.
    """

    def highest(selected: Iterable[Series]) -> float:
        rates = [series.highest_rate(*repetition.window) for series in selected]
        return max((rate for rate in rates if math.isfinite(rate)), default=math.nan)

    busy = busy_series(repetition.counters, "drive/").values()
    queues = repetition.counters.select(engine="array", entity="drive/", name="queue_ns")
    return {
        "drive_busy_percent_max": highest(series for parts in busy for series in parts) / 1e7,
        "commands_per_drive_max": highest(series for _, series in queues) / 1e9,
    }


def cache(repetition: Repetition) -> dict[str, float]:
    """Return the metrics of the array's cache; NaN without a modelled cache, or without reads."""
    counted = (("array", "group/"), ("files", names.ENTITY))
    reads = [repetition.counters.select(engine=engine, entity=entity, name="read_bytes") for engine, entity in counted]
    window = common_window(repetition.window, [series for each in reads for _, series in each])

    def rate(entity: str, name: str, engine: str = "array") -> float:
        return repetition.counters.total_rate(window, engine=engine, entity=entity, name=name)

    hits, misses, ahead = (rate("cache", name) for name in ("read_hits", "read_misses", "readahead_hits"))
    tools = rate(names.ENTITY, "read_bytes", "files")
    return {
        "read_from_drives_percent": 100.0 * rate("group/", "read_bytes") / tools
        if hits + misses > 0 < tools
        else math.nan,
        "cache_hit_percent": 100.0 * (hits - ahead) / (hits + misses) if hits + misses > 0 else math.nan,
    }


def headroom(busy_percent: float) -> dict[str, float]:
    """Return how often the load would fit by each limit of the rule of busy drives; NaN if the
    drives are too idle to say.
    """
    rule = next(rule for rule in rule_book.BOOK if rule.rule == "drive_busy")
    found = rule.headroom_at(busy_percent) or (math.nan, math.nan)
    return dict(zip(names.HEADROOM, found, strict=True))
