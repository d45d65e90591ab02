"""A device under test between two ports of a tester. Pure.

    tester left  ───── left  ┐
                             ├ device: a bridge, a router, or hakaru's switch
    tester right ───── right ┘
    tester loop-a ── loop-b tester      the tester without a device, which shows its own limit

The tester's interfaces have no address: its engine builds the frames, and the kernel, which knows
neither their address nor their UDP port, drops its own copy without an answer. A router reaches the
addresses of the frames through neighbours that never expire. Cables are as fast as the machine; the
ports of a bridge or router may have a rate, which counts every frame with its preamble and gap.

A guest's NICs are TAPs on bridges with the cables, macvtaps above the cables, or ports of a fabric
in the guest's memory (`device_guests`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from hakaru.lab.model import LINK_FIELDS, STAR_FIELDS, LabSpec
from hakaru.lab.model.device import DeviceSpec, Forwards, GuestDeviceSpec
from hakaru.lab.plan.actions import (
    AddAddress,
    AddNeighbour,
    CreateBridge,
    CreateNamespace,
    CreateVeth,
    LimitPort,
    Poll,
    Redirect,
    SendSingly,
    SetMtu,
    SetRoute,
    Setting,
    SetUp,
    Structure,
)
from hakaru.lab.plan.addresses import plan_subnets
from hakaru.lab.plan.fabric import FABRIC
from hakaru.lab.plan.kernel import BRIDGE
from hakaru.lab.plan.limits import Backend, check_mtu, check_name, check_rate, check_unique, host_names
from hakaru.lab.plan.namespaces import SYSCTLS
from hakaru.lab.plan.parts import Link, Node, Switch
from hakaru.lab.plan.refusal import ImpossibleLabError
from hakaru.lab.plan.shape import ETHERNET_HEADER_BYTES, WIRE_OVERHEAD_BYTES
from hakaru.lab.plan.topology import Topology

PORTS = ("left", "right")
LOOP = ("loop-a", "loop-b")
QUEUE_BYTES = 2 * 1024**2
"""Queue of a cable without a rate. It is never used."""
LIMITED: tuple[Forwards, ...] = ("bridge", "routing")
"""Devices whose ports may have a rate: they send through the kernel's queues."""
PORT_BURST_S = 0.002
"""Time for which a port may be late and still keep its rate."""
PORT_QUEUE_S = 0.010
"""Queue of a port, in its own time: twice the delay after which late frames of the tester are left
out. With the burst, a trial of 1 s forwards up to 1.2 % more than the rate before a frame is lost.
"""
PORT_QUEUE_MIN_FRAMES = 4


@dataclass(frozen=True)
class DevicePort:
    """A port of the device and the tester's port at the other end of its cable. Both interfaces
    have this name.
    """

    name: str
    tester_mac: str
    device_mac: str
    address: str
    """IPv4 address of the tester's frames at this port."""
    router_address: str
    """Address of the port of a device that routes."""
    prefix_length: int
    network: str


@dataclass(frozen=True)
class Device:
    """The device under test of a lab."""

    name: str
    tester: str
    forwards: Forwards
    own_thread: bool
    ports: tuple[DevicePort, ...]
    loop: tuple[str, str] | None = LOOP
    """Two ports of the tester that are connected to each other; None: the tester of a site has
    none.
    """
    guest: GuestDeviceSpec | None = None
    """The guest that forwards; None for other devices."""
    port_rate_bits_per_s: int | None = None
    """Rate of each port on the wire; None: as fast as the machine."""

    @property
    def routes(self) -> bool:
        """Whether frames are sent to the MAC address of the device, and it changes them."""
        if self.forwards == "equipment":
            return all(port.device_mac for port in self.ports)
        return self.forwards == "routing" or (self.guest is not None and self.guest.forwards == "routing")

    @property
    def ways(self) -> int:
        """Number of guests side by side, each of which frames are addressed to; else 1."""
        return self.guest.parallel if self.guest is not None else 1

    @property
    def in_memory(self) -> bool:
        """Whether frames go into the memory of a guest, from a fabric of its own (vhost-user)."""
        return self.guest is not None and self.guest.nic.traits.backend == "vhost-user"

    @property
    def on_macvtaps(self) -> bool:
        """Whether the NICs of a guest are macvtaps above the cables."""
        return self.guest is not None and self.guest.nic.traits.backend == "macvtap"

    @property
    def on_bridges(self) -> bool:
        """Whether the NICs of a guest are TAPs on bridges with the cables."""
        return self.guest is not None and not self.in_memory and not self.on_macvtaps

    @property
    def has_threads(self) -> bool:
        """Whether the kernel polls the ports of the device in threads of their own. A fabric is a
        process of its own.
        """
        return self.own_thread and self.forwards != "switch" and not self.in_memory

    @property
    def node(self) -> str:
        """Namespace that the device forwards in."""
        return FABRIC if self.forwards == "switch" else self.name


