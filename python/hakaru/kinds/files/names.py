"""Names of the metrics of a point, and their units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hakaru.engine.contract import UserOperation
from hakaru.kinds.files.events import disk_sizes, grows
from hakaru.kinds.files.load import FilesLoad

ENTITY = "files"
"""Entity of the counters and histograms of all tools."""
SWEPT = "tools"
"""The factor that sweeps go over."""
RATE = "files_per_s"
"""The chief result of a point: files that were copied, steps of the metadata profile, or operations
of users.
"""

WALK = ("lookup",)
LISTING = ("list",)
COPY = ("open", "read", "write", "flush", "close")
METADATA = ("create", "stat", "rename", "delete")
WHOLE = ("file_read", "file_write", "step")
SHARED = (*WALK, *LISTING, *COPY, *METADATA)
"""Operations that share the time of a tool."""
DELAY = "delay"
"""Time by which operations of users begin late, although their user is free."""
ACHIEVED = "achieved_percent"
"""Rate of users in percent of the requested one."""
OF_USERS: Mapping[UserOperation, tuple[str, ...]] = {
    "list": LISTING,
    "stat": ("stat",),
    "open": ("open", "close"),
    "read": ("open", "read", "close"),
    "write": ("open", "write", "flush", "close"),
    "create": ("create", "delete"),
    "rename": ("create", "rename", "delete"),
    "delete": ("create", "delete"),
}
"""Operation of a user → the operations of which it consists. Created files are deleted."""
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
BUILD = "build_mb_per_s"
"""Rate at which the trees of a chain were built, on disks that are new."""
RUN = "pool_run_kib"
"""Mean length of the runs of pages in the pool at the end of the load: short if fragmented."""
GROWTH = {
    "pool_growth_ms": "ms",
    "pool_mib_before_growth": "MiB",
    "pool_mib_after_growth": "MiB",
    "pool_used_percent_before_growth": "percent",
    "pool_used_percent_after_growth": "percent",
    f"{RATE}_before_growth": "1/s",
    f"{RATE}_during_growth": "1/s",
    f"{RATE}_after_growth": "1/s",
}
"""Metrics of loads with events in which the pool grows."""
EXTENSION = {
    "extension_ms": "ms",
    "extension_held_ms": "ms",
    f"{RATE}_before_extension": "1/s",
    f"{RATE}_during_extension": "1/s",
    f"{RATE}_after_extension": "1/s",
}
"""Metrics of loads with events in which the disk is extended."""
LU = {
    "lu_reads_per_s": "1/s",
    "lu_writes_per_s": "1/s",
    "lu_read_mb_per_s": "MB/s",
    "lu_write_mb_per_s": "MB/s",
    "lu_write_to_read": "",
}
"""Metrics of the LU below a chain; the last one is the bytes written for each byte read."""
RETURNED = "trim_returned_percent"
"""Bytes that TRIM of all layers returned to the pool after the files were deleted, in percent of
these files.
"""
BELOW_DISK = {
    "lu_reads_per_disk_read": "",
    "lu_writes_per_disk_write": "",
    "lu_read_bytes_per_disk_byte": "",
    "lu_written_bytes_per_disk_byte": "",
}
"""Metrics of the LU below a chain for each access of its virtual disk, and for each of its bytes:
from the first file that is built until everything of the load was written back.
"""
MISALIGNED = "misaligned_percent"
"""Data of the virtual disk whose place in the image does not match sectors of 4 KiB."""
GAUGES = {
    "drive_busy_percent": "percent",
    "commands_per_drive": "",
    "write_pending_percent": "percent",
    "write_waits_percent": "percent",
    "controller_busy_percent": "percent",
}
"""Metrics of its array, if that has a timing model: gauges of the rule book."""
PEAKS = {"drive_busy_percent_max": "percent", "commands_per_drive_max": ""}
"""The highest of them between two samples of a drive, whose interval `sample_interval` may set."""
CACHE = {"read_from_drives_percent": "percent", "cache_hit_percent": "percent"}
"""Metrics of its cache: bytes that its drives delivered, of those that tools read; reads that the
cache served without having read ahead.
"""
HEADROOM = {"headroom_low": "", "headroom_high": ""}
"""Factors by which the load could grow until the drives are as busy as the rule book allows, by its
lower and its upper limit.
"""
GUEST = {
    "guest_percent": "percent",
    "guest_available_mib": "MiB",
    "guest_disk_response_ms": "ms",
    "guest_disk_queue": "",
    "guest_disk_busy_percent": "percent",
}
"""Metrics of the guest of a chain, as its own kernel counts them; of several disks or guests, the
worst value.
"""
COUNTERS = {
    "files_read_per_s": ("files_read",),
    "files_written_per_s": ("files_written",),
    RATE: ("files_read", "files_written", "steps"),
}
"""Metric → counters of the tools that are added up."""


def operations(load: FilesLoad) -> tuple[str, ...]:
    """Operations of a load, in the order in which they occur."""
    if load.users is not None:
        occurring = {name for operation in load.users.weights for name in OF_USERS[operation]} | {*WALK}
        return tuple(name for name in SHARED if name in occurring and (name != "flush" or load.flush))
    if load.profile == "metadata":
        return (*WALK, *METADATA)
    return (*WALK, *(name for name in COPY if name != "flush" or load.flush))


def wholes(load: FilesLoad) -> tuple[str, ...]:
    """Things that consist of several operations."""
    if load.users is not None:
        kinds = {"read": "file_read", "write": "file_write"}
        occurring = {kinds.get(operation, "step") for operation in load.users.weights}
        return tuple(name for name in WHOLE if name in occurring)
    return ("step",) if load.profile == "metadata" else ("file_read", "file_write")


def timed(load: FilesLoad) -> tuple[str, ...]:
    """Everything that has a time of its own."""
    return (*operations(load), *wholes(load), *((DELAY,) if load.users is not None else ()))


def latency(operation: str, percentile: str) -> str:
    """Name of a percentile of the time of an operation."""
    return f"{operation}_ms_{percentile}"


def share(operation: str) -> str:
    """Name of the share of the tools' time that an operation takes."""
    return f"{operation}_time_percent"


def metrics_of(load: FilesLoad) -> dict[str, str]:
    """Metrics of a study's points → unit."""
    latencies = {latency(name, percentile): "ms" for name in timed(load) for percentile in PERCENTILES}
    if load.users is not None:
        latencies[ACHIEVED] = "percent"
    below: dict[str, str] = {}
    if load.to.chain is not None:
        below = {BUILD: "MB/s", RUN: "KiB", RETURNED: "percent", MISALIGNED: "percent"}
        below |= LU | BELOW_DISK | GAUGES | PEAKS | CACHE | HEADROOM | GUEST
    below |= GROWTH if grows(load.events) else {}
    below |= EXTENSION if disk_sizes(load.events) else {}
    return RATES | FAIRNESS | below | latencies | {share(name): "percent" for name in operations(load)}


def metrics_of_parts(parts: Iterable[str]) -> dict[str, str]:
    """Metrics of file servers and clients, by their nodes → unit."""
    return {f"{metric}/{part}": RATES[metric] for part in parts for metric in PART_RATES}
