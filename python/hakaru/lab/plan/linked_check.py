"""Checks of a lab that is given link by link. Each raises ImpossibleLabError with its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hakaru.lab.model.link import DisciplineSpec, LinkSpec, SwitchSpec
from hakaru.lab.plan.limits import (
    FABRIC_LINKS_MAX,
    FABRIC_SWITCHES_MAX,
    FRAME_OVERHEAD_BYTES,
    SWITCH_PORTS_MAX,
    Backend,
    check_name,
    check_queue,
    check_rate,
    check_time,
    check_unique,
)
from hakaru.lab.plan.parts import Link
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.routing import routed_ways, why_unreachable
from hakaru.lab.plan.topology import Topology
from hakaru.units import format_rate, format_size


def is_trunk(link: LinkSpec, switches: Mapping[str, object]) -> bool:
    return all(end in switches for end in link.between)


def check_names(
    hosts: Sequence[str], arrays: tuple[str, ...], switches: Mapping[str, object], links: Mapping[str, object]
) -> None:
    for field, names in (("hosts", hosts), ("arrays", arrays), ("switches", switches)):
        for name in names:
            check_name(name, "a node", (field, name) if field == "switches" else (field,))
    check_unique([*hosts, *arrays, *switches], "give every host, guest, array and switch its own")
    for name in links:
        check_name(name, "a link", ("links", name))


def check_switch(name: str, switch: SwitchSpec, mtu: int) -> None:
    shared, least = switch.shared_buffer, mtu + FRAME_OVERHEAD_BYTES
    if shared is not None and shared.bytes < least:
        raise ImpossibleLabError(
            f"switches.{name}.shared_buffer.bytes is {format_size(shared.bytes)}, less than a frame of MTU {mtu}",
            f"use at least {least} B",
            ("switches", name, "shared_buffer", "bytes"),
        )


def check_ends(name: str, link: LinkSpec, kinds: Mapping[str, str], pairs: dict[frozenset[str], str]) -> None:
    """Check that both ends exist and differ, that one is a switch, and that no other link joins
    them.
    """
    a, b = link.between
    path = ("links", name, "between")
    for i, end in enumerate(link.between):
        if end not in kinds:
            raise ImpossibleLabError(
                f"link {name!r} leads to {end!r}, which is not a host, array or switch of the lab",
                f"the lab has {', '.join(kinds)}",
                (*path, i),
            )
    if a == b:
        raise ImpossibleLabError(f"link {name!r} leads from {a!r} to itself", "name two different ends", path)
    if kinds[a] != "switch" and kinds[b] != "switch":
        raise ImpossibleLabError(f"link {name!r} has no switch at either end", "put a switch between them", path)
    other = pairs.setdefault(frozenset(link.between), name)
    if other != name:
        raise ImpossibleLabError(
            f"links {other!r} and {name!r} both join {a!r} and {b!r}",
            "two parallel links would form a loop; use one link with the sum of their rates",
            ("links", name),
        )
    if link.send_rate is not None and kinds[a] == kinds[b]:
        raise ImpossibleLabError(
            f"links.{name}.send_rate: {a!r} and {b!r} are switches, which send at the link's rate",
            "set it on the link of a host or an array",
            ("links", name, "send_rate"),
        )


def check_link(name: str, link: LinkSpec, mtu: int, backend: Backend) -> None:
    place = f"links.{name}"
    for field, rate in (("rate", link.rate), ("send_rate", link.send_rate), ("sustained", link.sustained)):
        check_rate(f"{place}.{field}", rate, backend, ("links", name, field))
    if link.send_rate is not None and link.rate is not None and link.send_rate > link.rate:
        raise ImpossibleLabError(
            f"{place}.send_rate is {format_rate(link.send_rate)}, more than the link's {format_rate(link.rate)}",
            "a node sends no faster than its link",
            ("links", name, "send_rate"),
        )
    if link.sustained is not None and (link.rate is None or link.sustained > link.rate):
        limit = "but the link has no rate" if link.rate is None else f"more than the link's {format_rate(link.rate)}"
        raise ImpossibleLabError(
            f"{place}.sustained is {format_rate(link.sustained)}, {limit}",
            "it is the part of the link's rate that the load needs",
            ("links", name, "sustained"),
        )
    check_queue(f"{place}.queue", link.queue, mtu, backend, ("links", name, "queue"))
    for field, time in (("delay", link.delay), ("reorder", link.reorder.by if link.reorder else 0)):
        check_time(f"{place}.{field}", time, ("links", name, field))
    if link.jitter is not None:
        normal = link.jitter.normal
        times = [link.jitter.uniform, link.jitter.exponential, *((normal.mean, normal.deviation) if normal else ())]
        for time in times:
            check_time(f"{place}.jitter", time or 0, ("links", name, "jitter"))
    loss = link.loss
    if loss is not None and loss.burst_frames is not None and loss.percent >= loss.bad_percent:
        raise ImpossibleLabError(
            f"{place}.loss.percent is {loss.percent:g}, not below bad_percent, {loss.bad_percent:g}",
            "the good state loses nothing, so the loss in the long run is less than in the bad state",
            ("links", name, "loss"),
        )
    if loss is not None and loss.burst_frames is not None:
        most = loss.bad_percent * min(loss.burst_frames / (1 + loss.burst_frames), 0.999)
        if loss.percent > most:
            raise ImpossibleLabError(
                f"{place}.loss.percent is {loss.percent:g}, more than bursts of {loss.burst_frames:g} frames can lose, "
                f"{most:.3g}",
                "at least one frame passes between two bursts; choose longer bursts or a lower percentage",
                ("links", name, "loss"),
            )
    if isinstance(link.discipline, DisciplineSpec):
        _check_discipline(place, name, link.discipline, link.queue)


def _check_discipline(place: str, name: str, discipline: DisciplineSpec, queue: int) -> None:
    path = ("links", name, "discipline")
    red, mark = discipline.red, discipline.mark
    if red is not None and red.min >= red.max:
        raise ImpossibleLabError(
            f"{place}.discipline.red: min is {format_size(red.min)}, max {format_size(red.max)}",
            "min must be less than max",
            path,
        )
    begins = red.min if red is not None else mark
    if begins is not None and begins >= queue:
        raise ImpossibleLabError(
            f"{place}.discipline begins at {format_size(begins)}, but the queue is full at {format_size(queue)}",
            "let it begin earlier: a third of the queue is usual",
            path,
        )


def check_sizes(switches: Mapping[str, object], links: Mapping[str, LinkSpec], backend: Backend) -> None:
    if backend == "fabric" and (len(links) > FABRIC_LINKS_MAX or len(switches) > FABRIC_SWITCHES_MAX):
        raise ImpossibleLabError(
            f"{len(links)} links and {len(switches)} switches; the fabric has at most {FABRIC_LINKS_MAX} and "
            f"{FABRIC_SWITCHES_MAX}",
            "use fewer hosts, or `backend: kernel`",
            ("links",),
        )
    for switch in switches:
        ports = sum(switch in link.between for link in links.values())
        if ports > SWITCH_PORTS_MAX:
            raise ImpossibleLabError(
                f"switch {switch!r} has {ports} links, but only {SWITCH_PORTS_MAX} ports", "add a switch", ("links",)
            )


def networks_of(switches: Mapping[str, object], links: Mapping[str, LinkSpec]) -> dict[str, int]:
    """Return switch → number of the network that it is in. Refuses a loop of trunks."""
    networks = {switch: number for number, switch in enumerate(switches)}
    for name, link in links.items():
        if not is_trunk(link, switches):
            continue
        lower, higher = sorted(networks[end] for end in link.between)
        if lower == higher:
            raise ImpossibleLabError(
                f"link {name!r} closes a loop, in which frames would circulate forever",
                "join switches as a tree",
                ("links", name),
            )
        networks = {switch: lower if number == higher else number for switch, number in networks.items()}
    return networks


def check_without_vlans(switches: Mapping[str, SwitchSpec], links: Mapping[str, LinkSpec]) -> None:
    """Refuse VLANs at links, and routers, in a lab without VLANs."""
    hint = "name the lab's VLANs: `vlans: {storage: {id: 10}}`"
    for name, link in links.items():
        for field in ("vlan", "vlans", "address"):
            if getattr(link, field) is not None:
                raise ImpossibleLabError(f"links.{name}.{field}: the lab has no `vlans`", hint, ("links", name, field))
    for name, switch in switches.items():
        if switch.router is not None:
            path = ("switches", name, "router")
            raise ImpossibleLabError(f"switches.{name}.router: the lab has no `vlans`", hint, path)


def check_connected(kinds: Mapping[str, str], links: Mapping[str, LinkSpec]) -> None:
    joined = {end for link in links.values() for end in link.between}
    for node in kinds:
        if node not in joined:
            raise ImpossibleLabError(
                f"{kinds[node]} {node!r} is not connected", "give it a link, or leave it out", ("links",)
            )


def check_reachable(links: Sequence[Link], kinds: Mapping[str, str]) -> None:
    """Check that every host reaches every array, and that a node at the far end uses each link."""
    paths = {node: {link.path for link in links if link.node == node} for node in kinds}
    for host in (node for node, kind in kinds.items() if kind == "host"):
        for array in (node for node, kind in kinds.items() if kind == "array"):
            if not paths[host] & paths[array]:
                raise ImpossibleLabError(
                    f"host {host!r} cannot reach array {array!r}", "join their switches by a link", ("links",)
                )
    for link in links:
        if len({kinds[other.node] for other in links if other.path == link.path}) < 2:
            raise ImpossibleLabError(
                f"link {link.name!r} is unused: it is the second link of {link.node!r} into one network, and no "
                f"{'array' if kinds[link.node] == 'host' else 'host'} has two",
                "leave it out, or give the others a second link",
                ("links", link.name),
            )


def check_routed(topology: Topology, hosts: Sequence[str], arrays: Sequence[str]) -> None:
    """Check that every host reaches every array, within a VLAN or through a router."""
    for host in hosts:
        for array in arrays:
            if not routed_ways(topology, host, array):
                raise ImpossibleLabError(
                    f"host {host!r} cannot reach array {array!r}: {why_unreachable(topology, host, array)}",
                    "let a switch route between their VLANs (`router: {interfaces: […]}`), let the trunks between them "
                    "carry these VLANs, or put both into one VLAN",
                    ("links",),
                )
