"""Guests of hosts in a lab link by link. Pure; planning includes the checks.

    vm01 ── NIC ┐
    vm02 ── NIC ┼ bridge of kvm-1 ═══ link kvm-1 ═══ core
    kvm-1 ──────┘

A guest is a node with an address in the network of its host. Its interface has a rate of its own
and leads to the bridge of the host, a switch inside the fabric, to which the host's own interface
is joined as well. The line from there to the study's switch is the link of the host.

    with_guest_links(spec) -> LabSpec           the lab with a link of each guest to the switch of
                                                its host
    behind_bridges(topology, guests)            the same links, led through the bridges

Each refusal is an ImpossibleLabError with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hakaru.lab.model import GuestsSpec, LabSpec, LinkSpec
from hakaru.lab.plan.limits import check_name, check_rate
from hakaru.lab.plan.nic import inside, line_of, nic_of
from hakaru.lab.plan.parts import Link, Switch, Trunk
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.topology import Topology


def guest_names(spec: LabSpec) -> tuple[str, ...]:
    """Names of all guests, in the order of the study."""
    return tuple(name for guests in (spec.guests or {}).values() for name in guests.names)


def with_guest_links(spec: LabSpec, hosts: tuple[str, ...]) -> dict[str, LinkSpec]:
    """The links of a lab, with one of each guest to the switch of its host."""
    links = dict(spec.links or {})
    for host, guests in (spec.guests or {}).items():
        link = _link_of(spec, host, hosts)
        check_rate(f"guests.{host}.nic_rate", guests.nic_rate, "fabric", ("guests", host, "nic_rate"))
        switch = next(end for end in link.between if end != host)
        for i, name in enumerate(guests.names):
            path = ("guests", host, "names", i)
            check_name(name, "a guest", path)
            if name in links:
                raise ImpossibleLabError(f"the name {name!r} is given twice", "give every guest and link its own", path)
            nic = LinkSpec(between=(name, switch), pause=True, vlan=link.vlan)
            # The rate is a number by now, and the model reads only text.
            links[name] = nic.model_copy(update={"rate": guests.nic_rate})
    return links


def _link_of(spec: LabSpec, host: str, hosts: tuple[str, ...]) -> LinkSpec:
    """The only link of a host with guests."""
    if host not in hosts:
        raise ImpossibleLabError(f"there is no host {host!r}", f"the lab has {', '.join(hosts)}", ("guests", host))
    links = {name: link for name, link in (spec.links or {}).items() if host in link.between}
    if len(links) != 1:
        raise ImpossibleLabError(
            f"host {host!r} has guests and {len(links)} links", "give it exactly one link", ("guests", host)
        )
    name, link = next(iter(links.items()))
    for field in ("vlans", "send_rate"):
        if getattr(link, field) is not None:
            raise ImpossibleLabError(
                f"links.{name}.{field}: the guests of {host!r} share this link",
                "use `vlan` and `rate` there, and `nic_rate` for the guests",
                ("links", name, field),
            )
    return link


def behind_bridges(topology: Topology, guests: Mapping[str, GuestsSpec]) -> Topology:
    """Lead the links of hosts with guests, and of their guests, through the hosts' bridges."""
    links, trunks, bridges = list[Link](), list[Trunk](), list[Switch]()
    bridge_of = {
        name: nic_of(topology.links_of(host)[0]) for host, spec in guests.items() for name in (host, *spec.names)
    }
    for link in topology.links:
        bridge = bridge_of.get(link.node)
        if bridge is None:
            links.append(link)
        elif link.node in guests:
            links.append(inside(link, link.interface, link.port))
            trunks.append(line_of(link, ()))
            bridges.append(bridge)
        else:
            links.append(replace(link, switch=bridge.name))
    return replace(
        topology,
        links=tuple(links),
        trunks=(*trunks, *topology.trunks),
        switches=(*topology.switches, *bridges),
    )
