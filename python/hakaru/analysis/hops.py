"""Paths of the frames: counters of the emulated network on each hop of the data's way, and whether
they add up.
"""

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

CAUSES = ("buffer", "early", "loss", "mtu")
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
"""What is told of a hop, and in which unit."""

Counted = dict[str, float]


@dataclass(frozen=True)
class Passage:
    """One hop of the way in one direction, with what was counted there in each repetition."""

    leg: str
    """`read`: source to host. `write`: host to destination."""
    carries: str
    """`data`, or the `replies` that come back."""
    hop: Hop
    counted: dict[str, Estimate]

    def mean(self, name: str) -> float:
        """Mean over repetitions, 0 where nothing was counted."""
        estimate = self.counted.get(name)
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
            **{name: estimate.to_json() for name, estimate in self.counted.items()},
        }


Legs = Sequence[tuple[str, Sequence[Hop]]]
"""Name of a leg of the data's way and its hops: `read` from an array to a host, `write` from a host
to an array.
"""


def ways(legs: Legs) -> list[tuple[str, str, Hop]]:
    """Leg, what it carries, hop; each channel once: the data's way, then the replies'.

    A link may carry data of one leg and replies of another in the same direction; it stands with
    the data.
    """
    data = [(leg, "data", hop) for leg, hops in legs for hop in hops]
    back = [(leg, "replies", _turned(hop)) for leg, hops in legs for hop in reversed(hops)]
    found: dict[str, tuple[str, str, Hop]] = {}
    for way in (*data, *back):
        found.setdefault(way[2].entity, way)
    return list(found.values())


def _turned(hop: Hop) -> Hop:
    """The other direction of a hop, whose queue and own rate are not known from here."""
    sends = None if hop.node_sends is None else not hop.node_sends
    return Hop(hop.link, hop.back, hop.target, hop.source, hop.rate_bits_per_s, None, hop.mtu, None, sends)


def of_repetition(repetition: Repetition) -> dict[str, Counted]:
    """Entity of the fabric → what it counted while images were copied."""
    found: dict[str, Counted] = {}
    for key, series in _channels(repetition.counters):
        counted = found.setdefault(key.entity, {})
        if key.name == "queue_peak_bytes_now":
            inside = (series.at_ns > repetition.window[0]) & (series.at_ns <= _end(series, repetition.window))
            counted["queue_peak_bytes"] = float(np.max(series.value[inside], initial=0.0))
        elif not key.name.endswith("_now"):
            counted[key.name] = series.grown(*repetition.window)
    seconds = (repetition.window[1] - repetition.window[0]) / 1e9
    for entity, counted in found.items():
        counted["dropped"] = sum(counted.get(f"dropped_{cause}", 0.0) for cause in CAUSES)
        counted["paused_s"] = counted.get("paused_ns", 0.0) / 1e9
        busy = repetition.counters.get(_node(repetition.counters, entity), "fabric", entity, "busy_ns")
        if busy is not None and seconds > 0:
            counted["busy_percent"] = busy.rate(*repetition.window) / 1e7
    return found


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
    """Instant of the first sample after the window; the last where there is none."""
    after = series.at_ns[series.at_ns >= window[1]]
    return int(after[0]) if len(after) else int(series.at_ns[-1])


def passages(legs: Legs, repetitions: list[dict[str, Counted]]) -> list[Passage]:
    """The hop table of a point; empty where no fabric counted."""
    found = []
    for leg, carries, hop in ways(legs):
        counted = [r[hop.entity] for r in repetitions if hop.entity in r]
        if counted:
            known = [name for name in UNITS if any(name in c for c in counted)]
            estimates = {n: Estimate.over([c[n] for c in counted if n in c], UNITS[n]) for n in known}
            found.append(Passage(leg, carries, hop, estimates))
    return found


def worst_port(way: list[Passage], sender_rate_bits_per_s: float | None = None) -> Port | None:
    """The port that dropped and marked most frames of data; None where nothing was counted."""
    data = [p for p in way if p.carries == "data"]
    worst = max(data, key=lambda p: _dropped(p) + p.mean("marked"), default=None)
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
    """frames in + doubled = out + dropped + still inside, on every channel at every sample, to the
    frame.
    """
    for key, came in counters.select(engine="fabric", entity="link/", name="frames_in"):

        def at(name: str, key: Key = key, like: Series = came) -> Any:
            series = counters.get(key.node, "fabric", key.entity, name)
            return (
                series.value
                if series is not None and len(series.value) == len(like.value)
                else np.zeros(len(like.value))
            )

        there = at("frames_out") + sum(at(f"dropped_{cause}") for cause in CAUSES) + at("frames_now")
        off = came.value + at("duplicated") - there
        worst = off[np.argmax(np.abs(off))] if len(off) else 0.0
        if abs(worst) >= 0.5:  # frames are whole: any difference is at least 1
            link = key.entity.removeprefix("link/")
            yield Caveat("frames_not_conserved", {"link": link, "frames": round(float(worst))})
            return


def use(repetition: Repetition, nics: list[Nic], hops: Iterable[Hop], *, spins: bool) -> dict[str, Use]:
    """Return the utilisation of each resource. Links are those that the fabric counted, if there is
    a fabric.

    `hops`: channels that count as resources. `spins`: the fabric takes a whole CPU by design, so
    that its share says nothing.
    """
    used = utilisation.of_repetition(repetition.counters, repetition.window, nics)
    counted = of_repetition(repetition)
    if counted:
        used = {r: u for r, u in used.items() if not r.startswith("link/")}
        for hop in hops:
            busy = counted.get(hop.entity, {}).get("busy_percent")
            if busy is not None:
                used[hop.resource] = Use(busy)
    if spins:
        used.pop("cpu/fabric", None)
    return used