def backend_of_device(forwards: Forwards) -> Backend:
    """The backend of a lab with such a device."""
    return "fabric" if forwards == "switch" else "kernel"


def plan_device(spec: LabSpec) -> tuple[Device, Topology]:
    """The device of a lab, and its topology. Raises ImpossibleLabError."""
    assert spec.device is not None
    others = {*STAR_FIELDS, *LINK_FIELDS, "backend"}
    for field in sorted(spec.model_fields_set & others):
        raise ImpossibleLabError(
            f"`{field}` is given, and so is `device`", "a device has only two cables to the tester", (field,)
        )
    hosts = host_names(spec.hosts)
    if len(hosts) != 1:
        raise ImpossibleLabError(
            f"{len(hosts)} hosts; a device has one tester", "name one host: `hosts: [tester]`", ("hosts",)
        )
    for name in (*hosts, spec.device.name):
        check_name(name, "a node")
    check_unique([*hosts, spec.device.name], "give the tester and the device names of their own")
    check_mtu(spec.mtu)
    subnets = plan_subnets(spec.network, len(PORTS), 2)
    guest = spec.device.guest if spec.device.forwards == "guest" else None
    # The guest at each end of a chain.
    ends = (0, guest.chain - 1 if guest is not None else 0)
    ports = tuple(
        _port(name, place, ends[place], subnet) for place, (name, subnet) in enumerate(zip(PORTS, subnets, strict=True))
    )
    if guest is not None and (guest.nic.mac or guest.nic.socket):
        raise ImpossibleLabError(
            "`mac` and `socket` of the NIC are given",
            "leave them out; the lab chooses them",
            ("device", "guest", "nic"),
        )
    _check_port_rate(spec.device)
    device = Device(
        spec.device.name,
        hosts[0],
        spec.device.forwards,
        spec.device.own_thread,
        ports,
        guest=guest,
        port_rate_bits_per_s=spec.device.port_rate,
    )
    links = tuple(_link(device, port, path, spec.mtu) for path, port in enumerate(ports))
    nodes = (Node(device.tester, "host"), Node(device.name, "switch"))
    return device, Topology(nodes, links, (), (Switch(device.name),))


def _check_port_rate(spec: DeviceSpec) -> None:
    if spec.port_rate is None:
        return
    path = ("device", "port_rate")
    if spec.forwards not in LIMITED:
        raise ImpossibleLabError(
            f"`port_rate` is given for the device `{spec.forwards}`",
            "leave it out, or use `forwards: bridge` or `forwards: routing`",
            path,
        )
    check_rate("device.port_rate", spec.port_rate, "kernel", path)


def _port(name: str, place: int, guest: int, subnet: IPv4Network) -> DevicePort:
    tester_mac = f"02:00:00:00:{place:02x}:01"
    return DevicePort(
        name, tester_mac, mac_of_port(place, guest), str(subnet[2]), str(subnet[1]), subnet.prefixlen, str(subnet)
    )


def _link(device: Device, port: DevicePort, path: int, mtu: int) -> Link:
    return Link(
        name=port.name,
        node=device.tester,
        interface=port.name,
        switch=device.name,
        port=port.name,
        path=path,
        address=port.address,
        prefix_length=port.prefix_length,
        rate_bits_per_s=None,
        queue_bytes=QUEUE_BYTES,
        mtu=mtu,
    )


