"""Nodes and the links that join them, and the ways from one node to another. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hakaru.lab.plan.parts import Link, Node, Switch, Trunk, Vlan


@dataclass(frozen=True)
class Cable:
    """A physical link of a node: the line, the switch at its far end, and the node's links (one per
    address) that use it.
    """

    line: Link | Trunk
    switch: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Topology:
    """Nodes, switches and links of a lab, independent of the backend."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    trunks: tuple[Trunk, ...] = ()
    switches: tuple[Switch, ...] = ()
    vlans: tuple[Vlan, ...] = ()

    def links_of(self, node: str) -> tuple[Link, ...]:
        """Links of a host or an array: one for each of its addresses."""
        return tuple(link for link in self.links if link.node == node)

    def cables(self, node: str) -> tuple[Cable, ...]:
        """Physical links of a host or an array. A trunk is one cable, however many addresses use
        it.
        """
        cables = []
        links_by_nic: dict[str, list[Link]] = {}
        for link in self.links_of(node):
            if link.inside:
                links_by_nic.setdefault(link.switch, []).append(link)
            else:
                cables.append(Cable(link, link.switch, (link,)))
        for nic, links in links_by_nic.items():
            trunk = next(trunk for trunk in self.trunks if nic in trunk.ends)
            cables.append(Cable(trunk, trunk.b if trunk.a == nic else trunk.a, tuple(links)))
        return tuple(cables)

    def vlan_name(self, vlan: int | None) -> str:
        """Return the name of a VLAN in the study, with its ID."""
        return next((f"{known.name} ({known.id})" for known in self.vlans if known.id == vlan), str(vlan))


@dataclass(frozen=True)
class Way:
    """A path from a node's link over trunks to another node's link."""

    source: Link
    trunks: tuple[Trunk, ...]
    destination: Link

    @property
    def hops(self) -> tuple[Link | Trunk, ...]:
        """All links of the path, in order."""
        return (self.source, *self.trunks, self.destination)

    @property
    def rate_bits_per_s(self) -> int | None:
        """Rate of the slowest link of the path; None if none is limited."""
        return together_bits_per_s([self])

    @property
    def delay_us(self) -> float:
        """Propagation delay in one direction, without jitter and without transmission time."""
        return sum(hop.line.delay_us for hop in self.hops)

    @property
    def directions(self) -> tuple[str, ...]:
        """Name of each hop in counters: `link/NAME/a-b` or `link/NAME/b-a`."""
        at, names = self.source.node, []
        for hop in self.hops:
            first, second = hop.ends
            names.append(f"link/{hop.name}/{'a-b' if at == first else 'b-a'}")
            at = second if at == first else first
        return tuple(names)


def ways(links: Iterable[Link], trunks: tuple[Trunk, ...], source: str, destination: str) -> tuple[Way, ...]:
    """Every path between two nodes: one per subnet (`Link.path`) that both have a link in."""
    all_links = tuple(links)
    pairs = (
        (start, end)
        for end in all_links
        if end.node == destination
        for start in all_links
        if start.node == source and start.path == end.path
    )
    # Links with the same `path` are in one network, so the trunks between them exist.
    return tuple(Way(start, trunks_between(trunks, start.switch, end.switch) or (), end) for start, end in pairs)


def trunks_between(trunks: Sequence[Trunk], start: str, end: str) -> tuple[Trunk, ...] | None:
    """The trunks from one switch to another, in order; unique in a tree. None if they are not
    connected.
    """
    routes: dict[str, tuple[Trunk, ...]] = {start: ()}
    pending = deque([start])
    while pending and end not in routes:
        switch = pending.popleft()
        for trunk in trunks:
            if switch in trunk.ends:
                other = trunk.b if switch == trunk.a else trunk.a
                if other not in routes:
                    routes[other] = (*routes[switch], trunk)
                    pending.append(other)
    return routes.get(end)


def together_bits_per_s(ways: Sequence[Way], *, needed: bool = False) -> int | None:
    """Total rate of concurrent flows, one over each of `ways`; None if unlimited.

    `needed`: limit links to the rate that the load needs, see `Link.sustained_bits_per_s`. Shares
    are max-min fair: the flows over the link that is full first share it evenly, and the other
    flows take the rest. In a tree with one common end no other shares carry more in total.
    """
    free: dict[str, Fraction] = {}
    flows_over: dict[str, list[int]] = {}
    for flow, way in enumerate(ways):
        for entity, limit in zip(way.directions, _limits(way, needed=needed), strict=True):
            if limit is not None:
                free[entity] = Fraction(limit)
                flows_over.setdefault(entity, []).append(flow)
    active = set(range(len(ways)))
    if any(all(flow not in flows for flows in flows_over.values()) for flow in active):
        return None
    total = Fraction(0)
    while active:
        # A flow that passes the same direction twice counts twice.
        count = {entity: sum(flow in active for flow in flows) for entity, flows in flows_over.items()}
        increment = min(free[entity] / flows for entity, flows in count.items() if flows)
        total += increment * len(active)
        for entity, flows in count.items():
            free[entity] -= increment * flows
        active -= {flow for entity, flows in flows_over.items() if not free[entity] for flow in flows}
    return int(total)


def _limits(way: Way, *, needed: bool) -> Iterator[int | None]:
    """Limit of each hop of a path in its direction."""
    for hop in way.hops:
        rates = [hop.sends_bits_per_s if hop is way.source and isinstance(hop, Link) else hop.rate_bits_per_s]
        if needed:
            rates.append(hop.sustained_bits_per_s)
        yield min((rate for rate in rates if rate is not None), default=None)
