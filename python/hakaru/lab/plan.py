"""Planning a lab: what a study asks for becomes nodes, links, addresses and the actions that build them. Pure.

The lab is one Ethernet switch with every host and the array on it. A *path* is a subnet of its own with one link per
node; all paths share the switch.

    host-1 eth0 ───── host-1.0 ┐
                               ├ switch (bridge) ┤ array.0 ───── eth0 array
    host-2 eth0 ───── host-2.0 ┘

**How a rate is kept.** Both ends of a link with a rate send through a token bucket (TBF). The kernel counts a frame
from its Ethernet header to its last payload byte and, for a super-frame (TSO, up to 64 KiB handed over as one), counts
the headers of every frame that it stands for. The wire also carries preamble, check sequence and gap, 24 bytes a frame;
so the bucket gets `rate × (mtu + 14) / (mtu + 38)`: exact for full frames, which is what fills a link, and at most 24
bytes a frame short for small ones. (Counting the 24 bytes frame by frame needs super-frames switched off, which costs a
whole core at 1 Gbit/s where this costs a tenth of one.)

**How smooth it is.** A super-frame is at most 0.25 ms of link time (and an eighth of the queue, and at least one
frame); the bucket holds one super-frame and 1 ms, so that a timer that is late loses no rate. What follows an idle
link therefore passes up to 1.25 ms early, once: 156 KB at 1 Gbit/s. A switch that runs full drops whole super-frames,
so that TCP suffers more from too small a queue than it would from a real switch: see `LinkSpec.queue`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hakaru.errors import UsageError
from hakaru.lab.model import LabSpec, LinkSpec
from hakaru.units import format_rate, format_size

HOSTS_MAX = 256
PATHS_MAX = 8
# A Linux bridge has 1024 ports, the first of which is not used (BR_MAX_PORTS).
SWITCH_PORTS_MAX = 1023
MTU_MIN, MTU_MAX = 576, 9216
# The slowest Ethernet (a node's send queue takes 1.2 s there); more than any veth carries.
RATE_MIN_BITS_PER_S, RATE_MAX_BITS_PER_S = 10_000_000, 25_000_000_000
QUEUE_MAX_BYTES = 256 * 1024**2
# An interface's name has 15 characters; the switch's are NODE.PATH.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,12}")

ETHERNET_HEADER_BYTES = 14
# Preamble 8, check sequence 4, gap 12 (IEEE 802.3).
WIRE_OVERHEAD_BYTES = 24
_SUPER_FRAME_MAX_BYTES = 65_536
_SUPER_FRAME_S = 0.000_25
_BUCKET_SLACK_S = 0.001
# Linux's default `txqueuelen`.
_NODE_QUEUE_FRAMES = 1000
# Ethernet, IPv4 and TCP with timestamps: counted for every frame of a super-frame.
_HEADERS_BYTES = ETHERNET_HEADER_BYTES + 20 + 32

BRIDGE = "br0"


@dataclass(frozen=True)
class Node:
    """A network namespace."""

    name: str
    kind: Literal["host", "array", "switch"]


@dataclass(frozen=True)
class Link:
    """A link from a node to the switch. `queue_bytes` is in the switch; `rate_bits_per_s` None: unlimited."""

    name: str
    node: str
    interface: str
    switch: str
    port: str
    path: int
    address: str
    prefix_length: int
    rate_bits_per_s: int | None
    queue_bytes: int
    mtu: int


@dataclass(frozen=True)
class CreateNamespace:
    """A namespace, with `lo` up and these sysctls (relative to /proc/sys) set, each to the first value allowed."""

    node: str
    sysctls: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class CreateBridge:
    """An Ethernet switch without spanning tree or multicast snooping, up."""

    node: str
    interface: str
    mtu: int


@dataclass(frozen=True)
class CreateVeth:
    """A cable: `interface` of `node`, plugged into `bridge`, to `peer_interface` of `peer`."""

    node: str
    interface: str
    bridge: str
    peer: str
    peer_interface: str
    mtu: int


@dataclass(frozen=True)
class AddAddress:
    """An IPv4 address on an interface."""

    node: str
    interface: str
    address: str
    prefix_length: int


@dataclass(frozen=True)
class Shape:
    """A token bucket on what `interface` sends. `rate_bytes_per_s` counts frames as the kernel does, see the module."""

    node: str
    interface: str
    rate_bytes_per_s: int
    bucket_bytes: int
    queue_bytes: int
    super_frame_bytes: int


@dataclass(frozen=True)
class SetUp:
    """An interface goes up."""

    node: str
    interface: str


Action = CreateNamespace | CreateBridge | CreateVeth | AddAddress | Shape | SetUp


@dataclass(frozen=True)
class LabPlan:
    """A lab that can be built: what it will be, and how, in order."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    actions: tuple[Action, ...]

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names of the hosts, in the study's order."""
        return tuple(node.name for node in self.nodes if node.kind == "host")

    @property
    def array_name(self) -> str:
        """Name of the node that the array runs on."""
        return next(node.name for node in self.nodes if node.kind == "array")

    def links_at(self, node: str) -> tuple[Link, ...]:
        """Links with an end at a node: one per path, for the switch all."""
        return tuple(link for link in self.links if node in (link.node, link.switch))

    def addresses(self, node: str) -> tuple[str, ...]:
        """Addresses of a host or the array, one per path."""
        return tuple(link.address for link in self.links if link.node == node)

    def portals(self, port: int = 3260) -> tuple[str, ...]:
        """`address:port` of the array, one per path."""
        return tuple(f"{address}:{port}" for address in self.addresses(self.array_name))

    def describe(self) -> dict[str, Any]:
        """Nodes and links as plain data, for lab.json."""
        return {"nodes": [asdict(node) for node in self.nodes], "links": [asdict(link) for link in self.links]}

    @classmethod
    def from_description(cls, lab: Mapping[str, Any]) -> LabPlan:
        """The plan of a lab that was built, from its lab.json: to draw or list, not to build (it has no actions)."""
        fields = Link.__dataclass_fields__
        links = tuple(Link(**{name: link[name] for name in fields}) for link in lab["links"])
        return cls(tuple(Node(node["name"], node["kind"]) for node in lab["nodes"]), links, ())


