"""Names of the metrics of a point, and their units."""

from __future__ import annotations

from collections.abc import Iterable

from hakaru.kinds.files.load import FilesLoad

ENTITY = "files"
"""Entity of the counters and histograms of all tools."""
SWEPT = "tools"
"""The factor that sweeps go over."""
RATE = "files_per_s"
"""The chief result of a point: files that were copied, or steps of the metadata profile."""

WALK = ("lookup",)
COPY = ("open", "read", "write", "flush", "close")
METADATA = ("create", "stat", "rename", "delete")
WHOLE = ("file_read", "file_write", "step")
SHARED = (*WALK, *COPY, *METADATA)
"""Operations that share the time of a tool."""
PERCENTILES = {"p50": 50.0, "p99": 99.0}

RATES = {
    RATE: "1/s",
    "files_read_per_s": "1/s",
    "files_written_per_s": "1/s",
    "mb_per_s": "MB/s",
    "read_mb_per_s": "MB/s",
    "write_mb_per_s": "MB/s",
    "operations_per_s": "1/s",
    "load_s": "s",
    "machine_percent": "percent",
    "read_below_percent": "percent",
}
FAIRNESS = {"server_fastest_to_slowest": "", "server_jain_index": ""}
"""Metrics of points with several file servers."""
PART_RATES = (RATE, "mb_per_s")
"""Metrics that each file server and each client has too: `files_per_s/fs-1`."""
LU = {
    "lu_reads_per_s": "1/s",
    "lu_writes_per_s": "1/s",
    "lu_read_mb_per_s": "MB/s",
    "lu_write_mb_per_s": "MB/s",
}
"""Metrics of the LU below a chain."""
GAUGES = {
    "drive_busy_percent": "percent",
    "commands_per_drive": "",
    "write_pending_percent": "percent",
    "write_waits_percent": "percent",
    "controller_busy_percent": "percent",
}
"""Metrics of its array, if that has a timing model: gauges of the rule book."""
CACHE = {"read_from_drives_percent": "percent", "cache_hit_percent": "percent"}
"""Metrics of its cache: bytes that its drives delivered, of those that tools read; reads that the
cache served without having read ahead.
"""
HEADROOM = {"headroom_low": "", "headroom_high": ""}
"""Factors by which the load could grow until the drives are as busy as the rule book allows, by its
lower and its upper limit.
"""
COUNTERS = {
    "files_read_per_s": ("files_read",),
    "files_written_per_s": ("files_written",),
    RATE: ("files_read", "files_written", "steps"),
}
"""Metric → counters of the tools that are added up."""


def operations(load: FilesLoad) -> tuple[str, ...]:
    """Operations of a load, in the order in which they occur."""
    if load.profile == "metadata":
        return (*WALK, *METADATA)
    return (*WALK, *(name for name in COPY if name != "flush" or load.flush))


def wholes(load: FilesLoad) -> tuple[str, ...]:
    """Things that consist of several operations."""
    return ("step",) if load.profile == "metadata" else ("file_read", "file_write")


def latency(operation: str, percentile: str) -> str:
    """Name of a percentile of the time of an operation."""
    return f"{operation}_ms_{percentile}"


def share(operation: str) -> str:
    """Name of the share of the tools' time that an operation takes."""
    return f"{operation}_time_percent"


def metrics_of(load: FilesLoad) -> dict[str, str]:
    """Metrics of a study's points → unit."""
    timed = (*operations(load), *wholes(load))
    latencies = {latency(name, percentile): "ms" for name in timed for percentile in PERCENTILES}
    below = LU | GAUGES | CACHE | HEADROOM if load.to.chain is not None else {}
    return RATES | FAIRNESS | below | latencies | {share(name): "percent" for name in operations(load)}


def metrics_of_parts(parts: Iterable[str]) -> dict[str, str]:
    """Metrics of file servers and clients, by their nodes → unit."""
    return {f"{metric}/{part}": RATES[metric] for part in parts for metric in PART_RATES}
