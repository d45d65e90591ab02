"""Reachability in a lab with VLANs: within a VLAN by its trunks, between VLANs through the switches
that route. Pure.

    node_routes(topology) -> tuple[NodeRoute, ...]         what every node's routing table is to
                                                           hold
    routed_ways(topology, source, destination)             every way that packets take, there and
                                                           back alike
    why_unreachable(topology, source, destination) -> str  in a sentence

A node sends what is for another VLAN's subnet to one router: the first (in the order of its own
links, then of the switches) from which packets reach a node there. Of two routers in a VLAN the
second is so a spare for other subnets, never a second path to the same. A way that packets do not
come back by is none: the other end answers through a link of its own, by its own table.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hakaru.lab.plan.parts import Link, RouterInterface, StaticRoute, Switch, Trunk
from hakaru.lab.plan.topology import Topology, Way, trunks_between


@dataclass(frozen=True)
class NodeRoute:
    """Of a node: what is for `network` goes to the router `via`, out of `link`."""

    node: str
    link: Link
    network: str
    via: str


class _NoWay(Exception):
    """Packets do not arrive; says why."""


def routed_ways(topology: Topology, source: str, destination: str) -> tuple[Way, ...]:
    """Every way between two nodes, in the order of the destination's links; at most one to each."""
    return tuple(way for here in topology.links_of(destination) for way in _ways_to(topology, source, here))


def _ways_to(topology: Topology, source: str, here: Link) -> Iterator[Way]:
    try:
        there = _link_toward(topology, source, here)
        if _link_toward(topology, here.node, there) == here:
            # A connection needs the way back as well.
            _trunks(topology, here, there)
            yield Way(there, _trunks(topology, there, here), here)
    except _NoWay:
        return


def why_unreachable(topology: Topology, source: str, destination: str) -> str:
    """Return the reason why no way leads from one node to another, found at their first links."""
    there, here = topology.links_of(source)[0], topology.links_of(destination)[0]
    for one, other in ((there, here), (here, there)):
        try:
            _trunks(topology, _link_toward(topology, one.node, other), other)
        except _NoWay as e:
            return str(e)
    return "the frames of the two directions take different ways"


def node_routes(topology: Topology) -> tuple[NodeRoute, ...]:
    """Routes of all nodes to the subnets of VLANs that they are not in themselves."""
    return _node_routes(topology)


@lru_cache(maxsize=16)
def _node_routes(topology: Topology) -> tuple[NodeRoute, ...]:
    nodes = dict.fromkeys(link.node for link in topology.links)
    return tuple(
        route
        for node in nodes
        for vlan in topology.vlans
        if vlan.id not in {link.vlan for link in topology.links_of(node)}
        for route in _first_route(topology, node, vlan.id, vlan.subnet)
    )


def _first_route(topology: Topology, node: str, vlan: int, subnet: str) -> Iterator[NodeRoute]:
    ends = [link for link in topology.links if link.vlan == vlan and link.node != node]
    for link in topology.links_of(node):
        for via in _routers_in(topology, link.vlan):
            if any(_arrives(topology, link, via, end) for end in ends):
                yield NodeRoute(node, link, subnet, via)
                return


def _routers_in(topology: Topology, vlan: int | None) -> Iterator[str]:
    for switch in topology.switches:
        for interface in switch.interfaces:
            if interface.vlan == vlan:
                yield interface.address


def _arrives(topology: Topology, link: Link, via: str, end: Link) -> bool:
    try:
        _routed(topology, link, via, end)
    except _NoWay:
        return False
    return True


def _link_toward(topology: Topology, node: str, end: Link) -> Link:
    """Out of which link a node sends what is for an address."""
    for link in topology.links_of(node):
        if link.vlan == end.vlan:
            return link
    for route in node_routes(topology):
        if route.node == node and ipaddress.ip_address(end.address) in ipaddress.ip_network(route.network):
            return route.link
    own = topology.links_of(node)
    tried = [(link, via) for link in own for via in _routers_in(topology, link.vlan)]
    for link, via in tried:
        _routed(topology, link, via, end)
    names = " and ".join(topology.vlan_name(link.vlan) for link in own)
    raise _NoWay(f"no switch routes between VLAN {names} and {topology.vlan_name(end.vlan)}")


def _trunks(topology: Topology, link: Link, end: Link) -> tuple[Trunk, ...]:
    """The trunks from a node's link to an address. Raises _NoWay."""
    if link.vlan == end.vlan:
        return _bridged(topology, link.vlan, link.switch, end.switch)
    via = next((r.via for r in node_routes(topology) if r.link == link and r.network == _subnet(topology, end)), None)
    if via is None:
        raise _NoWay(f"{link.node!r} has no route to VLAN {topology.vlan_name(end.vlan)}")
    return _routed(topology, link, via, end)


def _subnet(topology: Topology, end: Link) -> str:
    return next(vlan.subnet for vlan in topology.vlans if vlan.id == end.vlan)


def _routed(topology: Topology, link: Link, via: str, end: Link) -> tuple[Trunk, ...]:
    """The way by router after router, as their tables say."""
    at, vlan, trunks, seen = link.switch, link.vlan, list[Trunk](), list[str]()
    while True:
        router = _router_at(topology, vlan, via)
        trunks += _bridged(topology, vlan, at, router.name)
        at = router.name
        if at in seen:
            raise _NoWay(f"static routes to {end.address} lead in a circle: {' → '.join([*seen, at])}")
        seen.append(at)
        connected, static = _table(router, end.address)
        if connected is not None:
            return (*trunks, *_bridged(topology, connected.vlan, at, end.switch))
        if static is None:
            raise _NoWay(f"switch {at!r} has neither an interface in VLAN {topology.vlan_name(end.vlan)} nor a route")
        vlan, via = _vlan_of(router, static.via), static.via


def _table(router: Switch, address: str) -> tuple[RouterInterface | None, StaticRoute | None]:
    """The entry of a routing table for an address: a connected subnet or a static route; the
    longest prefix.
    """
    target = ipaddress.ip_address(address)
    candidates: list[tuple[int, RouterInterface | None, StaticRoute | None]] = []
    for interface in router.interfaces:
        network = _network(interface)
        if target in network:
            candidates.append((network.prefixlen, interface, None))
    for route in router.routes:
        network = ipaddress.IPv4Network(route.network)
        if target in network:
            candidates.append((network.prefixlen, None, route))
    # Among prefixes of one length a subnet comes before a route, as the fabric has it.
    _, connected, static = max(candidates, key=lambda one: (one[0], one[1] is not None), default=(0, None, None))
    return connected, static


def _network(interface: RouterInterface) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Interface(f"{interface.address}/{interface.prefix_length}").network


def _vlan_of(router: Switch, via: str) -> int:
    return next(interface.vlan for interface in router.interfaces if ipaddress.ip_address(via) in _network(interface))


def _router_at(topology: Topology, vlan: int | None, address: str) -> Switch:
    for switch in topology.switches:
        for interface in switch.interfaces:
            if (interface.vlan, interface.address) == (vlan, address):
                return switch
    raise _NoWay(f"no router has the address {address} in VLAN {topology.vlan_name(vlan)}")


def _bridged(topology: Topology, vlan: int | None, start: str, end: str) -> tuple[Trunk, ...]:
    """The trunks from one switch to another that carry a VLAN. Raises _NoWay."""
    trunks = trunks_between([trunk for trunk in topology.trunks if trunk.carries(vlan)], start, end)
    if trunks is None:
        raise _NoWay(f"no link carries VLAN {topology.vlan_name(vlan)} from {start!r} to {end!r}")
    return trunks
