"""Names of the metrics of a point, and their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hakaru.kinds.packets.load import PacketsLoad
from hakaru.search import Verdict

RATE = "frames_per_s"
"""The result of a point: rate for the first goal, all directions together."""

VARIATION = "variation_percent"
"""Coefficient of variation of the rate over repetitions. No repetition has it alone."""

REPEATS = "repeats_variation_percent"
"""Coefficient of variation of the rate over the searches of one repetition: those that the
published procedure repeats.
"""

FRAME = "frame"
"""Factor of the frame size, by its name in the study `forwarding`."""
SIZES_MIN = 3
"""Frame sizes from which on a mean over them is reported."""


def frame_size(factors: Mapping[str, Any]) -> int | None:
    """The frame size of a point in bytes; None for a mix, and without the factor."""
    size = factors.get(FRAME)
    return size if isinstance(size, int) else None


def over_sizes(points: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The points of a report whose searches bracketed a rate, in groups that differ only in the
    frame size.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        others = {factor: level for factor, level in point["factors"].items() if factor != FRAME}
        found = point["valid"] and point["search"] == Verdict.BRACKETED.value
        if frame_size(point["factors"]) and found:
            groups.setdefault(repr(others), []).append(point)
    return groups


LOSS_PLACES = ("input", "host", "device", "output", "receiver", "damaged", "late", "unlocated")
"""Places of losses (`analysis.trials`), and the rest, in the order of a frame's way."""


def lost_at(place: str) -> str:
    """Name of the share of lost frames that were lost at a place."""
    return f"lost_percent/{place}"


COMMON = {
    RATE: "1/s",
    VARIATION: "percent",
    REPEATS: "percent",
    "mbit_per_s": "Mbit/s",
    "tester_frames_per_s": "1/s",
    "share_of_tester_percent": "percent",
    "trials": "1",
    "search_s": "s",
    **{lost_at(place): "percent" for place in LOSS_PLACES},
    "reordered_frames": "frames",
    "duplicated_frames": "frames",
    "corrupted_frames": "frames",
    "machine_percent": "percent",
    "busiest_cpu_percent": "percent",
}
"""Metrics of every point. Reordered, duplicated and corrupted frames are those of all trials of a
search. The last two are CPU use in the trials within 2 % of the result."""


def goal_rate(place: int) -> str:
    """Name of the rate for a goal, counted from 1."""
    return f"{RATE}/goal-{place}"


def latency(percent: float, percentile: str) -> str:
    """Name of a percentile of the latency at a share of the rate found."""
    return f"latency_us_{percentile}/{percent:g}"


PERCENTILES = {"p50": 50.0, "p99": 99.0}


def metrics_of(load: PacketsLoad) -> dict[str, str]:
    """Metrics of a study's points → unit."""
    goals = {goal_rate(place): "1/s" for place in range(1, len(load.search.goals) + 1)}
    shares = load.latency.percent if load.latency else ()
    return COMMON | goals | {latency(share, name): "µs" for share in shares for name in PERCENTILES}
