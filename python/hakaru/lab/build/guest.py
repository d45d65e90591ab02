"""The guests that are a lab's device: their ports outside, their boot, their forwarding.

    cable ── bridge ── TAP ── NIC [guest] NIC ── TAP ── bridge ── cable
    cable ──── fabric ─────── NIC [guest] NIC ────────── fabric ── cable    (vhost-user)
    cable ──── macvtap ────── NIC [guest] NIC ───────── macvtap ── cable

Bridges and switches must know where guests side by side and the tester are. Otherwise, they would
send frames to all of them, because frames of one direction never show it. A bridge gets a static
entry, a switch of the fabric a frame of each.

The fabric must run before the guest boots (`Lab`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyroute2 import IPRoute, NetlinkError
from pyroute2.netlink.rtnl import ndmsg

from hakaru.errors import DeviceError, EnvironmentError_, HakaruError
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import Image, find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.pinning import Pinning
from hakaru.guest.requirements import Facts, vectors_of
from hakaru.guest.tap import Tap, open_tap
from hakaru.lab.build.apply import Namespaces
from hakaru.lab.build.guest_ports import GuestPorts
from hakaru.lab.build.macvtap import Mode, add_macvtap
from hakaru.lab.model.device import GuestDeviceSpec
from hakaru.lab.plan.device import Device
from hakaru.lab.plan.device_guests import DeviceGuest, GuestPort, device_guests

_CARRIER_WAITS, _CARRIER_WAIT_US = 500, 20_000
_EXPERIMENTAL = b"\x88\xb5"
"""EtherType of frames that no host evaluates (IEEE 802, local experiments)."""
_FRAME_BYTES = 60
"""The shortest frame, without its check sequence."""


async def boot_device(device: Device, namespaces: Namespaces, mtu: int) -> list[Guest]:
    """Boot the guests of a device, and let them forward. Raises DeviceError with the reason if this
    machine cannot run them, or if one does not boot; none is left then.
    """
    assert device.guest is not None
    guests: list[Guest] = []
    try:
        image = find_image(device.guest.recipe)
        accelerator = await find_accelerator(image)
        facts = collect_facts(accelerator)
        # Before the first guest takes its memory.
        refusal = device.guest.refusal(facts)
        if refusal is not None:
            raise DeviceError(f"no guest with {device.guest.nic.model}: {refusal.reason}", refusal.hint)
        place = _Place(device, namespaces, mtu, image, facts)
        if device.ways > 1 and not device.on_macvtaps:
            await asyncio.to_thread(_introduce_tester, device, namespaces)
        for planned in device_guests(device):
            guests.append(await _boot(place, device.guest, planned))
    except BaseException as error:
        for guest in guests:
            await guest.close()
        if isinstance(error, HakaruError):
            raise DeviceError(error.message, error.hint) from error
        raise
    return guests


@dataclass(frozen=True)
class _Place:
    """Properties that all guests of a device share."""

    device: Device
    namespaces: Namespaces
    mtu: int
    image: Image
    facts: Facts


async def _boot(place: _Place, spec: GuestDeviceSpec, planned: DeviceGuest) -> Guest:
    device, namespaces = place.device, place.namespaces
    taps: list[Tap] = []
    if not device.in_memory:
        # In a thread, which changes its network namespace.
        taps = await asyncio.to_thread(_plug_taps, device, planned, spec.nic.queues, namespaces, place.mtu)
    try:
        ports = []
        for position, port in enumerate(planned.ports):
            path = port.socket if device.in_memory else None
            nic = spec.nic.model_copy(update={"mac": port.mac, "socket": path})
            descriptors = taps[position].descriptors if taps else ()
            ports.append(Port(port.outer.name, nic, descriptors, vectors_of(nic, place.facts)))
        described = GuestSpec(
            planned.name,
            place.image,
            cpus=spec.cpus,
            ports=tuple(ports),
            host_network=False,
            pinning=pinning_of(spec),
            namespace=namespaces[device.node] if device.in_memory else None,
        )
        guest = await Guest.boot(described, place.facts.accelerator)
    finally:
        # QEMU has inherited descriptors of its own.
        for tap in taps:
            tap.close()
    try:
        await let_forward(guest, spec, planned, place.mtu)
        if device.ways > 1 and device.in_memory:
            await guest.run(_announce(planned))
    except BaseException:
        await guest.close()
        raise
    return guest


def pinning_of(spec: GuestDeviceSpec) -> Pinning:
    """The placement of a guest's work on processors."""
    return Pinning(spec.pinning.vcpus, spec.pinning.others, spec.pinning.interrupts)


async def let_forward(guest: Guest, spec: GuestDeviceSpec, planned: DeviceGuest, mtu: int) -> None:
    """Let a guest forward between its interfaces, once both have a carrier. Raises
    GuestCommandError, LostError.
    """
    await guest.run(_SCRIPTS[spec.forwards](planned, mtu))


def _plug_taps(device: Device, guest: DeviceGuest, queues: int, namespaces: Namespaces, mtu: int) -> list[Tap]:
    """A TAP on the bridge of each port, or a macvtap above its cable. Raises EnvironmentError_ for
    anything that the kernel refuses.
    """
    try:
        return _open_taps(device, guest, queues, namespaces, mtu)
    except (NetlinkError, OSError, ValueError) as error:
        reason = error.args[-1] if isinstance(error, NetlinkError) else error
        raise EnvironmentError_(
            f"the TAPs of guest {guest.name} cannot be connected: {reason}",
            "`hakaru doctor` checks the kernel; use fewer queues, or another name of the device",
        ) from error


