"""Program of the tests: a device whose guest stands still while frames arrive in its memory. It
prints one line of JSON.

QEMU is stopped by a signal, so its rings stay set up: the fabric fills the buffers that the guest's
driver has offered, and drops every further frame.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from typing import Any

from hakaru.errors import HakaruError
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.build.guest_ports import GuestPorts
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab

from tests.guests.forwarding import frame_to

LAB = {
    "hosts": ["generator"],
    "device": {"name": "router", "forwards": "guest", "guest": {"cpus": 1, "nic": {"model": "vhost-user"}}},
}
FRAMES = 3000
TIMEOUT_S = 60


def send(lab: Lab) -> None:
    """Send frames to the guest's NIC at the left port."""
    device = lab.plan.device
    assert device is not None
    left = device.ports[0]
    with lab.namespaces.inside(device.tester), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((left.name, 0))
        for number in range(FRAMES):
            sender.send(frame_to(left.device_mac, number))


async def arrived(ports: GuestPorts) -> float:
    """Return the number of frames that have reached the left port."""
    counters = (await ports.engine.count())["interface/guest-left"]
    return counters["to_guest"] + counters["dropped_no_buffer"] + counters["dropped_down"]


async def work() -> dict[str, Any]:
    """Count the losses before and after the guest stood still."""
    async with Lab(plan_lab(LabSpec.model_validate(LAB))) as lab:
        ports, (guest,) = lab._ports, lab._guests
        assert ports is not None
        before = await lab.count_losses()
        to_guest = ports.counters["left"]["to_guest"]
        os.kill(guest.emulator.pid, signal.SIGSTOP)
        try:
            await asyncio.to_thread(send, lab)
            async with asyncio.timeout(TIMEOUT_S):
                while await arrived(ports) < FRAMES:
                    pass
        finally:
            os.kill(guest.emulator.pid, signal.SIGCONT)
        after = await lab.count_losses()
        device = lab.device
        assert device is not None
        return {
            "lost": {place: lost - before[place] for place, lost in after.items() if lost != before[place]},
            "to_guest": ports.counters["left"]["to_guest"] - to_guest,
            "described": device["ports"],
        }


def main() -> int:
    """Print the result, or the error."""
    sandbox.enter()
    try:
        print(json.dumps(asyncio.run(work())))
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
