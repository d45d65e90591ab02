"""Accesses of the LU below a chain for each access of its virtual disk, and bytes for each byte.
Pure.

The virtual disk is `nbd0` of the guest, as the guest's kernel counts it; the LU is that of the
array, as the array counts it. Caches are between them, so both are counted until everything was
written back after the load. That also counts the building of the files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from hakaru.analysis.counters import Series
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.files import names

LEAST_BYTES = 1 << 20
"""Bytes of the disk below which there is no ratio: a cache has served nearly everything."""
# The partitions of a disk count its accesses again.
_DISK = re.compile(r"disk/nbd\d+")
_COUNTERS = ("reads", "writes", "read_bytes", "write_bytes")


def of_repetition(repetition: Repetition) -> dict[str, float]:
    """Return the metrics of `names.BELOW_DISK`, and the share of misaligned data; of several file
    servers together. NaN for what was not counted.
    """
    counted = [_counted(repetition, node, record) for node, record in repetition.chains.items()]
    return {names.MISALIGNED: _misaligned(repetition), **ratios([each for each in counted if each])}


def ratios(counted: list[dict[str, tuple[float, float]]]) -> dict[str, float]:
    """Return the metrics of chains, each with counter → growth at the disk and at the LU."""
    totals = {
        name: (sum(each[name][0] for each in counted), sum(each[name][1] for each in counted)) for name in _COUNTERS
    }
    found = {}
    for metric, name in zip(names.BELOW_DISK, _COUNTERS, strict=True):
        moved = totals["read_bytes" if name.startswith("read") else "write_bytes"][0]
        disk, lu = totals[name]
        found[metric] = lu / disk if moved >= LEAST_BYTES and disk else math.nan
    return found


def _counted(repetition: Repetition, node: str, record: Mapping[str, Any]) -> dict[str, tuple[float, float]] | None:
    """Counter → its growth at the disk and at the LU of one chain; None without counters."""
    if "written_back_ns" not in record:
        return None
    found = {}
    for name in _COUNTERS:
        disks = [
            series
            for key, series in repetition.counters.select(engine="watch", entity="disk/", name=name, node=node)
            if _DISK.fullmatch(key.entity)
        ]
        selected = repetition.counters.select(engine="array", entity="lu/", name=name, node=record["array"])
        lus = [series for _, series in selected]
        if not disks or not lus:
            return None
        begin = max(int(series.at_ns[0]) for series in (*disks[:1], *lus))
        span = (begin, int(record["written_back_ns"]))
        found[name] = (_growth(disks, span), _growth(lus, span))
    return found


def _growth(series: list[Series], span: tuple[int, int]) -> float:
    return sum(each.increase(*span) for each in series)


def _misaligned(repetition: Repetition) -> float:
    """Percent of the data of all virtual disks after the load; NaN if an image has no map."""
    loaded = [record["stages"]["loaded"] for record in repetition.chains.values()]
    parts = [(layers.get("misaligned_bytes"), layers.get("image_data_bytes")) for layers in loaded]
    known = [(part, whole) for part, whole in parts if part is not None and whole]
    if not known or len(known) < len(parts):
        return math.nan
    return float(100.0 * sum(part for part, _ in known) / sum(whole for _, whole in known))