def _open_taps(device: Device, guest: DeviceGuest, queues: int, namespaces: Namespaces, mtu: int) -> list[Tap]:
    taps: list[Tap] = []
    try:
        with namespaces.inside(device.node), IPRoute() as links:
            for port in guest.ports:
                if device.on_macvtaps:
                    taps.append(_above_cable(links, device, port, queues, mtu))
                    continue
                taps.append(open_tap(port.tap, queues=queues))
                (index,), (bridge,) = (links.link_lookup(ifname=each) for each in (port.tap, port.bridge))
                links.link("set", index=index, mtu=mtu, master=bridge, state="up")
                if device.ways > 1:
                    _know_address(links, index, port.mac)
    except BaseException:
        for tap in taps:
            tap.close()
        raise
    return taps


def _above_cable(links: IPRoute, device: Device, port: GuestPort, queues: int, mtu: int) -> Tap:
    """A macvtap above the end of a cable."""
    (cable,) = links.link_lookup(ifname=port.outer.name)
    mode: Mode = "bridge" if device.ways > 1 else "passthru"
    tap = add_macvtap(links, port.tap, cable, port.mac, mode, queues=queues)
    try:
        (index,) = links.link_lookup(ifname=port.tap)
        links.link("set", index=index, mtu=mtu, state="up")
    except BaseException:
        tap.close()
        raise
    return tap


def _introduce_tester(device: Device, namespaces: Namespaces) -> None:
    """Let the bridges, or the switches of the fabric, know the ports of the tester. Raises
    EnvironmentError_ if the kernel refuses.
    """
    try:
        _enter_ports(device, namespaces)
    except (NetlinkError, OSError) as error:
        reason = error.args[-1] if isinstance(error, NetlinkError) else error
        raise EnvironmentError_(
            f"the addresses of the tester cannot be entered: {reason}",
            "`hakaru doctor` checks the kernel; or use one guest (`parallel: 1`)",
        ) from error


def _enter_ports(device: Device, namespaces: Namespaces) -> None:
    if device.in_memory:
        with namespaces.inside(device.tester):
            for port in device.ports:
                with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
                    sender.bind((port.name, 0))
                    addresses = (port.device_mac, port.tester_mac)
                    header = b"".join(bytes.fromhex(mac.replace(":", "")) for mac in addresses)
                    sender.send(header + _EXPERIMENTAL + bytes(_FRAME_BYTES - len(header) - len(_EXPERIMENTAL)))
        return
    with namespaces.inside(device.node), IPRoute() as links:
        for port in device.ports:
            (index,) = links.link_lookup(ifname=port.name)
            _know_address(links, index, port.tester_mac)


def _know_address(links: IPRoute, index: int, mac: str) -> None:
    """Add a static entry for a port of a bridge. A permanent one would mean the bridge itself."""
    states, flags = ndmsg.states, ndmsg.flags
    links.fdb("add", ifindex=index, lladdr=mac, state=states["noarp"] | states["reachable"], flags=flags["master"])


def _wait_for_carrier(guest: DeviceGuest) -> str:
    """Shell commands that wait until both interfaces have a carrier."""
    files = " ".join(f"/sys/class/net/{port.outer.name}/carrier" for port in guest.ports)
    return f"""
for i in $(seq {_CARRIER_WAITS}); do
    [ "$(cat {files} | tr -d '\\n')" = 11 ] && exit 0
    usleep {_CARRIER_WAIT_US}
done
echo "no carrier"
exit 1
"""


def _route(guest: DeviceGuest, mtu: int) -> str:
    """Shell commands for a router with static neighbours."""
    lines = ["set -e"]
    for port in guest.ports:
        outer = port.outer
        lines += [
            f"ip link set {outer.name} mtu {mtu} up",
            f"ip address add {outer.router_address}/{outer.prefix_length} dev {outer.name}",
            f"arp -i {outer.name} -s {outer.address} {port.neighbour_mac}",
        ]
    return "\n".join([*lines, "echo 1 >/proc/sys/net/ipv4/ip_forward", _wait_for_carrier(guest)])


def _announce(guest: DeviceGuest) -> str:
    """Shell commands that send a frame from both interfaces, which no one answers."""
    return "\n".join(f"ping -c 1 -W 1 {port.outer.address} >/dev/null || true" for port in guest.ports)


def _bridge(guest: DeviceGuest, mtu: int) -> str:
    """Shell commands for a bridge of both interfaces."""
    lines = ["set -e", "modprobe bridge", "ip link add br0 type bridge"]
    for port in (port.outer.name for port in guest.ports):
        lines += [f"ip link set {port} mtu {mtu} up", f"ip link set {port} master br0"]
    return "\n".join([*lines, "ip link set br0 up", _wait_for_carrier(guest)])


_SCRIPTS: dict[str, Callable[[DeviceGuest, int], str]] = {"routing": _route, "bridge": _bridge}


def describe_guests(guests: Sequence[Guest], spec: GuestDeviceSpec, ports: GuestPorts | None) -> dict[str, Any]:
    """The guests as built, for the repetition's record. `ports`: those in their memory, if any."""
    guest = guests[0]
    return {
        **({"ports": ports.counters} if ports is not None else {}),
        "kind": "guest",
        "nic": spec.nic.model_dump(exclude_none=True),
        "cpus": spec.cpus,
        "chain": spec.chain,
        "parallel": spec.parallel,
        "kernel": guest.kernel_version,
        "accelerator": guest.accelerator.kind,
        "accelerator_reason": guest.accelerator.reason,
        "booted_ns": guest.booted_ns,
    }
