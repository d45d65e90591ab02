"""VLANs of a lab link by link: the VLANs of each port, addresses in their subnets, routers.
Planning includes the checks.

    host ───── access port: VLAN servers ┐
                                         ├ edge ══ trunk: storage, servers ══ core (routes)
    array ════ trunk: storage, backup ═══┘

**A node on a trunk** has an interface in each of its VLANs (eth0.10, eth0.20) and a small switch of
its own in the fabric, which tags their frames onto the one link, so that kernels without 802.1Q can
run it as well (`hakaru.lab.plan.nic`).

Each refusal is an ImpossibleLabError with its place.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hakaru.lab.model import LabSpec, LinkSpec, SwitchSpec
from hakaru.lab.model.vlan import RouterSpec
from hakaru.lab.plan.addresses import plan_subnets
from hakaru.lab.plan.linked_check import is_trunk
from hakaru.lab.plan.nic import inside, line_of, nic_of
from hakaru.lab.plan.parts import Link, RouterInterface, StaticRoute, Switch, Trunk, Vlan
from hakaru.lab.plan.refusal import ImpossibleLabError, Path_


@dataclass(frozen=True)
class NodeEnd:
    """A link of a node as the study defines it, and as planned without VLANs."""

    name: str
    spec: LinkSpec
    link: Link


class _Vlans:
    """The VLANs of a lab and the addresses that are taken in them."""

    def __init__(self, spec: LabSpec, nodes: Sequence[str]) -> None:
        vlans = spec.vlans or {}
        if not vlans:
            raise ImpossibleLabError("`vlans` is empty", "add a VLAN, or leave `vlans` out", ("vlans",))
        self.ids = {name: vlan.id for name, vlan in vlans.items()}
        self.networks: dict[str, ipaddress.IPv4Network] = {}
        given = {name: _subnet(name, vlan.subnet) for name, vlan in vlans.items() if vlan.subnet is not None}
        free = _free_subnets(spec, len(vlans), len(nodes) + len(spec.switches or {}), list(given.values()))
        for name in vlans:
            self.networks[name] = given.get(name) or next(free)
            self._check_apart(name)
        self._taken: dict[str, str] = {}

    def _check_apart(self, name: str) -> None:
        for other in list(self.networks)[:-1]:
            if self.ids[other] == self.ids[name]:
                raise ImpossibleLabError(
                    f"VLANs {other!r} and {name!r} both have the id {self.ids[name]}",
                    "give each its own",
                    ("vlans", name, "id"),
                )
            if self.networks[other].overlaps(self.networks[name]):
                raise ImpossibleLabError(
                    f"the subnets of VLANs {other!r} and {name!r} overlap: {self.networks[other]}, "
                    f"{self.networks[name]}",
                    "give each a subnet of its own",
                    ("vlans", name, "subnet"),
                )

    def all(self) -> tuple[Vlan, ...]:
        return tuple(Vlan(name, self.ids[name], str(network)) for name, network in self.networks.items())

    def check(self, name: str, path: Path_) -> None:
        """Refuse a VLAN that the lab does not declare."""
        if name not in self.ids:
            raise ImpossibleLabError(f"there is no VLAN {name!r}", f"the lab has {', '.join(self.ids)}", path)

    def take(self, vlan: str, address: str, owner: str, path: Path_) -> str:
        """Reserve an address for a node or switch. Refuses one outside the subnet, or of another
        owner.
        """
        network = self.networks[vlan]
        try:
            given = ipaddress.IPv4Address(address)
        except ValueError as error:
            raise ImpossibleLabError(f"the address of {owner}: {error}", f"use one of {network}", path) from None
        if given not in network or given in (network.network_address, network.broadcast_address):
            raise ImpossibleLabError(
                f"{owner} has the address {given}, which is outside of the subnet of VLAN {vlan!r}, {network}",
                f"use {network[1]} to {network[-2]}",
                path,
            )
        other = self._taken.setdefault(str(given), owner)
        if other != owner:
            raise ImpossibleLabError(f"{other} and {owner} both have the address {given}", "give each its own", path)
        return str(given)

    def choose(self, vlan: str, place: int, owner: str, path: Path_) -> str:
        """Reserve the address at a place of the subnet, or else the first free one."""
        network = self.networks[vlan]
        try:
            return self.take(vlan, str(network[place]), owner, path)
        except (IndexError, ImpossibleLabError):
            pass
        free = (str(host) for host in network.hosts() if str(host) not in self._taken)
        address = next(free, None)
        if address is None:
            raise ImpossibleLabError(
                f"VLAN {vlan!r} has no address left for {owner}: its subnet is {network}",
                "give it a larger subnet",
                ("vlans", vlan, "subnet"),
            )
        return self.take(vlan, address, owner, path)


def _free_subnets(
    spec: LabSpec, vlans: int, nodes: int, given: Sequence[ipaddress.IPv4Network]
) -> Iterator[ipaddress.IPv4Network]:
    """Subnets of the lab's network for VLANs that name none, apart from those that are given."""
    if len(given) < vlans:
        prefix_length = plan_subnets(spec.network, vlans, nodes)[0].prefixlen
        for subnet in ipaddress.IPv4Network(spec.network).subnets(new_prefix=prefix_length):
            if not any(subnet.overlaps(other) for other in given):
                yield subnet
        raise ImpossibleLabError(
            f"network {spec.network} has no room for the VLANs that name no subnet", "give them subnets", ("network",)
        )


