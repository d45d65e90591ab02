"""Frames that a device under test has lost, by counters of interfaces. All counts are cumulative.

    input/PORT                               frames for which a guest had no receive buffer
    host/INTERFACE/rx, host/INTERFACE/tx     in front of a guest: TAPs, bridges, ends of the cables
    host/LINK/COUNTER, host/PORT/COUNTER     the fabric between the cables and the guests' memory,
                                             its links, ports and switches
    device/INTERFACE/rx, device/…/tx         the device itself: its namespace, or inside the guest
    device/INTERFACE/queue                   the queue of a port with a rate
    device/GUEST/INTERFACE/rx, …/tx          inside each of several guests
    output/INTERFACE                         frames that the tester's end of a cable did not accept

Counts are read while no frame is under way, so the difference of two readings belongs to the trials
between them. A loss that none of these counters has is found as the difference to the frames that
the tester misses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyroute2 import IPRoute
from pyroute2.netlink.rtnl import TC_H_ROOT

from hakaru import lost_packets
from hakaru.lab.build.apply import Namespaces
from hakaru.lab.plan.device import Device
from hakaru.lab.plan.device_guests import device_guests

if TYPE_CHECKING:
    from hakaru.guest.machine import Guest

ANSWER_TIMEOUT_S = 20.0
"""A guest without a load answers within milliseconds, on an emulated processor within 1 s."""
_NET_DEV = "/proc/thread-self/net/dev"
_HEADER_LINES = 2
# Columns of /proc/net/dev behind the name (net/core/net-procfs.c). `drop` includes missed frames.
_RX_ERRS, _RX_DROP, _TX_ERRS, _TX_DROP = 2, 3, 10, 11


def parse_net_dev(text: str, macvtaps: frozenset[str] = frozenset()) -> Iterator[tuple[str, int, int]]:
    """Yield each interface with the frames that it lost in reception and in transmission: errors
    and drops of /proc/net/dev.

    A frame that one of `macvtaps` loses in reception is both an error and a drop of it
    (`macvlan_dev_get_stats64` of Linux), and counts once.
    """
    for line in text.splitlines()[_HEADER_LINES:]:
        name, _, rest = line.partition(":")
        columns = rest.split()
        if len(columns) > _TX_DROP:
            counts = [int(column) for column in columns]
            errors = 0 if name.strip() in macvtaps else counts[_RX_ERRS]
            yield name.strip(), errors + counts[_RX_DROP], counts[_TX_ERRS] + counts[_TX_DROP]


def losses_of(
    text: str, place: str, cables: frozenset[str] = frozenset(), macvtaps: frozenset[str] = frozenset()
) -> dict[str, int]:
    """Losses by the interfaces in a text of /proc/net/dev. `cables`: interfaces whose transmission
    ends at the tester.

    An interface of a cable drops what the tester's end does not accept. That end counts some of
    these frames as well, so they are a place of their own.
    """
    losses = {}
    for name, received, sent in parse_net_dev(text, macvtaps):
        if name == "lo":
            continue
        losses[f"{place}/{name}/rx"] = received
        losses[f"output/{name}" if name in cables else f"{place}/{name}/tx"] = sent
    return losses


def losses_of_fabric(counters: Mapping[str, Mapping[str, float]], inputs: Collection[str]) -> dict[str, int]:
    """Losses by the links, ports and switches of a fabric between the cables and the memory of
    guests. `counters`: entity → name → value. `inputs`: ports that frames enter the device by.

    A frame of a test is one packet. `lost_after` is left out: it is the kernel's counter of the
    same interface, which `losses_of` has.
    """
    losses = {}
    for entity, values in counters.items():
        kind, _, place = entity.partition("/")
        if kind not in ("link", "interface", "switch"):
            continue
        for name, value in values.items():
            if name == "dropped_no_buffer" and place in inputs:
                losses[f"input/{place}"] = int(value)
            elif name.startswith("dropped_") or (name in lost_packets.LOST and name != "lost_after"):
                losses[f"host/{place}/{name}"] = int(value)
    return losses


def count_here(namespaces: Namespaces, device: Device) -> dict[str, int]:
    """Losses in the namespace of a device. Changes the network namespace of this thread for the
    time of the call.
    """
    queues = {}
    with namespaces.inside(device.node):
        text = Path(_NET_DEV).read_text()
        if device.port_rate_bits_per_s is not None:
            queues = _losses_of_queues([port.name for port in device.ports])
    place = "device" if device.guest is None else "host"
    guests = device_guests(device) if device.on_macvtaps else ()
    macvtaps = frozenset(port.tap for guest in guests for port in guest.ports)
    return losses_of(text, place, frozenset(port.name for port in device.ports), macvtaps) | queues


def _losses_of_queues(ports: Sequence[str]) -> dict[str, int]:
    """Frames that the queues of a device's ports, in this thread's namespace, have dropped."""
    losses = {}
    with IPRoute() as socket:
        for port in ports:
            (index,) = socket.link_lookup(ifname=port)
            (root,) = [queue for queue in socket.get_qdiscs(index) if queue["parent"] == TC_H_ROOT]
            losses[f"device/{port}/queue"] = int(root.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"])
    return losses


async def count_in_guest(guest: Guest, place: str = "device") -> dict[str, int]:
    """Losses of the interfaces inside a guest. Raises LostError if it does not answer in time."""
    try:
        text = await asyncio.wait_for(guest.run("cat /proc/net/dev"), ANSWER_TIMEOUT_S)
    except TimeoutError:
        # Its virtual processors may stand still while QEMU itself responds.
        state = await guest.emulator.status()
        problem = f"did not respond within {ANSWER_TIMEOUT_S:g} s; QEMU reports the state `{state}`"
        raise guest.emulator.lost_error(problem) from None
    return losses_of(text, place)
