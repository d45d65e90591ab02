"""Counters of the emulated network on each hop of the data path, and the check that they add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hakaru.analysis import utilisation
from hakaru.analysis.counters import Counters, Key, Series
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.network import Hop
from hakaru.analysis.rules.evidence import Port
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Nic, Use
from hakaru.caveats import Caveat

CAUSES = ("buffer", "early", "loss", "mtu", "down")
UNITS = {
    "frames_in": "frames",
    "frames_out": "frames",
    **{f"dropped_{cause}": "frames" for cause in CAUSES},
    "dropped": "frames",
    "duplicated": "frames",
    "marked": "frames",
    "pauses": "pauses",
    "paused_s": "s",
    "queue_peak_bytes": "bytes",
    "busy_percent": "percent",
}
"""Values reported for a hop, with their units."""

Counts = dict[str, float]


@dataclass(frozen=True)
class Passage:
    """One hop of the path in one direction, with its counters over all repetitions."""

    leg: str
    """`read`: source to host. `write`: host to destination."""
    carries: str
    """`data`, or the `replies` in the opposite direction."""
    hop: Hop
    counts: dict[str, Estimate]

    def mean(self, name: str) -> float:
        """Mean of a counter over repetitions; 0 if it is missing."""
        estimate = self.counts.get(name)
        return (estimate.mean or 0.0) if estimate else 0.0

    def to_json(self) -> dict[str, Any]:
        """One element of `hops` of a point."""
        return {
            "leg": self.leg,
            "carries": self.carries,
            "link": self.hop.link,
            "direction": self.hop.direction,
            "from": self.hop.source,
            "to": self.hop.target,
            "rate_bits_per_s": self.hop.rate_bits_per_s,
            "held_bits_per_s": self.hop.held_bits_per_s,
            "queue_bytes": self.hop.queue_bytes,
            **{name: estimate.to_json() for name, estimate in self.counts.items()},
        }


Legs = Sequence[tuple[str, Sequence[Hop]]]
"""Name and hops of each leg of the data path: `read` from an array to a host, `write` from a host
to an array.
"""


def channels_of(legs: Legs) -> list[tuple[str, str, Hop]]:
    """`(leg, carries, hop)` of each channel once: first those that carry data, then those of
    replies.

    A link may carry data of one leg and replies of the other in the same direction. It is then
    listed with the data.
    """
    data = [(leg, "data", hop) for leg, hops in legs for hop in hops]
    replies = [(leg, "replies", _reversed(hop)) for leg, hops in legs for hop in reversed(hops)]
    by_entity: dict[str, tuple[str, str, Hop]] = {}
    for channel in (*data, *replies):
        by_entity.setdefault(channel[2].entity, channel)
    return list(by_entity.values())


def _reversed(hop: Hop) -> Hop:
    """The opposite direction of a hop. Its queue and the rate limit of its sender are unknown."""
    sends = None if hop.node_sends is None else not hop.node_sends
    return Hop(hop.link, hop.back, hop.target, hop.source, hop.rate_bits_per_s, None, hop.mtu, None, sends)


def of_repetition(repetition: Repetition) -> dict[str, Counts]:
    """Entity of the fabric → its counters over the measuring phase."""
    by_entity: dict[str, Counts] = {}
    for key, series in _channels(repetition.counters):
        counts = by_entity.setdefault(key.entity, {})
        if key.name == "queue_peak_bytes_now":
            inside = (series.at_ns > repetition.window[0]) & (series.at_ns <= _end(series, repetition.window))
            counts["queue_peak_bytes"] = float(np.max(series.value[inside], initial=0.0))
        elif not key.name.endswith("_now"):
            counts[key.name] = series.grown(*repetition.window)
    seconds = (repetition.window[1] - repetition.window[0]) / 1e9
    for entity, counts in by_entity.items():
        counts["dropped"] = sum(counts.get(f"dropped_{cause}", 0.0) for cause in CAUSES)
        counts["paused_s"] = counts.get("paused_ns", 0.0) / 1e9
        busy = repetition.counters.get(_node(repetition.counters, entity), "fabric", entity, "busy_ns")
        if busy is not None and seconds > 0:
            counts["busy_percent"] = busy.rate(*repetition.window) / 1e7
    return by_entity


def _channels(counters: Counters) -> Iterator[tuple[Key, Series]]:
    for name in (
        "frames_in",
        "frames_out",
        *(f"dropped_{cause}" for cause in CAUSES),
        "duplicated",
        "marked",
        "pauses",
        "paused_ns",
        "queue_peak_bytes_now",
    ):
        yield from counters.select(engine="fabric", entity="link/", name=name)


def _node(counters: Counters, entity: str) -> str:
    return next((key.node for key, _ in counters.select(engine="fabric", entity=entity, name="frames_in")), "")


def _end(series: Series, window: tuple[int, int]) -> int:
    """Instant of the first sample after the window, or of the last sample."""
    after = series.at_ns[series.at_ns >= window[1]]
    return int(after[0]) if len(after) else int(series.at_ns[-1])


def passages(legs: Legs, repetitions: list[dict[str, Counts]]) -> list[Passage]:
    """The hop table of a point; empty without counters of a fabric."""
    rows = []
    for leg, carries, hop in channels_of(legs):
        samples = [r[hop.entity] for r in repetitions if hop.entity in r]
        if samples:
            known = [name for name in UNITS if any(name in counts for counts in samples)]
            estimates = {n: Estimate.over([counts[n] for counts in samples if n in counts], UNITS[n]) for n in known}
            rows.append(Passage(leg, carries, hop, estimates))
    return rows


def worst_port(hops: list[Passage], sender_rate_bits_per_s: float | None = None) -> Port | None:
    """The port that dropped and marked most frames of data; None without counters."""
    data = [passage for passage in hops if passage.carries == "data"]
    worst = max(data, key=lambda passage: _dropped(passage) + passage.mean("marked"), default=None)
    if worst is None:
        return None
    return Port(
        worst.hop.link,
        worst.hop.source,
        worst.hop.target,
        worst.leg,
        worst.hop.rate_bits_per_s,
        worst.hop.queue_bytes,
        worst.mean("queue_peak_bytes"),
        worst.mean("frames_in"),
        _dropped(worst),
        worst.mean("marked"),
        sender_rate_bits_per_s,
    )


def _dropped(passage: Passage) -> float:
    return passage.mean("dropped_buffer") + passage.mean("dropped_early")


def conserved(counters: Counters) -> Iterator[Caveat]:
    """Check that frames in + duplicated = frames out + dropped + still inside, exactly, on every
    channel at every sample.
    """
    for key, frames_in in counters.select(engine="fabric", entity="link/", name="frames_in"):

        def at(name: str, key: Key = key, like: Series = frames_in) -> Any:
            series = counters.get(key.node, "fabric", key.entity, name)
            return (
                series.value
                if series is not None and len(series.value) == len(like.value)
                else np.zeros(len(like.value))
            )

        accounted = at("frames_out") + sum(at(f"dropped_{cause}") for cause in CAUSES) + at("frames_now")
        difference = frames_in.value + at("duplicated") - accounted
        worst = difference[np.argmax(np.abs(difference))] if len(difference) else 0.0
        if abs(worst) >= 0.5:  # frames are whole: any difference is at least 1
            link = key.entity.removeprefix("link/")
            yield Caveat("frames_not_conserved", {"link": link, "frames": round(float(worst))})
            return


def use(repetition: Repetition, nics: list[Nic], hops: Iterable[Hop], *, spins: bool) -> dict[str, Use]:
    """Return the utilisation of each resource. If a fabric counted its links, its values replace
    those of the interfaces.

    `hops`: channels that count as resources. `spins`: the fabric busy-polls, so its CPU share says
    nothing and is left out.
    """
    use_by_resource = utilisation.of_repetition(repetition.counters, repetition.window, nics)
    counts_by_entity = of_repetition(repetition)
    if counts_by_entity:
        use_by_resource = {r: u for r, u in use_by_resource.items() if not r.startswith("link/")}
        for hop in hops:
            busy = counts_by_entity.get(hop.entity, {}).get("busy_percent")
            if busy is not None:
                use_by_resource[hop.resource] = Use(busy)
    if spins:
        use_by_resource.pop("cpu/fabric", None)
    return use_by_resource
