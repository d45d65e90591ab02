"""Program of the tests: a chain of two guests, the second of which cannot be connected. It prints
one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from typing import Any

from hakaru.errors import DeviceError
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.build import guest as built
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.lab.plan.device import Device
from hakaru.lab.plan.device_guests import DeviceGuest, device_guests

from tests.guests.test_device import guests_below

LAB = {"hosts": ["generator"], "device": {"name": "router", "forwards": "guest", "guest": {"cpus": 1, "chain": 2}}}


def with_missing_bridge(device: Device) -> tuple[DeviceGuest, ...]:
    """Return the guests, the last of which is planned on a bridge that does not exist."""
    first, second = device_guests(device)
    return first, replace(second, right=replace(second.right, bridge="br-missing"))


async def work() -> dict[str, Any]:
    """Let the second guest fail, then build the chain as planned."""
    plan = plan_lab(LabSpec.model_validate(LAB))
    found: dict[str, Any] = {}
    built.device_guests = with_missing_bridge
    async with Lab(plan) as lab:
        found["without"] = len(lab._guests)
        try:
            await lab.adjust(plan)
        except DeviceError as error:
            found["refused"] = error.message
        found["refused_guests"], found["emulators"] = len(lab._guests), emulators()
        built.device_guests = device_guests
        await lab.adjust(plan)
        found["guests"] = [guest.name for guest in lab._guests]
        found["places"] = sorted(place for place in await lab.count_losses() if place.startswith("device/"))
        lab._guests[1].emulator.kill()
        try:
            await lab.count_losses()
        except DeviceError as error:
            found["killed"] = error.message
    found["left"] = emulators()
    return found


def emulators() -> int:
    """Return the number of emulators that this process has started."""
    return len(guests_below(os.getpid()))


if __name__ == "__main__":
    sandbox.enter()
    print(json.dumps(asyncio.run(work())))