CONGESTION_CONTROL = "net/ipv4/tcp_congestion_control"
_SYSCTLS = (
    # Only IPv4 here; without this every interface adds neighbour discovery to the counters.
    ("net/ipv6/conf/all/disable_ipv6", ("1",)),
    ("net/ipv6/conf/default/disable_ipv6", ("1",)),
    # Linux's own default. A host with another default may not allow it in namespaces; Reno, which CUBIC follows at the
    # round-trip times of a lab (RFC 9438, section 4.3), is always allowed.
    (CONGESTION_CONTROL, ("cubic", "reno")),
    # A connection must not inherit the congestion window of the repetition before.
    ("net/ipv4/tcp_no_metrics_save", ("1",)),
)


def plan_lab(spec: LabSpec) -> LabPlan:
    """The plan of a lab. Raises UsageError for a lab that cannot be, with what to change."""
    hosts = _host_names(spec)
    array = spec.array
    if array is None:
        raise _impossible("it has no array", "name one: `array: array`")
    _check_names([*hosts, array, spec.switch])
    _check_limits(spec, len(hosts))
    for field, link in (("host_link", spec.host_link), ("array_link", spec.array_link)):
        _check_link(field, link, spec.mtu)
    subnets = _subnets(spec, len(hosts) + 1)
    links = tuple(
        _link(spec, node, place, path, subnets[path])
        for place, node in enumerate([array, *hosts], start=1)
        for path in range(spec.paths)
    )
    nodes = (
        *(Node(name, "host") for name in hosts),
        Node(spec.switch, "switch"),
        Node(array, "array"),
    )
    return LabPlan(nodes, links, tuple(_actions(spec, nodes, links)))


def _impossible(what: str, hint: str) -> UsageError:
    return UsageError(f"this lab cannot be built: {what}", hint)


def _host_names(spec: LabSpec) -> tuple[str, ...]:
    if isinstance(spec.hosts, tuple):
        names = spec.hosts
    else:
        if spec.hosts > HOSTS_MAX:
            raise _impossible(f"{spec.hosts} hosts are more than {HOSTS_MAX}", "let each host carry more VMs")
        names = tuple(f"host-{number}" for number in range(1, spec.hosts + 1))
    if not names:
        raise _impossible("it has no host", "ask for at least one: `hosts: 1`")
    if len(names) > HOSTS_MAX:
        raise _impossible(f"{len(names)} hosts are more than {HOSTS_MAX}", "let each host carry more VMs")
    return names


def _check_names(names: list[str]) -> None:
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise _impossible(
                f"{name!r} is no name for a node",
                "use 1 to 13 lower-case letters, digits and hyphens, starting with a letter",
            )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _impossible(f"the name {twice[0]!r} is given twice", "give every host, the array and the switch its own")


def _check_limits(spec: LabSpec, hosts: int) -> None:
    if not 1 <= spec.paths <= PATHS_MAX:
        raise _impossible(f"{spec.paths} paths; there can be 1 to {PATHS_MAX}", "change `paths`")
    if not MTU_MIN <= spec.mtu <= MTU_MAX:
        raise _impossible(
            f"an MTU of {spec.mtu} bytes; it can be {MTU_MIN} to {MTU_MAX}", "use 1500, or 9000 for jumbo frames"
        )
    ports = (hosts + 1) * spec.paths
    if ports > SWITCH_PORTS_MAX:
        raise _impossible(f"{ports} links; the switch has {SWITCH_PORTS_MAX} ports", "use fewer hosts or paths")


