"""What is joined to what, and the way from one node to another. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from hakaru.lab.parts import Link, Node, Switch, Trunk


@dataclass(frozen=True)
class Topology:
    """Nodes, switches and links of a lab, whatever they are made of."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    trunks: tuple[Trunk, ...] = ()
    switches: tuple[Switch, ...] = ()


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
        rates = [self.source.sends_bits_per_s, *(trunk.rate_bits_per_s for trunk in self.trunks)]
        rates.append(self.destination.rate_bits_per_s)
        return min((rate for rate in rates if rate is not None), default=None)

    @property
    def delay_us(self) -> float:
        """Propagation, one way, without jitter and without what frames take to be sent."""
        return sum(hop.line.delay_us for hop in self.hops)

    @property
    def directions(self) -> tuple[str, ...]:
        """What counters call each step of the way: `link/NAME/a-b` or `link/NAME/b-a`."""
        at, names = self.source.node, []
        for hop in self.hops:
            first, second = hop.ends
            names.append(f"link/{hop.name}/{'a-b' if at == first else 'b-a'}")
            at = second if at == first else first
        return tuple(names)


def ways(links: Iterable[Link], trunks: tuple[Trunk, ...], source: str, destination: str) -> tuple[Way, ...]:
    """Every way between two nodes, one per path that both have a link of."""
    all_links = tuple(links)
    return tuple(
        Way(there, _between(trunks, there.switch, here.switch), here)
        for here in all_links
        if here.node == destination
        for there in all_links
        if there.node == source and there.path == here.path
    )


def _between(trunks: tuple[Trunk, ...], start: str, end: str) -> tuple[Trunk, ...]:
    """Trunks from one switch to another: the only ones, since there is no loop."""
    routes: dict[str, tuple[Trunk, ...]] = {start: ()}
    waiting = deque([start])
    while waiting and end not in routes:
        at = waiting.popleft()
        for trunk in trunks:
            if at in trunk.ends:
                other = trunk.b if at == trunk.a else trunk.a
                if other not in routes:
                    routes[other] = (*routes[at], trunk)
                    waiting.append(other)
    return routes[end]


def together_bits_per_s(
    trunks: tuple[Trunk, ...], sources: Sequence[Link], destination: Link, *, back: bool, needed: bool = False
) -> int | None:
    """What several nodes together can send to one (`back`: it to them) over a tree of switches; None: no limit.

    `needed`: what the load needs of that, see `Link.sustained_bits_per_s`.
    """

    def limit(link: Link | Trunk, *, sends: bool) -> float:
        rates = [link.sends_bits_per_s if sends and isinstance(link, Link) else link.rate_bits_per_s]
        if needed:
            rates.append(link.sustained_bits_per_s)
        return min((rate for rate in rates if rate is not None), default=inf)

    def gather(switch: str, seen: Trunk | None) -> float:
        """What comes together at a switch from all sides but that of the trunk `seen`."""
        total = sum(limit(link, sends=not back) for link in sources if link.switch == switch)
        for trunk in trunks:
            if trunk is not seen and switch in trunk.ends:
                other = trunk.b if switch == trunk.a else trunk.a
                total += min(gather(other, trunk), limit(trunk, sends=False))
        return total

    all_of_it = min(gather(destination.switch, None), limit(destination, sends=back))
    return None if all_of_it == inf else int(all_of_it)
