"""Names of metrics that depend on the study, and their units."""

from __future__ import annotations

from collections.abc import Sequence

TAPE_UNITS: dict[str, str] = {
    "tape_arrival_mb_per_s": "MB/s",
    "tape_native_percent": "percent",
    "tape_streaming_percent": "percent",
    "tape_streaming_percent_predicted": "percent",
    "tape_stops_per_min": "per min",
    "tape_stops_per_min_predicted": "per min",
    "tape_stops_to_predicted": "",
    "tape_streaming_to_predicted": "",
    "tape_synchronisations_per_min": "per min",
}
"""Metrics of copies to tapes, and their units. Rates count bytes of the initiator."""


def of_jobs(names: Sequence[str]) -> dict[str, str]:
    """Metrics of single jobs and their units: the rate of each, and rates, bytes and times by rank,
    the fastest first. Ranks compare repetitions in which another job is the slowest one.
    """
    ranks = range(1, len(names) + 1)
    return {
        **{f"mib_per_s/{name}": "MiB/s" for name in names},
        **{f"ranked_mib_per_s/{rank}": "MiB/s" for rank in ranks},
        **{f"ranked_mib/{rank}": "MiB" for rank in ranks},
        **{f"ranked_seconds/{rank}": "s" for rank in ranks},
    }