def _check_link(field: str, link: LinkSpec, mtu: int) -> None:
    rate = link.rate
    if rate is not None and not RATE_MIN_BITS_PER_S <= rate <= RATE_MAX_BITS_PER_S:
        raise _impossible(
            f"{field}.rate is {format_rate(rate)}; it can be {format_rate(RATE_MIN_BITS_PER_S)} "
            f"to {format_rate(RATE_MAX_BITS_PER_S)}",
            "leave it out for a link as fast as the machine",
        )
    queue_min = 2 * (mtu + ETHERNET_HEADER_BYTES)
    if not queue_min <= link.queue <= QUEUE_MAX_BYTES:
        raise _impossible(
            f"{field}.queue is {format_size(link.queue)}; it can be {queue_min} B (two full frames) "
            f"to {format_size(QUEUE_MAX_BYTES)}",
            "2 MiB is what a busy port of a storage switch gets",
        )


def _subnets(spec: LabSpec, nodes: int) -> list[ipaddress.IPv4Network]:
    """One subnet per path, as large as the network allows, at most /20."""
    try:
        network = ipaddress.IPv4Network(spec.network)
    except ValueError as error:
        raise _impossible(f"network {spec.network!r}: {error}", "use for example 10.77.0.0/16") from None
    if not network.is_private or network.is_loopback or network.is_link_local:
        raise _impossible(f"network {network} is not a private one (RFC 1918)", "use for example 10.77.0.0/16")
    # Both the network's own address and the broadcast address are taken.
    wanted_bits = max(2, (nodes + 1).bit_length())
    path_bits = (spec.paths - 1).bit_length()
    free_bits = 32 - network.prefixlen
    if free_bits < wanted_bits + path_bits:
        raise _impossible(
            f"network {network} has too few addresses for {nodes} nodes on {spec.paths} paths",
            f"use one of /{32 - wanted_bits - path_bits} or shorter, for example 10.77.0.0/16",
        )
    subnets = network.subnets(new_prefix=32 - min(12, free_bits - path_bits))
    return [next(subnets) for _ in range(spec.paths)]


def _link(spec: LabSpec, node: str, place: int, path: int, subnet: ipaddress.IPv4Network) -> Link:
    asked = spec.array_link if node == spec.array else spec.host_link
    return Link(
        name=f"{node}.{path}",
        node=node,
        interface=f"eth{path}",
        switch=spec.switch,
        port=f"{node}.{path}",
        path=path,
        address=str(subnet[place]),
        prefix_length=subnet.prefixlen,
        rate_bits_per_s=asked.rate,
        queue_bytes=asked.queue,
        mtu=spec.mtu,
    )


def _actions(spec: LabSpec, nodes: tuple[Node, ...], links: tuple[Link, ...]) -> Iterator[Action]:
    for node in nodes:
        yield CreateNamespace(node.name, _SYSCTLS)
    yield CreateBridge(spec.switch, BRIDGE, spec.mtu)
    for link in links:
        yield CreateVeth(link.switch, link.port, BRIDGE, link.node, link.interface, link.mtu)
        yield AddAddress(link.node, link.interface, link.address, link.prefix_length)
        if link.rate_bits_per_s is not None:
            yield plan_shape(link, link.node, link.interface)
            yield plan_shape(link, link.switch, link.port)
        yield SetUp(link.node, link.interface)
        yield SetUp(link.switch, link.port)


def plan_shape(link: Link, node: str, interface: str) -> Shape:
    """The token bucket of one end of a link that has a rate; why these numbers, says the module."""
    assert link.rate_bits_per_s is not None, "an unlimited link has no bucket"
    frame = link.mtu + ETHERNET_HEADER_BYTES
    rate_bytes_per_s = link.rate_bits_per_s / 8
    super_frame = min(_SUPER_FRAME_MAX_BYTES, int(rate_bytes_per_s * _SUPER_FRAME_S), link.queue_bytes // 8)
    super_frame = max(frame, super_frame)
    segments = -(-super_frame // (frame - _HEADERS_BYTES))
    return Shape(
        node=node,
        interface=interface,
        rate_bytes_per_s=round(rate_bytes_per_s * frame / (frame + WIRE_OVERHEAD_BYTES)),
        bucket_bytes=super_frame + segments * _HEADERS_BYTES + int(rate_bytes_per_s * _BUCKET_SLACK_S),
        queue_bytes=link.queue_bytes if node == link.switch else _NODE_QUEUE_FRAMES * frame,
        super_frame_bytes=super_frame,
    )


def tcp_payload_bits_per_s(rate_bits_per_s: int, mtu: int) -> float:
    """What TCP (IPv4, timestamps) carries over an Ethernet link of that rate: full frames, back to back, no loss."""
    return rate_bits_per_s * (mtu - 52) / (mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES)
