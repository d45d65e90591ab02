"""Reachability in a lab with VLANs: within a VLAN over its trunks, between VLANs through switches
that route. Pure.

    node_routes(topology) -> tuple[NodeRoute, ...]         routes for the routing table of every
                                                           node
    routed_ways(topology, source, destination)             every path that packets take in both
                                                           directions
    why_unreachable(topology, source, destination) -> str  the reason in a sentence

A node sends packets for another VLAN's subnet to one router: the first (in the order of its own
links, then of the switches) from which packets reach a node in that subnet. A second router in a
VLAN therefore serves only other subnets, and is never a second path to the same one. A path counts
only if packets return by it: the other end answers through a link of its own, by its own table.
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
    """A route of a node: packets for `network` go to the router `via`, out of `link`."""

    node: str
    link: Link
    network: str
    via: str


class _Unreachable(Exception):
    """Packets do not arrive; the message is the reason."""


def routed_ways(topology: Topology, source: str, destination: str) -> tuple[Way, ...]:
    """Every path between two nodes, at most one to each of the destination's links, in order."""
    return _routed_ways(topology, source, destination)


# The points of a study have few topologies, and each point asks for the paths of all its nodes.
@lru_cache(maxsize=256)
def _routed_ways(topology: Topology, source: str, destination: str) -> tuple[Way, ...]:
    return tuple(way for end in topology.links_of(destination) for way in _ways_to(topology, source, end))


def _ways_to(topology: Topology, source: str, end: Link) -> Iterator[Way]:
    try:
        start = _link_toward(topology, source, end)
        if _link_toward(topology, end.node, start) == end:
            # A connection needs the return path as well.
            _trunks(topology, end, start)
            yield Way(start, _trunks(topology, start, end), end)
    except _Unreachable:
        return


def why_unreachable(topology: Topology, source: str, destination: str) -> str:
    """Return the reason why no path leads from one node to another, judged by their first links."""
    start, end = topology.links_of(source)[0], topology.links_of(destination)[0]
    for sender, receiver in ((start, end), (end, start)):
        try:
            _trunks(topology, _link_toward(topology, sender.node, receiver), receiver)
        except _Unreachable as e:
            return str(e)
    return "the frames of the two directions take different paths"


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
    except _Unreachable:
        return False
    return True


def _link_toward(topology: Topology, node: str, end: Link) -> Link:
    """Return the link through which a node sends packets for an address. Raises _Unreachable."""
    for link in topology.links_of(node):
        if link.vlan == end.vlan:
            return link
    for route in node_routes(topology):
        if route.node == node and ipaddress.ip_address(end.address) in ipaddress.ip_network(route.network):
            return route.link
    own_links = topology.links_of(node)
    routers = [(link, via) for link in own_links for via in _routers_in(topology, link.vlan)]
    for link, via in routers:
        _routed(topology, link, via, end)
    names = " and ".join(topology.vlan_name(link.vlan) for link in own_links)
    raise _Unreachable(f"no switch routes between VLAN {names} and {topology.vlan_name(end.vlan)}")


def _trunks(topology: Topology, link: Link, end: Link) -> tuple[Trunk, ...]:
    """The trunks from a node's link to an address. Raises _Unreachable."""
    if link.vlan == end.vlan:
        return _bridged(topology, link.vlan, link.switch, end.switch)
    via = next((r.via for r in node_routes(topology) if r.link == link and r.network == _subnet(topology, end)), None)
    if via is None:
        raise _Unreachable(f"{link.node!r} has no route to VLAN {topology.vlan_name(end.vlan)}")
    return _routed(topology, link, via, end)


def _subnet(topology: Topology, end: Link) -> str:
    return next(vlan.subnet for vlan in topology.vlans if vlan.id == end.vlan)


def _routed(topology: Topology, link: Link, via: str, end: Link) -> tuple[Trunk, ...]:
    """The trunks from router to router, as their routing tables define. Raises _Unreachable."""
    at, vlan, trunks, seen = link.switch, link.vlan, list[Trunk](), list[str]()
    while True:
        router = _router_at(topology, vlan, via)
        trunks += _bridged(topology, vlan, at, router.name)
        at = router.name
        if at in seen:
            raise _Unreachable(f"static routes to {end.address} form a loop: {' → '.join([*seen, at])}")
        seen.append(at)
        connected, static = _table(router, end.address)
        if connected is not None:
            return (*trunks, *_bridged(topology, connected.vlan, at, end.switch))
        if static is None:
            raise _Unreachable(
                f"switch {at!r} has neither an interface in VLAN {topology.vlan_name(end.vlan)} nor a route"
            )
        vlan, via = _vlan_of(router, static.via), static.via


def _table(router: Switch, address: str) -> tuple[RouterInterface | None, StaticRoute | None]:
    """The entry of a routing table with the longest prefix for an address: a connected subnet or a
    static route. Both are None if there is no entry.
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
    # Of prefixes of equal length a connected subnet precedes a static route, as in the fabric.
    _, connected, static = max(
        candidates, key=lambda candidate: (candidate[0], candidate[1] is not None), default=(0, None, None)
    )
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
    raise _Unreachable(f"no router has the address {address} in VLAN {topology.vlan_name(vlan)}")


def _bridged(topology: Topology, vlan: int | None, start: str, end: str) -> tuple[Trunk, ...]:
    """The trunks from one switch to another that carry a VLAN. Raises _Unreachable."""
    trunks = trunks_between([trunk for trunk in topology.trunks if trunk.carries(vlan)], start, end)
    if trunks is None:
        raise _Unreachable(f"no link carries VLAN {topology.vlan_name(vlan)} from {start!r} to {end!r}")
    return trunks
