"""Measurements of a lab before the load, as `hakaru.lab.check` performs them: the rounds in which
paths are checked, and the pairs of nodes between which plain TCP is measured. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from hakaru.lab.plan.lab import LabPlan
from hakaru.lab.plan.parts import Link, Trunk
from hakaru.lab.plan.topology import Way, together_bits_per_s


@dataclass(frozen=True)
class Round:
    """Hosts that measure concurrently, to an address of an array and back, and the total rates
    asked in bits per second; None: unlimited.

    `key` holds the state of every link that is passed. Rounds with equal keys need no new check.
    """

    hosts: tuple[str, ...]
    array_link: Link
    to_array: int | None
    from_array: int | None
    rtt_us: float
    needed_to_array: int | None
    needed_from_array: int | None
    tagged: bool
    tagged_back: bool
    over: str | None
    replies: bool
    limits: tuple[str, ...]
    limits_back: tuple[str, ...]
    key: Hashable


def pairs_of(plan: LabPlan) -> list[tuple[str, str]]:
    """The pairs of nodes to measure: the first two hosts if they reach each other, and every host
    with every array.
    """
    hosts = [plan.host_names[:2]] if len(plan.host_names) > 1 and plan.ways(*plan.host_names[:2]) else []
    return [(a, b) for a, b in hosts] + [(host, array) for array in plan.array_names for host in plan.host_names]


def rounds_of(plan: LabPlan) -> list[Round]:
    """All rounds, in order: for each address of each array every host alone, then all together.

    All together only if they ask for a higher rate than each of them alone.
    """
    rounds = []
    for array in plan.array_names:
        # A lab may have very many paths; each is looked up once.
        forward = {host: plan.ways(host, array) for host in plan.loading_names}
        back = {host: plan.ways(array, host) for host in plan.loading_names}
        for link in plan.topology.links_of(array):
            hosts = [host for host, ways in forward.items() if any(way.destination == link for way in ways)]
            pairs = {host: _pair(forward[host], back[host], link) for host in hosts}
            alone = [_round(plan, link, {host: pairs[host]}) for host in hosts]
            rounds += alone
            if len(hosts) > 1:
                together = _round(plan, link, pairs)
                # Without a limit there is nothing to compare with.
                rates = [round_.to_array for round_ in alone if round_.to_array is not None]
                if together.to_array is not None and together.to_array > max(rates, default=together.to_array):
                    rounds.append(together)
    return rounds


def _pair(forward: Sequence[Way], back: Sequence[Way], link: Link) -> tuple[Way, Way]:
    """The path from a host to an address, and the path back."""
    way = next(way for way in forward if way.destination == link)
    return way, next(other for other in back if (other.source, other.destination) == (link, way.source))


def _round(plan: LabPlan, link: Link, pairs: Mapping[str, tuple[Way, Way]]) -> Round:
    forward, back = [pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()]
    to_array, from_array = together_bits_per_s(forward), together_bits_per_s(back)
    return Round(
        tuple(pairs),
        link,
        to_array,
        from_array,
        max(way.delay_us + back_way.delay_us for way, back_way in zip(forward, back, strict=True)),
        together_bits_per_s(forward, needed=True),
        together_bits_per_s(back, needed=True),
        _is_tagged(forward, to_array),
        _is_tagged(back, from_array),
        next((vlan.name for vlan in plan.vlans if vlan.id == link.vlan), None),
        _is_shared(forward, back, {*_slowest(forward, to_array), *_slowest(back, from_array)}),
        _slowest(forward, to_array),
        _slowest(back, from_array),
        (tuple(pairs), tuple(link_state(plan, hop) for way in (*forward, *back) for hop in way.hops)),
    )


def _is_tagged(ways: Sequence[Way], limit: int | None) -> bool:
    """Whether a slowest link of the path is a trunk of VLANs, on which each frame has a tag."""
    slow = _slowest(ways, limit)
    return any(isinstance(hop, Trunk) and hop.vlans and hop.name in slow for hop in ways[0].hops)


def _is_shared(forward: Sequence[Way], back: Sequence[Way], slow: set[str]) -> bool:
    """Whether data and acknowledgements pass a slow link in the same direction, as on the trunk of
    a router, which they pass up and down.
    """
    passed = [{direction for way in ways for direction in way.directions} for ways in (forward, back)]
    return any(entity.split("/")[1] in slow for entity in passed[0] & passed[1])


def _slowest(ways: Sequence[Way], limit: int | None) -> tuple[str, ...]:
    """Names of the links that limit a path to `limit`; of several paths, of their common links."""
    hops = [hop for hop in ways[0].hops if isinstance(hop, Trunk) or not hop.inside]
    common = [hop for hop in hops if all(hop in way.hops for way in ways)]
    if limit is None:
        return ()
    slow = [hop.name for hop in common if limit in _rates(hop)]
    return tuple(dict.fromkeys(slow)) or tuple(dict.fromkeys(hop.name for hop in common))


def _rates(hop: Link | Trunk) -> tuple[int | None, ...]:
    return (hop.rate_bits_per_s, hop.sends_bits_per_s) if isinstance(hop, Link) else (hop.rate_bits_per_s,)


def link_state(plan: LabPlan, hop: Link | Trunk) -> tuple[tuple[str, object], ...]:
    """Fields of a link that its check depends on, as (field, value)."""
    state: dict[str, object] = {
        "name": hop.name,
        "mtu": hop.mtu,
        "rate_bits_per_s": hop.rate_bits_per_s,
        "sustained_bits_per_s": hop.sustained_bits_per_s,
        "delay_us": hop.line.delay_us,
    }
    if isinstance(hop, Link):
        state["send_rate_bits_per_s"] = hop.send_rate_bits_per_s
    if plan.is_star and plan.fabric_node is None:
        # Such a lab is checked with its own queues.
        state["queue_bytes"] = hop.queue_bytes
    return tuple(state.items())
