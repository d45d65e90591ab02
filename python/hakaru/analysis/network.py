"""A point of a study as its report needs it, and the network in it: links, hops, the way from one node to another.

Made from `study.json` alone (the study as expanded, with its `variables` applied), never from counters.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakaru.lab.model import LabSpec
from hakaru.lab.plan import Link, plan_lab, tcp_payload_bits_per_s
from hakaru.units import parse_duration, parse_rate, parse_size

PARTS = ("lab", "arrays", "array", "load")
"""What variables may change."""


@dataclass(frozen=True)
class Hop:
    """One direction of a link on the data's way. `queue_bytes`: of the port before it, None at a node's end."""

    link: str
    direction: str
    """`a-b` or `b-a`, as the fabric counts it: `a` is the first end that the study names."""
    source: str
    target: str
    rate_bits_per_s: float | None
    queue_bytes: int | None
    mtu: int
    held_bits_per_s: float | None = None
    """What the node at its begin is held to (its own NIC), where that is less than the rate."""

    @property
    def back(self) -> str:
        """The other direction of the same link."""
        return "b-a" if self.direction == "a-b" else "a-b"

    @property
    def payload_bytes_per_s(self) -> float | None:
        """TCP payload that full frames carry at this rate; None where the link has no rate."""
        if self.rate_bits_per_s is None:
            return None
        return tcp_payload_bits_per_s(self.rate_bits_per_s, self.mtu) / 8


def study_at(study: Mapping[str, Any], factors: Mapping[str, Any]) -> dict[str, Any]:
    """The study with the changes that the levels stand for (`variables`), on plain JSON."""
    changed = {k: copy.deepcopy(study.get(k)) for k in PARTS}
    for factor, level in factors.items():
        for place, value in _changes(study, factor, level).items():
            _set(changed, place.split("."), value)
    return changed


def _changes(study: Mapping[str, Any], factor: str, level: Any) -> dict[str, Any]:
    variable = (study.get("variables") or {}).get(factor) or {}
    if isinstance(variable.get("sets"), list):
        return {str(place): level for place in variable["sets"]}
    changes = variable.get(str(level).lower() if isinstance(level, bool) else str(level))
    return dict(changes) if isinstance(changes, dict) else {}


def _set(inside: Any, keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        if isinstance(inside, list):
            inside = inside[int(key)]
            continue
        if not isinstance(inside.get(key), (dict, list)):
            inside[key] = {}
        inside = inside[key]
    inside[int(keys[-1]) if isinstance(inside, list) else keys[-1]] = value


def touched(study: Mapping[str, Any]) -> list[str]:
    """Every place that a level of some variable changes, in the order of the study."""
    places: dict[str, None] = {}
    for variable in (study.get("variables") or {}).values():
        if isinstance(variable, dict) and isinstance(variable.get("sets"), list):
            places |= dict.fromkeys(str(p) for p in variable["sets"])
        elif isinstance(variable, dict):
            for changes in variable.values():
                if isinstance(changes, dict):
                    places |= dict.fromkeys(str(p) for p in changes)
    return list(places)


def at(inside: Any, place: str) -> Any:
    """What stands at a place; None where nothing does."""
    for key in place.split("."):
        if isinstance(inside, list):
            inside = inside[int(key)] if key.isdigit() and int(key) < len(inside) else None
        else:
            inside = inside.get(key) if isinstance(inside, dict) else None
    return inside


def names(hosts: Any, prefix: str) -> list[str]:
    """Names of nodes that a study may only count."""
    if isinstance(hosts, int):
        return [f"{prefix}-{i}" for i in range(1, hosts + 1)]
    return [str(h) for h in hosts or []]


def star(lab: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    """The links of the short form, where every node has one to the only switch."""
    nodes = [(host, lab.get("host_link") or {}) for host in hosts]
    nodes += [(str(lab.get("array") or "array"), lab.get("array_link") or {})]
    return {f"{node}.0": {**link, "between": [node, "switch"]} for node, link in nodes}


def rate_of(value: Any) -> float | None:
    """Bits per second, however study.json writes it; None for none."""
    if value is None:
        return None
    return float(value) if isinstance(value, (int, float)) else float(parse_rate(value))


def size_of(value: Any) -> int | None:
    """Bytes, however study.json writes them; None for none."""
    if value is None:
        return None
    return int(value) if isinstance(value, (int, float)) else parse_size(value)


def seconds_of(value: Any) -> float:
    """Seconds, however study.json writes a duration (a number is nanoseconds); 0 for none."""
    if value is None:
        return 0.0
    return (value if isinstance(value, (int, float)) else parse_duration(value)) / 1e9


def way(links: dict[str, Any], switches: set[str], lab: dict[str, Any], start: str, end: str) -> tuple[Hop, ...]:
    """The hops from one node to another, by the fewest links, with VLANs as they are routed; empty without a way."""
    if lab.get("vlans"):
        return _way_in_vlans(lab, start, end)
    reached: dict[str, tuple[Hop, ...]] = {start: ()}
    waiting = deque([start])
    while waiting and end not in reached:
        node = waiting.popleft()
        for name, link in links.items():
            ends = [str(e) for e in (link or {}).get("between") or []]
            if node not in ends or len(ends) != 2:
                continue
            other = ends[1 - ends.index(node)]
            if other not in reached:
                direction = "a-b" if node == ends[0] else "b-a"
                queue = size_of(link.get("queue")) if node in switches else None
                mtu = int(link.get("mtu") or lab.get("mtu") or 1500)
                rate, held = rate_of(link.get("rate")), rate_of(link.get("send_rate")) if node not in switches else None
                held = held if held is not None and (rate is None or held < rate) else None
                hop = Hop(str(name), direction, node, other, rate, queue, mtu, held)
                reached[other] = (*reached[node], hop)
                waiting.append(other)
    return reached.get(end, ())


def _way_in_vlans(lab: dict[str, Any], start: str, end: str) -> tuple[Hop, ...]:
    """The first way that the lab's plan has: it may pass a trunk to a router twice, once in each direction."""
    plan = plan_lab(LabSpec.model_validate(lab))
    ways = plan.ways(start, end)
    if not ways:
        return ()
    nodes = {switch.name: switch.name.partition(".")[0] for switch in plan.switches if switch.is_nic}
    hops, at_end = list[Hop](), ways[0].source.switch if ways[0].source.inside else start
    for hop, entity in zip(ways[0].hops, ways[0].directions, strict=True):
        # Between an interface and its trunk nothing happens that a wire would show.
        if isinstance(hop, Link) and hop.inside:
            continue
        first, second = hop.ends
        target = second if at_end == first else first
        at_node = isinstance(hop, Link) and at_end == hop.node
        held = hop.send_rate_bits_per_s if isinstance(hop, Link) and at_node else None
        rate = hop.rate_bits_per_s
        hops.append(
            Hop(
                hop.name,
                entity.rpartition("/")[2],
                nodes.get(at_end, at_end),
                nodes.get(target, target),
                None if rate is None else float(rate),
                None if at_node or at_end in nodes else hop.queue_bytes,
                hop.mtu,
                float(held) if held is not None and (rate is None or held < rate) else None,
            )
        )
        at_end = target
    return tuple(hops)
