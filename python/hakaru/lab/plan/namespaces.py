"""The part that both backends share: namespaces of nodes, their ends of links, their routes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from hakaru.lab.plan.actions import AddAddress, SetMtu, SetRoute, SetSysctl, Setting, SetUp, Structure
from hakaru.lab.plan.parts import Link
from hakaru.lab.plan.routing import node_routes
from hakaru.lab.plan.tcp import TcpPlan
from hakaru.lab.plan.topology import Topology

CONGESTION_CONTROL = "net/ipv4/tcp_congestion_control"
SYSCTLS = (
    # Labs use only IPv4. With IPv6, every interface would add neighbour discovery to the counters.
    ("net/ipv6/conf/all/disable_ipv6", ("1",)),
    ("net/ipv6/conf/default/disable_ipv6", ("1",)),
    # Only the interface that has an address answers an ARP request for it, so that paths stay apart
    # although they share a switch.
    ("net/ipv4/conf/all/arp_ignore", ("1",)),
    ("net/ipv4/conf/all/arp_announce", ("2",)),
    # Linux's own default. A host with another default may not allow it in namespaces; Reno, which
    # CUBIC follows at the round-trip times of a lab (RFC 9438, section 4.3), is always allowed.
    (CONGESTION_CONTROL, ("cubic", "reno")),
    # A connection must not inherit the congestion window of the repetition before.
    ("net/ipv4/tcp_no_metrics_save", ("1",)),
)


def node_end(link: Link) -> Iterator[Structure]:
    """Actions for a node's own end of a link: add its address, and set it up."""
    yield AddAddress(link.node, link.interface, link.address, link.prefix_length)
    yield SetUp(link.node, link.interface)


def node_settings(topology: Topology, tcp: TcpPlan) -> Iterator[Setting]:
    """Sysctls of hosts and arrays, and the routes of their links."""
    for node in topology.nodes:
        if node.kind != "switch":
            for name, value in tcp.sysctls:
                yield SetSysctl(node.name, name, value)
    for link in topology.links:
        subnet = ipaddress.IPv4Interface(f"{link.address}/{link.prefix_length}").network
        yield _route(link, str(subnet), None, tcp)
    for route in node_routes(topology):
        yield _route(route.link, route.network, route.via, tcp)


def _route(link: Link, network: str, via: str | None, tcp: TcpPlan) -> SetRoute:
    return SetRoute(
        link.node,
        link.interface,
        network,
        link.address,
        tcp.congestion_control,
        tcp.initial_window,
        tcp.initial_receive_window,
        via,
    )


def mtu_settings(topology: Topology, switch_node: str | None, bridge: str | None) -> Iterator[Setting]:
    """The MTU of every interface. `switch_node`: namespace of all ports of switches; None: each
    switch has a namespace of its own.
    """
    if bridge is not None and topology.links:
        for switch in topology.switches:
            yield SetMtu(switch.name, bridge, topology.links[0].mtu)
    for link in topology.links:
        yield SetMtu(link.node, link.interface, link.mtu)
        yield SetMtu(switch_node or link.switch, link.port, link.mtu)
    if switch_node is None:
        for trunk in topology.trunks:
            for node in trunk.ends:
                yield SetMtu(node, trunk.name, trunk.mtu)
