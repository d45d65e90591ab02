"""The guests of a device under test, one behind the other or side by side. Pure.

    cable ── br-left ── [1] ── br-mid-1 ── [2] ── br-right ── cable
    cable ───────────── [1] ────────────── [2] ────────────── cable    (vhost-user: a fabric)
    cable ───────────── [1] ───────────────────────────────── cable    (macvtap)

    cable ── br-left ─┬─ [1] ─┬─ br-right ── cable
                      └─ [2] ─┘                          (vhost-user: switches of the fabric)

Each guest has a port `left` and a port `right`, and is set up as if the tester were behind both of
them: only the MAC address of its neighbour differs. Its ports have names of their own outside.
Guests side by side have the same addresses of IP. Frames reach one of them by its MAC address.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hakaru.engine import contract
from hakaru.lab.plan.device import QUEUE_BYTES, Device, DevicePort, bridge_of, mac_of_port

ADDRESS_AGE_S = 1_000_000
"""Time in which a switch of the fabric forgets an address that it does not see: the longest."""


@dataclass(frozen=True)
class GuestPort:
    """A port of a guest."""

    outer: DevicePort
    """The port of the device on the same side, with its addresses and its name in the guest."""
    name: str
    """Name outside of the guest: `left` and `right` at the ends of a chain, else `right-1`,
    `left-2`.
    """
    mac: str
    neighbour_mac: str
    """MAC address at the other end: of the tester, or of the next guest."""
    bridge: str

    @property
    def tap(self) -> str:
        """The TAP or macvtap behind its NIC."""
        return f"tap-{self.name}"

    @property
    def socket(self) -> str:
        """Socket of a port in the memory of the guest: an abstract name in the device's namespace,
        which leaves no file behind.
        """
        return f"@{self.name}"

    @property
    def end(self) -> contract.VhostUserEnd:
        """The end of a fabric's link in the memory of the guest."""
        return contract.VhostUserEnd(name=f"guest-{self.name}", socket=self.socket)


@dataclass(frozen=True)
class DeviceGuest:
    """A guest of the device."""

    name: str
    place: str
    """Beginning of the names of its losses: `device`, of several guests with its name."""
    left: GuestPort
    right: GuestPort

    @property
    def ports(self) -> tuple[GuestPort, GuestPort]:
        """Both ports, in the order of its NICs."""
        return self.left, self.right


def device_guests(device: Device) -> tuple[DeviceGuest, ...]:
    """Return the guests of a device: of a chain, in the order of the way from left to right."""
    assert device.guest is not None
    if device.ways > 1:
        return tuple(_beside(device, position) for position in range(device.ways))
    return tuple(_guest(device, device.guest.chain, position) for position in range(device.guest.chain))


def entrances(device: Device) -> tuple[GuestPort, ...]:
    """Return the ports of guests at which frames enter the device."""
    guests = device_guests(device)
    if device.ways > 1:
        return tuple(port for guest in guests for port in guest.ports)
    return guests[0].left, guests[-1].right


def _beside(device: Device, position: int) -> DeviceGuest:
    name = f"{device.name}-{position + 1}"
    left, right = (
        GuestPort(
            outer, f"{outer.name}-{position + 1}", mac_of_port(place, position), outer.tester_mac, bridge_of(outer)
        )
        for place, outer in enumerate(device.ports)
    )
    return DeviceGuest(name, f"device/{name}", left, right)


def _guest(device: Device, length: int, position: int) -> DeviceGuest:
    left, right = device.ports
    is_first, is_last = position == 0, position == length - 1
    name = device.name if length == 1 else f"{device.name}-{position + 1}"
    return DeviceGuest(
        name,
        "device" if length == 1 else f"device/{name}",
        GuestPort(
            left,
            left.name if is_first else f"{left.name}-{position + 1}",
            mac_of_port(0, position),
            left.tester_mac if is_first else mac_of_port(1, position - 1),
            bridge_of(left) if is_first else _middle(position),
        ),
        GuestPort(
            right,
            right.name if is_last else f"{right.name}-{position + 1}",
            mac_of_port(1, position),
            right.tester_mac if is_last else mac_of_port(0, position + 1),
            bridge_of(right) if is_last else _middle(position + 1),
        ),
    )


def _middle(number: int) -> str:
    return f"br-mid-{number}"


def plan_guest_fabric(device: Device, mtu: int) -> contract.FabricEngineConfig:
    """Configuration of the fabric between the cables and the memory of the guests. Its links are as
    fast as the machine.
    """
    if device.ways > 1:
        fabric = _switched(device, mtu)
    else:
        guests = device_guests(device)
        links = [_link(port.name, contract.InterfaceEnd(name=port.name), port.end, mtu) for port in entrances(device)]
        for number, (before, after) in enumerate(pairwise(guests), start=1):
            links.append(_link(f"mid-{number}", before.right.end, after.left.end, mtu))
        fabric = contract.FabricConfig(links=links)
    # Counters are asked for between trials. A sample would take time from a device at work.
    return contract.FabricEngineConfig(fabric=fabric, sample_interval_ms=60_000)


def _switched(device: Device, mtu: int) -> contract.FabricConfig:
    """A switch between each cable and the guests side by side."""
    # Frames of one direction never show a switch where the guests are. They announce themselves
    # once, after their boot.
    switches = [contract.SwitchConfig(name=port.name, address_age_s=ADDRESS_AGE_S) for port in device.ports]
    links = []
    for port in device.ports:
        links.append(_link(port.name, contract.InterfaceEnd(name=port.name), contract.SwitchEnd(name=port.name), mtu))
    for inner in entrances(device):
        links.append(_link(inner.name, contract.SwitchEnd(name=inner.outer.name), inner.end, mtu))
    return contract.FabricConfig(switches=switches, links=links)


def _link(name: str, a: contract.End, b: contract.End, mtu: int) -> contract.LinkConfig:
    queue = contract.Direction(queue=contract.Queue(bytes=QUEUE_BYTES))
    return contract.LinkConfig(name=name, a=a, b=b, mtu_bytes=mtu, a_to_b=queue, b_to_a=queue)
