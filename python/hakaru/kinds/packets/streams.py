"""The tester's engine: its ports, and one stream of frames for each direction. If guests stand side
by side, each has a stream of its own in each direction, with an equal share of the frames.

The streams of the loop go over the cable that connects two ports of the tester without a device.
"""

from __future__ import annotations

from collections.abc import Sequence

from hakaru.engine import contract
from hakaru.kinds.packets.load import PacketsLoad
from hakaru.lab.plan import Device
from hakaru.lab.plan.device import mac_of_port

FORWARD, BACKWARD, LOOP_FORWARD, LOOP_BACKWARD = "forward", "backward", "loop-forward", "loop-backward"
LOOP_ADDRESSES = ("198.18.0.1", "198.18.0.2")
"""Addresses of frames on the loop, from the network that RFC 2544 reserves for tests."""


def packets_config(load: PacketsLoad, device: Device, sample_interval_ms: int) -> contract.PacketsConfig:
    """The configuration of the tester's engine."""
    ports = [contract.PacketPort(name=name, interface=name) for name in port_names(device)]
    return contract.PacketsConfig(
        ports=ports,
        streams=[
            *(_through(load, device, way, backward=False) for way in range(device.ways)),
            *(_through(load, device, way, backward=True) for way in range(device.ways)),
            *_loop(load, device.loop),
        ],
        transmit=load.transmit,
        receive=load.receive,
        sample_interval_ms=sample_interval_ms,
        avoid_processors=_processors_of(device),
    )


def _processors_of(device: Device) -> list[int]:
    """Processors that a guest is pinned to. A generator beside it would send late, and the guest
    would forward less.
    """
    pinning = device.guest.pinning if device.guest is not None else None
    return sorted({*pinning.vcpus, *pinning.others}) if pinning is not None else []


def port_names(device: Device) -> tuple[str, ...]:
    """Names of the tester's ports, which are those of its interfaces."""
    return (*(port.name for port in device.ports), *(device.loop or ()))


def _through(load: PacketsLoad, device: Device, way: int, *, backward: bool) -> contract.PacketStream:
    """The stream of one direction. `way`: number of the guest among those side by side, from 0."""
    source, destination = device.ports[::-1] if backward else device.ports
    # A router is addressed by its MAC address, a bridge by that of the destination.
    # The engine knows the addresses of a site's own interfaces.
    mac = (source.device_mac if device.routes else destination.tester_mac) or None
    name = BACKWARD if backward else FORWARD
    if device.ways > 1:
        mac, name = mac_of_port(int(backward), way), f"{name}-{way + 1}"
    addresses = (source.address, destination.address)
    return _stream(load, name, (source.name, destination.name), addresses, mac)


def _loop(load: PacketsLoad, ports: tuple[str, str] | None) -> list[contract.PacketStream]:
    if ports is None:
        return []
    return [
        _stream(load, LOOP_FORWARD, ports, LOOP_ADDRESSES),
        _stream(load, LOOP_BACKWARD, ports[::-1], LOOP_ADDRESSES[::-1]),
    ]


def _stream(
    load: PacketsLoad, name: str, ports: tuple[str, str], addresses: tuple[str, str], mac: str | None = None
) -> contract.PacketStream:
    """A stream between two ports of the tester. `mac`: None for that of the destination port."""
    return contract.PacketStream.model_validate(
        {
            "name": name,
            "from": ports[0],
            "to": ports[1],
            "destination_mac": mac,
            "source_address": addresses[0],
            "destination_address": addresses[1],
            "flows": load.flows,
            "sizes": [contract.FrameSize(bytes=size, weight=weight) for size, weight in load.sizes],
        }
    )


def rates_through(load: PacketsLoad, ways: int, rate: float) -> Sequence[float | None]:
    """Rate of each stream for frames through the device; `rate` is that of all directions. `ways`:
    number of guests side by side.
    """
    return _rates(load, ways, through=rate / load.directions / ways)


def rates_of_loop(load: PacketsLoad, ways: int) -> Sequence[float | None]:
    """Rate of each stream for frames over the loop, as fast as possible."""
    return _rates(load, ways, loop=None)


def flooding(load: PacketsLoad, ways: int) -> Sequence[float | None]:
    """Rate of each stream for frames through the device, as fast as possible."""
    return _rates(load, ways, through=None)


def _rates(
    load: PacketsLoad, ways: int, *, through: float | None = 0.0, loop: float | None = 0.0
) -> Sequence[float | None]:
    """Rate of each stream, in the order of `packets_config`."""
    back = load.directions > 1
    return [
        *[through] * ways,
        *[through if back else 0.0] * ways,
        loop,
        loop if back else 0.0,
    ]
