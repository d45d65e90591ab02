"""Whether higher or lower values of a metric are better, by the words of its name. Pure.

better("read_latency_ms_p99")   "lower"
better("iops")                  "higher"
better("outstanding_mean")      None
"""

from __future__ import annotations

from typing import Literal

NEITHER = {
    *("tester_frames_per_s", "baseline_gbit_per_s"),
    *("lost_percent", "lu_read_mb_per_s", "lu_write_mb_per_s", "pool_mb_per_s"),
}
"""Rates of the test setup, not of the system under test; the share of the lost frames that a place
lost; data that a load causes below a file server or in a pool. Bounds are computed, not measured.
"""
LOWER = {
    "latency",
    "ms",
    "rtt",
    "errors",
    "dropped",
    "lost",
    "retransmitted",
    "timeouts",
    "timeout",
    "seconds",
    "done",
    "slowest",
    "us_per_io",
    "gap_s",
    "back_s",
}
HIGHER = {
    "iops",
    "files_per_s",
    "operations_per_s",
    "mb_per_s",
    "mib_per_s",
    "mbit_per_s",
    "gbit_per_s",
    "frames_per_s",
    "messages_per_s",
    "jain",
}
LOWER_NAMES = {"first_done_s", "last_done_s", "fastest_to_slowest"}
HIGHER_NAMES = {"jobs_done", "path_percent", "achieved_percent"}


def better(metric: str) -> Literal["higher", "lower"] | None:
    """Return the direction in which a metric improves; None if there is none, or if it is unknown.
    Of a metric of a part (`mib_per_s/job-1`), the name before the slash counts.
    """
    name = metric.partition("/")[0]
    if name in NEITHER or name.startswith("bound_"):
        return None
    if name in HIGHER_NAMES:
        return "higher"
    if name in LOWER_NAMES or _has(name, LOWER):
        return "lower"
    return "higher" if _has(name, HIGHER) else None


def _has(name: str, words: set[str]) -> bool:
    return any(f"_{word}_" in f"_{name}_" for word in words)
