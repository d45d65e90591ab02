"""Nodes and the links that join them, and the ways from one node to another. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hakaru.lab.plan.parts import Link, Node, Switch, Trunk, Vlan


@dataclass(frozen=True)
class Cable:
    """A node's link as it is plugged: the line, the switch at its far end, and the addresses at its
    near end.
    """

    line: Link | Trunk
    switch: str
    links: tuple[Link, ...]


@dataclass(frozen=True)
class Topology:
    """Nodes, switches and links of a lab, whatever they are made of."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    trunks: tuple[Trunk, ...] = ()
    switches: tuple[Switch, ...] = ()
    vlans: tuple[Vlan, ...] = ()

    def links_of(self, node: str) -> tuple[Link, ...]:
        """Links of a host or an array: one for each of its addresses."""
        return tuple(link for link in self.links if link.node == node)

    def cables(self, node: str) -> tuple[Cable, ...]:
        """Links of a host or an array as they are plugged: a trunk is one, however many addresses
        are on it.
        """
        found = []
        of_trunks: dict[str, list[Link]] = {}
        for link in self.links_of(node):
            if link.inside:
                of_trunks.setdefault(link.switch, []).append(link)
            else:
                found.append(Cable(link, link.switch, (link,)))
        for nic, links in of_trunks.items():
            trunk = next(trunk for trunk in self.trunks if nic in trunk.ends)
            found.append(Cable(trunk, trunk.b if trunk.a == nic else trunk.a, tuple(links)))
        return tuple(found)

    def vlan_name(self, vlan: int | None) -> str:
        """Return the name of a VLAN in the study, with its id."""
        return next((f"{one.name} ({one.id})" for one in self.vlans if one.id == vlan), str(vlan))


@dataclass(frozen=True)
class Way:
    """The way from a node's link over trunks to another node's link."""

    source: Link
    trunks: tuple[Trunk, ...]
    destination: Link

    @property
    def hops(self) -> tuple[Link | Trunk, ...]:
        """All links of the way, in order."""
        return (self.source, *self.trunks, self.destination)

    @property
    def rate_bits_per_s(self) -> int | None:
        """The slowest of what is in series; None: nothing is limited."""
        return together_bits_per_s([self])

    @property
    def delay_us(self) -> float:
        """Propagation, one way, without jitter and without what frames take to be sent."""
        return sum(hop.line.delay_us for hop in self.hops)

    @property
    def directions(self) -> tuple[str, ...]:
        """Name of each step of the way in counters: `link/NAME/a-b` or `link/NAME/b-a`."""
        at, names = self.source.node, []
        for hop in self.hops:
            first, second = hop.ends
            names.append(f"link/{hop.name}/{'a-b' if at == first else 'b-a'}")
            at = second if at == first else first
        return tuple(names)


def ways(links: Iterable[Link], trunks: tuple[Trunk, ...], source: str, destination: str) -> tuple[Way, ...]:
    """Every way between two nodes, one per path that both have a link of."""
    all_links = tuple(links)
    pairs = (
        (there, here)
        for here in all_links
        if here.node == destination
        for there in all_links
        if there.node == source and there.path == here.path
    )
    # Links of one path are in one network, so the trunks between them exist.
    return tuple(Way(there, trunks_between(trunks, there.switch, here.switch) or (), here) for there, here in pairs)


def trunks_between(trunks: Sequence[Trunk], start: str, end: str) -> tuple[Trunk, ...] | None:
    """The trunks from one switch to another, of which there is one sequence in a tree; None: they
    are not joined.
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
    """Rate of flows over several ways together, each with its share of what they have in common;
    None: no limit.

    `needed`: what the load needs of that, see `Link.sustained_bits_per_s`. Shares are max-min fair:
    whatever is full first is shared evenly by the flows over it, and the others take the rest. In a
    tree with one end in common nothing carries more.
    """
    room: dict[str, Fraction] = {}
    passes: dict[str, list[int]] = {}
    for flow, way in enumerate(ways):
        for entity, limit in zip(way.directions, _limits(way, needed=needed), strict=True):
            if limit is not None:
                room[entity] = Fraction(limit)
                passes.setdefault(entity, []).append(flow)
    going = set(range(len(ways)))
    if any(all(flow not in flows for flows in passes.values()) for flow in going):
        return None
    total = Fraction(0)
    while going:
        # A flow that passes the same direction twice takes twice.
        busy = {entity: sum(flow in going for flow in flows) for entity, flows in passes.items()}
        more = min(room[entity] / flows for entity, flows in busy.items() if flows)
        total += more * len(going)
        for entity, flows in busy.items():
            room[entity] -= more * flows
        going -= {flow for entity, flows in passes.items() if not room[entity] for flow in flows}
    return int(total)


def _limits(way: Way, *, needed: bool) -> Iterator[int | None]:
    """Limit of each hop of a way in its direction."""
    for hop in way.hops:
        rates = [hop.sends_bits_per_s if hop is way.source and isinstance(hop, Link) else hop.rate_bits_per_s]
        if needed:
            rates.append(hop.sustained_bits_per_s)
        yield min((rate for rate in rates if rate is not None), default=None)