def _subnet(name: str, text: str) -> ipaddress.IPv4Network:
    path = ("vlans", name, "subnet")
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ImpossibleLabError(f"subnet of VLAN {name!r}: {error}", "write it as 10.77.10.0/24", path) from None
    if not network.is_private or network.is_loopback or network.is_link_local or network.prefixlen > 30:
        raise ImpossibleLabError(
            f"subnet of VLAN {name!r}: {network} is not a private network (RFC 1918) with room for two nodes",
            "use for example 10.77.10.0/24",
            path,
        )
    return network


@dataclass(frozen=True)
class VlanPlan:
    """Links and switches of a lab with their VLANs."""

    vlans: tuple[Vlan, ...]
    links: tuple[Link, ...]
    trunks: tuple[Trunk, ...]
    switches: tuple[Switch, ...]


def plan_vlans(
    spec: LabSpec,
    nodes: Sequence[str],
    ends: Sequence[NodeEnd],
    trunks: Mapping[str, Trunk],
    switches: Sequence[Switch],
) -> VlanPlan:
    """Put links, trunks and routers into the VLANs of a lab. Raises ImpossibleLabError."""
    vlans = _Vlans(spec, nodes)
    link_specs, switch_specs = spec.links or {}, spec.switches or {}
    for name, link in link_specs.items():
        _check_port(name, link, vlans, between_switches=is_trunk(link, switch_specs))
    # Reserve the given addresses before choosing any.
    given = {**_given_to_nodes(ends, vlans), **_given_to_routers(switch_specs, vlans)}
    made_links, made_trunks, nics = list[Link](), list[Trunk](), list[Switch]()
    for number, end in enumerate(ends):
        inner, trunk, nic = _node_port(end, f"t{number}", nodes, vlans, given)
        made_links += inner
        made_trunks += trunk
        nics += nic
    _check_once(made_links, vlans)
    for name, switch_trunk in trunks.items():
        made_trunks.append(_in_vlans(switch_trunk, link_specs[name], vlans))
    routers = [_router(switch, switch_specs[switch.name], vlans, given) for switch in switches]
    _check_routers(routers, made_links, made_trunks, vlans)
    return VlanPlan(vlans.all(), tuple(made_links), tuple(made_trunks), (*routers, *nics))


