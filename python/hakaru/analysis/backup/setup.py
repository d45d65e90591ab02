"""What holds at one point of a backup study: the copy, the network between source and destination, the settings.

Made from `study.json` alone (the study as expanded, with its `variables` applied), never from counters.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakaru.lab.shape import tcp_payload_bits_per_s
from hakaru.units import parse_rate, parse_size


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


@dataclass(frozen=True)
class Setup:
    """The copy and its way: `read` leads from the source's array to the host, `write` on to the destination's array."""

    hosts: tuple[str, ...]
    source: str
    destination: str
    jobs: int
    streams: int
    rate_limit_bytes_per_s: float | None
    """Of each job."""
    read: tuple[Hop, ...]
    write: tuple[Hop, ...]
    settings: dict[str, Any]
    """Place in the study → value there, of what the study's variables touch anywhere."""

    @property
    def narrowest(self) -> Hop | None:
        """The slowest hop to the destination, of equals the first behind a buffer: it sets the path's rate."""
        rated = [h for h in self.write if h.rate_bits_per_s is not None]
        return min(rated, key=lambda h: (h.rate_bits_per_s or 0.0, h.queue_bytes is None), default=None)

    @property
    def payload_bytes_per_s(self) -> float | None:
        """TCP payload that the path to the destination carries."""
        return self.narrowest.payload_bytes_per_s if self.narrowest else None

    @property
    def fastest_before(self) -> float | None:
        """Rate of the fastest hop before the narrowest one: that of the bursts which reach it."""
        if self.narrowest is None:
            return None
        before = self.write[: self.write.index(self.narrowest)]
        rates = [h.rate_bits_per_s for h in before if h.rate_bits_per_s is not None]
        held = before[0].held_bits_per_s if before else None
        return min(max(rates), held) if rates and held else max(rates, default=None)


def is_backup(study: Mapping[str, Any]) -> bool:
    """Whether the study copies images instead of loading VMs."""
    return bool(study.get("backup"))


def study_at(study: Mapping[str, Any], factors: Mapping[str, Any]) -> dict[str, Any]:
    """The study with the changes that the levels stand for (`variables`), on plain JSON."""
    changed = {k: copy.deepcopy(study.get(k)) for k in ("lab", "arrays", "array", "backup")}
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
        if not isinstance(inside.get(key), dict):
            inside[key] = {}
        inside = inside[key]
    inside[keys[-1]] = value


def setup_at(study: Mapping[str, Any], factors: Mapping[str, Any]) -> Setup:
    """What holds at a point. Parts that the study does not have are empty: a report is made of damaged runs, too."""
    changed = study_at(study, factors)
    lab, backup = changed.get("lab") or {}, changed.get("backup") or {}
    hosts = _names(lab.get("hosts"), "host")
    source = str((backup.get("from") or {}).get("array") or "primary")
    destination = str((backup.get("to") or {}).get("array") or "vtl")
    links = lab.get("links") or _star(lab, hosts)
    switches = set(lab.get("switches") or {"switch"})
    host = hosts[0] if hosts else ""
    read, write = (_way(links, switches, lab, *ends) for ends in ((source, host), (host, destination)))
    limit = _rate(backup.get("rate_limit"))
    return Setup(
        hosts=tuple(hosts),
        source=source,
        destination=destination,
        jobs=int(backup.get("jobs") or 1),
        streams=int(backup.get("streams") or 1),
        rate_limit_bytes_per_s=limit / 8 if limit else None,
        read=read,
        write=write,
        settings={place: _at(changed, place) for place in touched(study)},
    )


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


def _at(inside: Any, place: str) -> Any:
    for key in place.split("."):
        inside = inside.get(key) if isinstance(inside, dict) else None
    return inside


def _names(hosts: Any, prefix: str) -> list[str]:
    if isinstance(hosts, int):
        return [f"{prefix}-{i}" for i in range(1, hosts + 1)]
    return [str(h) for h in hosts or []]


def _star(lab: dict[str, Any], hosts: list[str]) -> dict[str, Any]:
    """The links of the short form, where every node has one to the only switch."""
    nodes = [(host, lab.get("host_link") or {}) for host in hosts]
    nodes += [(str(lab.get("array") or "array"), lab.get("array_link") or {})]
    return {f"{node}.0": {**link, "between": [node, "switch"]} for node, link in nodes}


def _rate(value: Any) -> float | None:
    """Bits per second, however study.json writes it; None for none."""
    if value is None:
        return None
    return float(value) if isinstance(value, (int, float)) else float(parse_rate(value))


def _size(value: Any) -> int | None:
    if value is None:
        return None
    return int(value) if isinstance(value, (int, float)) else parse_size(value)


def _way(links: dict[str, Any], switches: set[str], lab: dict[str, Any], start: str, end: str) -> tuple[Hop, ...]:
    """The hops from one node to another, by the fewest links; empty where there is no way."""
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
                queue = _size(link.get("queue")) if node in switches else None
                mtu = int(link.get("mtu") or lab.get("mtu") or 1500)
                rate, held = _rate(link.get("rate")), _rate(link.get("send_rate")) if node not in switches else None
                held = held if held is not None and (rate is None or held < rate) else None
                hop = Hop(str(name), direction, node, other, rate, queue, mtu, held)
                reached[other] = (*reached[node], hop)
                waiting.append(other)
    return reached.get(end, ())
