"""Results of one repetition of a load whose VMs have roles: the service of victims and aggressors,
the time that requests spend in each part of the array, the caps, and the pools.

The time in a part, waiting included, is the integral of the requests present over the requests
served (Little's law). It covers the requests of all VMs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hakaru.analysis.latency import PERCENTILES, Latencies, percentiles_ms
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.vms.analysis.metrics import quotient
from hakaru.kinds.vms.entities import TOTAL
from hakaru.kinds.vms.load import ROLES, VmGroup

NAN = float("nan")
PARTS = {"port": "port/", "controller": "controller", "cache": "cache", "drives": "group/"}
"""Part of the array → entities of its counters."""
UNITS: dict[str, str] = {
    **{
        f"{role}_{name}": unit
        for role in ROLES
        for name, unit in (
            ("iops", "1/s"),
            ("mb_per_s", "MB/s"),
            ("latency_ms_mean", "ms"),
            *((f"latency_ms_{percentile}", "ms") for percentile in PERCENTILES),
        )
    },
    **{f"{part}_ms_mean": "ms" for part in PARTS},
    "cap_iops": "1/s",
    "cap_mb_per_s": "MB/s",
    "cap_delayed_percent": "percent",
    "cap_wait_ms_mean": "ms",
    "pool_mb_per_s": "MB/s",
}
"""Metrics of loads with groups, and their units, in the order of the report."""


def of_repetition(repetition: Repetition, groups: Mapping[str, VmGroup]) -> dict[str, float]:
    """Metric → value, NaN if it was not counted; empty without groups."""
    if not groups:
        return {}
    values: dict[str, float] = {}
    for role in ROLES:
        entities = [f"{TOTAL}/{name}" for name, group in groups.items() if group.role == role and group.vms]
        values |= {f"{role}_{name}": value for name, value in _of_entities(repetition, entities).items()}
    return values | _parts(repetition) | _caps(repetition) | {"pool_mb_per_s": _allocated(repetition)}


def _of_entities(repetition: Repetition, entities: Sequence[str]) -> dict[str, float]:
    """Rate and latencies of some groups together."""
    counters, window = repetition.counters, repetition.window

    def rate(name: str) -> float:
        rates = [counters.total_rate(window, engine="initiator", entity=entity, name=name) for entity in entities]
        return sum(rates) if rates else NAN

    merged = Latencies.none()
    for entity in entities:
        merged.add(Latencies.of_table(repetition.histograms, window, entity))
    requests = rate("reads") + rate("writes")
    latency_ns = rate("read_latency_ns_sum") + rate("write_latency_ns_sum")
    percentiles = percentiles_ms(merged.all(), PERCENTILES.values())
    return {
        "iops": requests,
        "mb_per_s": (rate("read_bytes") + rate("write_bytes")) / 1e6,
        "latency_ms_mean": quotient(latency_ns, requests) / 1e6,
        **{f"latency_ms_{name}": ms for name, ms in zip(PERCENTILES, percentiles, strict=True)},
    }


def _parts(repetition: Repetition) -> dict[str, float]:
    """Mean time that a request spends in each part of the array."""
    counters, window = repetition.counters, repetition.window

    def rate(entity: str, name: str) -> float:
        return counters.total_rate(window, engine="array", entity=entity, name=name)

    times = {}
    for part, entity in PARTS.items():
        served = rate(entity, "reads") + rate(entity, "writes") if part == "cache" else rate(entity, "ops")
        times[f"{part}_ms_mean"] = quotient(rate(entity, "queue_ns"), served) / 1e6
    return times


def _allocated(repetition: Repetition) -> float:
    """Growth of the pages that volumes map, MB/s; NaN without a pool."""
    found = repetition.counters.total_rate(repetition.window, engine="array", entity="pool/", name="used_bytes_now")
    return found / 1e6


def _caps(repetition: Repetition) -> dict[str, float]:
    """Accesses that passed caps, and their waits. An access that passes several counts for each."""

    def rate(name: str) -> float:
        return repetition.counters.total_rate(repetition.window, engine="array", entity="cap/", name=name)

    return {
        "cap_iops": rate("accesses"),
        "cap_mb_per_s": rate("bytes") / 1e6,
        "cap_delayed_percent": 100 * quotient(rate("delayed"), rate("accesses")),
        "cap_wait_ms_mean": quotient(rate("wait_ns"), rate("accesses")) / 1e6,
    }
