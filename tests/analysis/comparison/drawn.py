"""Points of summaries with drawn values: a closed load of VMs whose rate and latency depend on each
other, with the spread of short repetitions on a busy machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LOADED = (1, 4, 7, 10, 16)
"""Levels of the factor `vms`."""
SPREAD = {"iops": 0.015, "latency_ms_p50": 0.02, "latency_ms_p99": 0.05, "latency_ms_p999": 0.10, "cpu": 0.03}
"""Relative standard deviation of the values of one repetition, beside what they have in common."""


def points(
    random: np.random.Generator, repetitions: int, slower: Mapping[int, float] | None = None
) -> list[dict[str, Any]]:
    """The points of one run. `slower`: VMs → the factor by which each request takes longer."""
    return [_point(random, vms, repetitions, (slower or {}).get(vms, 1.0)) for vms in LOADED]


def _point(random: np.random.Generator, vms: int, repetitions: int, slower: float) -> dict[str, Any]:
    def spread(name: str) -> Any:
        return random.lognormal(0.0, SPREAD[name], repetitions)

    latency = (2.0 + 0.8 * vms) * slower * spread("iops")
    iops = 8000 * vms / latency
    reads = random.normal(0.7, 0.004, repetitions)
    values = {
        "iops": iops,
        "read_iops": iops * reads,
        "write_iops": iops * (1 - reads),
        "mb_per_s": iops * 0.032768,
        "latency_ms_mean": latency,
        "latency_ms_p50": latency * 0.9 * spread("latency_ms_p50"),
        "latency_ms_p99": latency * 3.0 * spread("latency_ms_p99"),
        "latency_ms_p999": latency * 6.0 * spread("latency_ms_p999"),
        "array_cpu_us_per_io": 40 * spread("cpu"),
        "outstanding_mean": np.full(repetitions, 8.0 * vms),
        "errors_per_s": np.zeros(repetitions),
    }
    return point({"vms": vms}, {name: each.tolist() for name, each in values.items()})


def point(factors: Mapping[str, Any], values: Mapping[str, Sequence[float]], *, valid: bool = True) -> dict[str, Any]:
    """One point of a summary."""
    units = {"timeouts": "timeouts", "packet_errors": "packets", "path_losses": "losses", "path_switches": "switches"}
    units |= {"commands_repeated": "commands", "reordered_frames": "frames", "outstanding_mean": "requests"}
    metrics = {
        name: {"mean": float(np.mean(each)), "low": None, "high": None, "n": len(each), "unit": units.get(name, "")}
        for name, each in values.items()
    }
    return {"point": "p", "factors": dict(factors), "valid": valid, "metrics": metrics, "repetitions": dict(values)}
