"""Lengths of the queues on the path of a request, live, from the samples of all engines.

Only shown, not stored; analysis computes its own from the stored samples. A queue is the mean
number of requests present during the last interval of its counter, except for `link_bytes`, the
longest queue of a link at the end of that interval. Hosts, arrays, links and drives may have
intervals of their own, so each queue is as new as its part of the path allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from hakaru.engine.contract import Sample

LOAD = ""
"""Stands for the entity of a load that is the total of its parts, in any kind of study."""
INTEGRALS = {
    (LOAD, "guest_queued_ns"): "guests",
    (LOAD, "host_queued_ns"): "hosts",
    ("port", "queue_ns"): "port",
    ("controller", "queue_ns"): "controller",
    ("cache", "queue_ns"): "cache",
    ("drive", "queue_ns"): "drives",
}
"""(Kind of entity, counter) → name of the queue, in the order of the path. The growth of the
counter divided by the time is the mean length (docs/reference/metrics.md).
"""
IN_FLIGHT = "in_flight"
LINK = "link_bytes"


class QueueMeter:
    """The newest lengths of the queues of one repetition."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], tuple[int, float]] = {}
        self._lengths: dict[str, dict[str, float]] = {}
        """Queue → node and engine's entity → its length."""

    def add(self, node: str, sample: Sample) -> None:
        """Add the sample of an engine on `node`."""
        for entity, counters in sample.counters.items():
            kind, part, _ = entity.partition("/")
            place = f"{node} {entity}"
            for (of_kind, counter), queue in INTEGRALS.items():
                if of_kind in (kind, part) and counter in counters:
                    self._add_integral(queue, place, (node, entity, counter), sample.at_ns, counters[counter])
            if not part and "in_flight_now" in counters:
                self._set(IN_FLIGHT, place, counters["in_flight_now"])
            if kind == "link" and "queue_bytes_now" in counters:
                self._set(LINK, place, counters["queue_bytes_now"])

    def lengths(self) -> Mapping[str, float]:
        """Queue → its length, in the order of the path. Queues that no engine reports are left
        out.
        """
        lengths = {}
        for name in (IN_FLIGHT, *INTEGRALS.values(), LINK):
            if name in self._lengths:
                values = self._lengths[name].values()
                lengths[name] = round(max(values) if name == LINK else sum(values), 3)
        return lengths

    def _add_integral(self, queue: str, place: str, key: tuple[str, str, str], at_ns: int, value: float) -> None:
        before_ns, before = self._last.get(key, (at_ns, value))
        self._last[key] = (at_ns, value)
        if at_ns > before_ns:
            self._set(queue, place, (value - before) / (at_ns - before_ns))

    def _set(self, queue: str, place: str, length: float) -> None:
        self._lengths.setdefault(queue, {})[place] = length
