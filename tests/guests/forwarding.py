"""A program that lets a guest forward frames between two NICs: `python -m tests.guests.forwarding
IMAGE NIC [anyway]`, in a network namespace of its own. `anyway`: even if this machine or the image
lacks something for the NIC.

It is a separate process, because it runs as root of a user namespace. A line of JSON on stdout has
what was sent and received.

    side-0 (TAP) ── port-0 [guest: ip_forward] port-1 ── (TAP) side-1
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from typing import Any

from hakaru.errors import HakaruError
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port, macs_of
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.nic import Nic
from hakaru.guest.pinning import Pinning
from hakaru.guest.requirements import requirements, vectors_of
from hakaru.guest.tap import open_tap
from pyroute2 import AsyncIPRoute

FRAMES = 50
TTL = 64
TIMEOUT_S = 60.0
SOURCE, DESTINATION = "10.1.0.1", "10.2.0.1"
SENDER_MAC, RECEIVER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
ETH_P_IP = 0x0800
# Static addresses and neighbours: no frame is needed to learn them.
ROUTER = f"""
set -e
ip address add 10.1.0.254/24 dev port-0
ip address add 10.2.0.254/24 dev port-1
ip link set port-0 up
ip link set port-1 up
arp -i port-1 -s {DESTINATION} {RECEIVER_MAC}
echo 1 >/proc/sys/net/ipv4/ip_forward
for i in $(seq 500); do
    [ "$(cat /sys/class/net/port-0/carrier /sys/class/net/port-1/carrier)" = "1
1" ] && break
    usleep 20000
done
ethtool -i port-0
"""
# Processors that may handle the interrupts of both ports.
PROCESSORS = """
for i in $(grep port- /proc/interrupts | cut -d: -f1); do cat /proc/irq/$i/smp_affinity_list; done
"""


def frame_to(mac: str, number: int, port: int = 4000) -> bytes:
    """Return an Ethernet frame with a UDP datagram that carries a number, from a port."""
    payload = struct.pack("!I", number) + bytes(60)
    udp = struct.pack("!HHHH", port, 4001, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), number, 0, TTL, socket.IPPROTO_UDP, 0)
    head += socket.inet_aton(SOURCE) + socket.inet_aton(DESTINATION)
    total = sum(struct.unpack("!10H", head))
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ethernet = bytes.fromhex((mac + SENDER_MAC).replace(":", "")) + struct.pack("!H", ETH_P_IP)
    return ethernet + head[:10] + struct.pack("!H", checksum) + head[12:] + udp


async def opened(interface: str) -> socket.socket:
    """Return a packet socket on an interface, which is brought up."""
    async with AsyncIPRoute() as links:
        (index,) = await links.link_lookup(ifname=interface)
        await links.link("set", index=index, state="up")
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    packets.bind((interface, ETH_P_IP))
    packets.setblocking(False)
    return packets


async def receive(packets: socket.socket) -> list[dict[str, Any]]:
    """Return the numbers and the times to live of the forwarded frames, until all have arrived."""
    received: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    while len(received) < FRAMES:
        frame = await loop.sock_recv(packets, 2048)
        if frame[:6] == bytes.fromhex(RECEIVER_MAC.replace(":", "")):
            received.append(
                {"number": struct.unpack("!I", frame[42:46])[0], "ttl": frame[22], "from": frame[6:12].hex(":")}
            )
    return received


async def forward(image_name: str, nic: Nic, *, anyway: bool) -> dict[str, Any]:
    """Boot the guest, send frames on one side, and receive them on the other one."""
    image = find_image(image_name)  # type: ignore[arg-type]
    accelerator = await find_accelerator(image)
    facts = collect_facts(accelerator)
    if (refusal := requirements(nic, image.recipe, facts)) is not None and not anyway:
        return {"refused": refusal.reason}
    with open_tap("side-0", queues=nic.queues) as left, open_tap("side-1", queues=nic.queues) as right:
        ports = tuple(
            Port(f"port-{number}", nic, tap.descriptors, vectors_of(nic, facts))
            for number, tap in enumerate((left, right))
        )
        spec = GuestSpec("router", image, ports=ports, host_network=False, pinning=Pinning(interrupts=(1,)))
        async with await Guest.boot(spec, accelerator) as guest:
            # QEMU has descriptors of its own.
            left.close()
            right.close()
            driver = await guest.run(ROUTER)
            mac, own = macs_of(ports, spec.number)
            loop = asyncio.get_running_loop()
            with await opened("side-0") as sender, await opened("side-1") as receiver:
                arrived = asyncio.create_task(receive(receiver))
                for number in range(FRAMES):
                    await loop.sock_sendall(sender, frame_to(mac, number))
                received = await asyncio.wait_for(arrived, TIMEOUT_S)
            modules = await guest.run("modprobe -a ext4 dm_multipath scsi_dh_alua 2>&1; lsmod")
            processors = await guest.run(PROCESSORS)
            devices = await guest.emulator.pci_devices()
            await guest.emulator.quit()
    async with AsyncIPRoute() as links:
        remaining = [link.get("ifname") async for link in await links.get_links()]
    return {"sent_to": mac, "forwarded_by": own, "received": received, "driver": driver, "devices": devices,
            "modules": modules, "processors": processors.split(), "remaining": remaining}  # fmt: skip


def main() -> int:
    """Print the result as JSON, or the error."""
    image, nic, *anyway = sys.argv[1:]
    try:
        print(json.dumps(asyncio.run(forward(image, Nic.model_validate(json.loads(nic)), anyway=bool(anyway)))))
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