def bridge_of(port: DevicePort) -> str:
    """Name of the bridge between a cable and the TAP of a guest."""
    return f"br-{port.name}"


def mac_of_port(place: int, guest: int) -> str:
    """MAC address of a device's port: that of one of its guests, counted from 0, if it has several.
    `place`: 0 for left, 1 for right.
    """
    # Locally administered addresses; those of one lab cannot be seen by another. The tester has 1.
    return f"02:00:00:00:{place:02x}:{guest + 2:02x}"


def middle_bridges(device: Device) -> tuple[str, ...]:
    """Bridges between the guests of a chain."""
    if device.guest is None or not device.on_bridges:
        return ()
    return tuple(f"br-mid-{number}" for number in range(1, device.guest.chain))


def device_structure(device: Device, mtu: int) -> Iterator[Structure]:
    """Namespaces, cables, addresses, and the way in which the device forwards."""
    forwarding = (("net/ipv4/ip_forward", ("1",)),) if device.forwards == "routing" else ()
    yield CreateNamespace(device.tester, SYSCTLS)
    has_threads = device.has_threads
    yield CreateNamespace(device.node, (*SYSCTLS, *forwarding), own_sysfs=has_threads)
    bridge = BRIDGE if device.forwards == "bridge" else None
    if bridge is not None:
        yield CreateBridge(device.node, bridge)
    for middle in middle_bridges(device):
        yield CreateBridge(device.node, middle)
    for port in device.ports:
        # The MAC address of a guest's port is that of its NIC.
        mac = port.device_mac if device.guest is None else None
        if device.on_bridges:
            bridge = bridge_of(port)
            yield CreateBridge(device.node, bridge)
        yield CreateVeth(device.node, port.name, bridge, device.tester, port.name, mac=mac, peer_mac=port.tester_mac)
        yield SetUp(device.tester, port.name)
        yield SetUp(device.node, port.name)
        if device.forwards == "routing":
            yield AddAddress(device.node, port.name, port.router_address, port.prefix_length)
            yield AddNeighbour(device.node, port.name, port.address, port.tester_mac)
        if device.port_rate_bits_per_s is not None:
            yield _limited(device.node, port.name, device.port_rate_bits_per_s / 8, mtu)
        if has_threads or device.forwards == "xdp":
            # The threads in front of a guest share the processors with QEMU as equals.
            yield Poll(device.node, port.name, has_threads, first=device.guest is None)
            yield SendSingly(device.tester, port.name)
        if device.forwards == "xdp":
            # An interface accepts redirected frames only if the other end of its cable polls.
            yield Poll(device.tester, port.name, own_thread=False)
    if device.forwards == "xdp":
        first, second = (port.name for port in device.ports)
        yield Redirect(device.node, first, second)
        yield Redirect(device.node, second, first)
    assert device.loop is not None, "every lab has a loop"
    first, second = device.loop
    yield CreateVeth(device.tester, first, None, device.tester, second)
    yield SetUp(device.tester, first)
    yield SetUp(device.tester, second)


def _limited(node: str, interface: str, bytes_per_s: float, mtu: int) -> LimitPort:
    frame = mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES
    burst = max(frame, round(bytes_per_s * PORT_BURST_S))
    queue = max(PORT_QUEUE_MIN_FRAMES * frame, round(bytes_per_s * PORT_QUEUE_S))
    return LimitPort(node, interface, round(bytes_per_s), burst, queue, WIRE_OVERHEAD_BYTES)


def device_settings(device: Device, mtu: int) -> Iterator[Setting]:
    """MTU of every interface, and the routes of a device that routes."""
    if device.forwards == "bridge":
        yield SetMtu(device.node, BRIDGE, mtu)
    for middle in middle_bridges(device):
        yield SetMtu(device.node, middle, mtu)
    for port in device.ports:
        if device.on_bridges:
            yield SetMtu(device.node, bridge_of(port), mtu)
        yield SetMtu(device.tester, port.name, mtu)
        yield SetMtu(device.node, port.name, mtu)
        if device.forwards == "routing":
            yield SetRoute(device.node, port.name, port.network, port.router_address)
    for name in device.loop or ():
        yield SetMtu(device.tester, name, mtu)
