"""From two samples to what is going on now: rates, how busy each part is, how long its queue. Pure.

For people who ask `hakaru array status`; what is kept and compared is the counters themselves.
"""

from __future__ import annotations

from hakaru.engine.contract import Sample

Entity = dict[str, float]


def rates(before: Sample | None, now: Sample) -> dict[str, Entity]:
    """Entity → what follows from its counters between two samples; nothing where there is only one.

    `NAME_per_s` of every cumulative count; of modelled parts also `busy_percent`, `queue` (mean
    requests present) and `service_ms` (mean, of requests that ended).
    """
    if before is None or now.at_ns <= before.at_ns:
        return {}
    seconds = (now.at_ns - before.at_ns) / 1e9
    found = {}
    for entity, names in now.counters.items():
        earlier = before.counters.get(entity, {})
        # A counter that is new counted from zero.
        grown = {name: value - earlier.get(name, 0.0) for name, value in names.items() if not name.endswith("_now")}
        own = {f"{name}_per_s": grew / seconds for name, grew in grown.items() if not name.endswith("_ns")}
        if "busy_ns" in grown:
            own["busy_percent"] = grown["busy_ns"] / seconds / 1e7
            own["queue"] = grown.get("queue_ns", 0.0) / seconds / 1e9
            own["service_ms"] = grown.get("service_ns", 0.0) / grown["ops"] / 1e6 if grown.get("ops") else 0.0
        found[entity] = own
    return found
