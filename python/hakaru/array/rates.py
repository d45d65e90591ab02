"""Current rates, utilisation and queue lengths from two samples. Pure.

Shown by `hakaru array status`. Only the counters themselves are stored and compared.
"""

from __future__ import annotations

from hakaru.engine.contract import Sample

Entity = dict[str, float]


def rates(before: Sample | None, now: Sample) -> dict[str, Entity]:
    """Entity → rates derived from its counters between two samples; empty if there is only one.

    `NAME_per_s` for every cumulative count; for modelled parts also `busy_percent` (of the busiest
    of the parts that work at the same time, if there are any), `queue` (mean number of requests)
    and `service_ms` (mean of completed requests).
    """
    if before is None or now.at_ns <= before.at_ns:
        return {}
    seconds = (now.at_ns - before.at_ns) / 1e9
    by_entity = {}
    for entity, names in now.counters.items():
        earlier = before.counters.get(entity, {})
        # A new counter started at zero.
        grown = {name: value - earlier.get(name, 0.0) for name, value in names.items() if not name.endswith("_now")}
        entity_rates = {f"{name}_per_s": growth / seconds for name, growth in grown.items() if not name.endswith("_ns")}
        if "busy_ns" in grown:
            parts = [growth for name, growth in grown.items() if name.endswith("_busy_ns")]
            entity_rates["busy_percent"] = max(parts, default=grown["busy_ns"]) / seconds / 1e7
            entity_rates["queue"] = grown.get("queue_ns", 0.0) / seconds / 1e9
            entity_rates["service_ms"] = grown.get("service_ns", 0.0) / grown["ops"] / 1e6 if grown.get("ops") else 0.0
        by_entity[entity] = entity_rates
    return by_entity