def _check_port(name: str, link: LinkSpec, vlans: _Vlans, *, between_switches: bool) -> None:
    path = ("links", name)
    if link.vlan is not None and link.vlans is not None:
        raise ImpossibleLabError(
            f"link {name!r} has both `vlan` and `vlans`",
            "`vlan` makes its port an access port, `vlans` a trunk: give only one of them",
            (*path, "vlans"),
        )
    if link.vlan is None and not link.vlans:
        known = ", ".join(vlans.ids)
        if between_switches or link.vlans is not None:
            message, hint = f"link {name!r} is a trunk without VLANs", f"name those that it carries: `vlans: [{known}]`"
        else:
            message, hint = f"link {name!r} is in no VLAN", f"name its VLAN: `vlan:` with one of {known}"
        raise ImpossibleLabError(message, hint, (*path, "vlans") if link.vlans is not None else path)
    for i, vlan in enumerate(link.vlans or ()):
        vlans.check(vlan, (*path, "vlans", i))
        if vlan in (link.vlans or ())[:i]:
            raise ImpossibleLabError(f"link {name!r} carries {vlan!r} twice", "leave one out", (*path, "vlans", i))
    if link.vlan is not None:
        vlans.check(link.vlan, (*path, "vlan"))
    if between_switches and link.address is not None:
        raise ImpossibleLabError(
            f"link {name!r} joins two switches, but has an address",
            "give addresses of switches under `switches: NAME: router: interfaces`",
            (*path, "address"),
        )
    if link.vlans is not None and link.send_rate is not None:
        raise ImpossibleLabError(
            f"links.{name}.send_rate: a node's interfaces on a trunk share the link's rate", "give `rate` alone", path
        )


def _given_to_nodes(ends: Sequence[NodeEnd], vlans: _Vlans) -> dict[tuple[str, str], str]:
    """(Link, VLAN) → the address that the study gives its node there."""
    given = {}
    for end in ends:
        path: Path_ = ("links", end.name, "address")
        address, carried = end.spec.address, _vlans_of(end.spec)
        if isinstance(address, str) and end.spec.vlans is not None:
            raise ImpossibleLabError(
                f"link {end.name!r} carries several VLANs, but has one address",
                f"name the VLAN of the address: `address: {{{carried[0]}: {address}}}`",
                path,
            )
        addresses = {carried[0]: address} if isinstance(address, str) else address or {}
        for vlan, address_ in addresses.items():
            place = path if isinstance(address, str) else (*path, vlan)
            vlans.check(vlan, place)
            if vlan not in carried:
                raise ImpossibleLabError(
                    f"link {end.name!r} has an address in VLAN {vlan!r}, but is in {', '.join(carried)}",
                    "put it into that VLAN, or leave the address out",
                    place,
                )
            given[end.name, vlan] = vlans.take(vlan, address_, f"{end.link.node!r}", place)
    return given


def _given_to_routers(switches: Mapping[str, SwitchSpec], vlans: _Vlans) -> dict[tuple[str, str], str]:
    """(Switch, VLAN) → the address that the study gives it there."""
    given = {}
    for name, switch in switches.items():
        for vlan, address in (switch.router.addresses if switch.router else {}).items():
            path = ("switches", name, "router", "interfaces", *_key(switch.router, vlan))
            vlans.check(vlan, path)
            if address is not None:
                given[name, vlan] = vlans.take(vlan, address, f"{name!r}", path)
    return given


def _key(router: RouterSpec | None, vlan: str) -> tuple[str | int, ...]:
    """Return the place of a VLAN in `interfaces`."""
    if router is None or isinstance(router.interfaces, dict):
        return (vlan,)
    return (router.interfaces.index(vlan),)


def _vlans_of(link: LinkSpec) -> tuple[str, ...]:
    return link.vlans or ((link.vlan,) if link.vlan is not None else ())


def _node_port(
    end: NodeEnd, port: str, nodes: Sequence[str], vlans: _Vlans, given: Mapping[tuple[str, str], str]
) -> tuple[list[Link], list[Trunk], list[Switch]]:
    """Plan a node's access port; or its trunk, the switch that tags for it, and its interfaces
    (with ports named `port`.ID).
    """
    link, spec = end.link, end.spec
    addressed = []
    for vlan in _vlans_of(spec):
        address = given.get((end.name, vlan)) or vlans.choose(
            vlan, nodes.index(link.node) + 1, f"{link.node!r}", ("links", end.name)
        )
        path, number, bits = list(vlans.ids).index(vlan), vlans.ids[vlan], vlans.networks[vlan].prefixlen
        addressed.append(replace(link, path=path, vlan=number, address=address, prefix_length=bits))
    if spec.vlans is None:
        return addressed, [], []
    trunk = line_of(link, tuple(vlans.ids[vlan] for vlan in spec.vlans))
    interfaces = [inside(a, f"{a.interface}.{a.vlan}", f"{port}.{a.vlan}") for a in addressed]
    return interfaces, [trunk], [nic_of(link)]


