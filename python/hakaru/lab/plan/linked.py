"""A lab link by link: any tree of switches, any node with links to any of them.

Switches that trunks join are one network. A node's first link into a network has an address in that
network's first subnet, its second in the second, and so on, so that two links into one network stay
two paths. With `vlans` every VLAN is a network, see `linked_vlans`. Guests are planned as nodes at
the switch of their host, and then moved behind its bridge, see `guests`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hakaru.lab.model import STAR_FIELDS, LabSpec, LinkSpec, SwitchSpec
from hakaru.lab.plan.addresses import plan_subnets
from hakaru.lab.plan.guests import behind_bridges, guest_names, with_guest_links
from hakaru.lab.plan.limits import Backend, check_mtu, host_names
from hakaru.lab.plan.linked_check import (
    check_connected,
    check_ends,
    check_link,
    check_names,
    check_reachable,
    check_routed,
    check_sizes,
    check_switch,
    check_without_vlans,
    is_trunk,
    networks_of,
)
from hakaru.lab.plan.linked_vlans import NodeEnd, plan_vlans
from hakaru.lab.plan.parts import Link, Node, Switch, Trunk
from hakaru.lab.plan.quality import plan_discipline, plan_line
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.topology import Topology


def linked(spec: LabSpec, backend: Backend) -> Topology:
    """The topology of a lab that is given link by link. Raises ImpossibleLabError."""
    given = sorted(spec.model_fields_set & set(STAR_FIELDS))
    if given:
        raise ImpossibleLabError(
            f"`{given[0]}` belongs to a star, `links` to a lab link by link", "use one of the two forms", (given[0],)
        )
    hosts, arrays = host_names(spec.hosts), spec.arrays or ()
    switches, links = spec.switches or {}, with_guest_links(spec, hosts)
    if not arrays:
        raise ImpossibleLabError("it has no array", "name one: `arrays: [array]`", ("arrays",))
    guests = guest_names(spec)
    loading = [*hosts, *guests]
    check_names(loading, arrays, switches, links)
    check_mtu(spec.mtu)
    for name, switch in switches.items():
        check_switch(name, switch, spec.mtu)
    kinds = {**dict.fromkeys(loading, "host"), **dict.fromkeys(arrays, "array"), **dict.fromkeys(switches, "switch")}
    pairs: dict[frozenset[str], str] = {}
    for name, link in links.items():
        check_ends(name, link, kinds, pairs)
        check_link(name, link, spec.mtu, backend)
    check_sizes(switches, links, backend)
    networks = networks_of(switches, links)
    check_connected(kinds, links)
    nodes = (
        *(Node(name, "host") for name in hosts),
        *(Node(name, "guest") for name in guests),
        *(Node(name, "switch") for name in switches),
        *(Node(name, "array") for name in arrays),
    )
    trunks = {name: _trunk(spec, name, link) for name, link in links.items() if is_trunk(link, switches)}
    planned_switches = tuple(_switch(name, switch) for name, switch in switches.items())
    if spec.vlans is None:
        check_without_vlans(switches, links)
        node_links = _links(spec, links, [*arrays, *loading], networks, kinds)
        check_reachable(node_links, kinds)
        topology = Topology(nodes, node_links, tuple(trunks.values()), planned_switches)
        return behind_bridges(topology, spec.guests or {})
    spec = spec.model_copy(update={"links": links})
    vlans = plan_vlans(spec, [*arrays, *loading], _node_ends(spec, links, networks, kinds), trunks, planned_switches)
    topology = Topology(nodes, vlans.links, vlans.trunks, vlans.switches, vlans.vlans)
    topology = behind_bridges(topology, spec.guests or {})
    check_routed(topology, loading, arrays)
    return topology


def _node_ends(
    spec: LabSpec, links: Mapping[str, LinkSpec], networks: Mapping[str, int], kinds: Mapping[str, str]
) -> list[NodeEnd]:
    """Links of nodes in the order of the study, not yet in VLANs and without addresses."""
    ends = []
    count: dict[str, int] = {}
    for name, link in links.items():
        if not is_trunk(link, networks):
            node, switch = _node_and_switch(link, kinds)
            interface = f"eth{count.get(node, 0)}"
            count[node] = count.get(node, 0) + 1
            ends.append(NodeEnd(name, link, _link(spec, name, link, node, switch, interface, 0, "", 0)))
    return ends


def _links(
    spec: LabSpec,
    links: Mapping[str, LinkSpec],
    nodes: list[str],
    networks: Mapping[str, int],
    kinds: Mapping[str, str],
) -> tuple[Link, ...]:
    """Links of nodes with their addresses, in the order of the study."""
    # A subnet is identified by the network and the number of the node's link into it.
    subnet_of: dict[str, tuple[int, int]] = {}
    interface_of: dict[str, str] = {}
    seen: dict[str, list[int]] = {}
    for name, link in links.items():
        if not is_trunk(link, networks):
            node, switch = _node_and_switch(link, kinds)
            into = seen.setdefault(node, [])
            interface_of[name] = f"eth{len(into)}"
            subnet_of[name] = (networks[switch], into.count(networks[switch]))
            into.append(networks[switch])
    paths = {subnet: path for path, subnet in enumerate(sorted(set(subnet_of.values())))}
    subnets = plan_subnets(spec.network, max(1, len(paths)), len(nodes))
    planned = []
    for name, subnet in subnet_of.items():
        node, switch = _node_and_switch(links[name], kinds)
        path = paths[subnet]
        place = nodes.index(node) + 1
        address = str(subnets[path][place])
        planned.append(
            _link(spec, name, links[name], node, switch, interface_of[name], path, address, subnets[path].prefixlen)
        )
    return tuple(planned)


def _node_and_switch(link: LinkSpec, kinds: Mapping[str, str]) -> tuple[str, str]:
    a, b = link.between
    return (b, a) if kinds[a] == "switch" else (a, b)


def _link(
    spec: LabSpec,
    name: str,
    link_spec: LinkSpec,
    node: str,
    switch: str,
    interface: str,
    path: int,
    address: str,
    prefix_length: int,
) -> Link:
    return Link(
        name=name,
        node=node,
        interface=interface,
        switch=switch,
        port=name,
        path=path,
        address=address,
        prefix_length=prefix_length,
        rate_bits_per_s=link_spec.rate,
        queue_bytes=link_spec.queue,
        mtu=spec.mtu,
        send_rate_bits_per_s=link_spec.send_rate,
        discipline=plan_discipline(link_spec.discipline),
        pause=link_spec.pause,
        line=plan_line(link_spec),
        node_first=link_spec.between[0] == node,
        sustained_bits_per_s=link_spec.sustained,
    )


def _trunk(spec: LabSpec, name: str, link_spec: LinkSpec) -> Trunk:
    a, b = link_spec.between
    discipline = plan_discipline(link_spec.discipline)
    return Trunk(
        name,
        a,
        b,
        link_spec.rate,
        link_spec.queue,
        spec.mtu,
        discipline,
        link_spec.pause,
        plan_line(link_spec),
        link_spec.sustained,
    )


def _switch(name: str, switch_spec: SwitchSpec) -> Switch:
    shared = switch_spec.shared_buffer
    return Switch(name, switch_spec.forwarding, shared.bytes if shared else None, shared.alpha if shared else 1.0)