def _check_once(links: Sequence[Link], vlans: _Vlans) -> None:
    names = {number: name for name, number in vlans.ids.items()}
    seen: dict[tuple[str, int | None], str] = {}
    for link in links:
        other = seen.setdefault((link.node, link.vlan), link.name)
        if other != link.name:
            name = link.name.partition(".")[0]
            raise ImpossibleLabError(
                f"{link.node!r} has two links in VLAN {names[link.vlan or 0]!r}",
                "the kernel uses only one of two interfaces in a subnet: give each its own VLAN",
                ("links", name),
            )


def _in_vlans(trunk: Trunk, spec: LinkSpec, vlans: _Vlans) -> Trunk:
    if spec.vlan is not None:
        return replace(trunk, vlan=vlans.ids[spec.vlan])
    return replace(trunk, vlans=tuple(vlans.ids[vlan] for vlan in spec.vlans or ()))


def _router(switch: Switch, spec: SwitchSpec, vlans: _Vlans, given: Mapping[tuple[str, str], str]) -> Switch:
    router = spec.router
    if router is None:
        return switch
    path: Path_ = ("switches", switch.name, "router")
    interfaces = []
    for vlan in router.addresses:
        address = given.get((switch.name, vlan)) or _last(vlans, vlan, switch.name, (*path, "interfaces"))
        interfaces.append(RouterInterface(vlans.ids[vlan], address, vlans.networks[vlan].prefixlen))
    routes = tuple(_route(network, via, (*path, "routes")) for network, via in router.routes.items())
    return replace(switch, interfaces=tuple(interfaces), routes=routes)


def _last(vlans: _Vlans, vlan: str, switch: str, path: Path_) -> str:
    network = vlans.networks[vlan]
    for place in range(2, min(network.num_addresses, 66)):
        try:
            return vlans.take(vlan, str(network[-place]), f"{switch!r}", path)
        except ImpossibleLabError:
            continue
    return vlans.choose(vlan, 1, f"{switch!r}", path)


def _route(destination: str, via: str, path: Path_) -> StaticRoute:
    place = (*path, destination)
    try:
        network = ipaddress.IPv4Network(destination)
        return StaticRoute(str(network), str(ipaddress.IPv4Address(via)))
    except ValueError as error:
        raise ImpossibleLabError(
            f"route to {destination!r} via {via!r}: {error}", "write it as 10.77.30.0/24: 10.77.99.2", place
        ) from None


def _check_routers(routers: Sequence[Switch], links: Sequence[Link], trunks: Sequence[Trunk], vlans: _Vlans) -> None:
    names = {number: name for name, number in vlans.ids.items()}
    for router in routers:
        ports = [link.vlan for link in links if link.switch == router.name]
        for trunk in trunks:
            ports += [*trunk.vlans, trunk.vlan] if router.name in trunk.ends else []
        for interface in router.interfaces:
            if interface.vlan not in ports:
                raise ImpossibleLabError(
                    f"switch {router.name!r} routes VLAN {names[interface.vlan]!r}, but none of its links carries it",
                    "add the VLAN to one of its links",
                    ("switches", router.name, "router", "interfaces"),
                )
        for route in router.routes:
            _check_route(router, route, routers)


def _check_route(router: Switch, route: StaticRoute, routers: Sequence[Switch]) -> None:
    path = ("switches", router.name, "router", "routes", route.network)
    via = ipaddress.IPv4Address(route.via)
    connected = [
        interface
        for interface in router.interfaces
        if via in ipaddress.IPv4Interface(f"{interface.address}/{interface.prefix_length}").network
    ]
    if not connected:
        raise ImpossibleLabError(
            f"switch {router.name!r} routes {route.network} to {via}, which is in none of its subnets",
            "name the address of a router in one of its subnets",
            path,
        )
    others = [
        (interface.vlan, interface.address)
        for other in routers
        if other is not router
        for interface in other.interfaces
    ]
    if (connected[0].vlan, route.via) not in others:
        raise ImpossibleLabError(
            f"switch {router.name!r} routes {route.network} to {via}, which is no router's address",
            f"addresses of routers in that VLAN: {', '.join(_addresses(others, connected[0].vlan)) or 'none'}",
            path,
        )


def _addresses(interfaces: Sequence[tuple[int, str]], vlan: int) -> Iterator[str]:
    return (address for interface_vlan, address in interfaces if interface_vlan == vlan)
