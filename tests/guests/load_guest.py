"""Program of the tests: a guest in the place of a host, in a lab of its own sandbox. It prints one
line of JSON.

First the array refuses the login, then the same host gets another guest, which loads the disk. With
the argument `in-part`, a guest gets only one of two links.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from hakaru.engine import clock, contract
from hakaru.errors import GuestError, HakaruError
from hakaru.guest.login import KernelDisk, KernelLogin
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from pyroute2 import IPRoute

TARGET = "iqn.2011-10.example.hakaru:array"
HOST = "host-1"
ACCESS = {
    "users": [{"name": "vm-1", "secret": {"kind": "text", "text": "what the guest knows"}}],
    "rules": [
        {"initiator_name": "iqn.2011-10.example.hakaru:stranger", "user": "vm-1"},
        {"initiator_name": "iqn.2011-10.example.hakaru:host-1"},
    ],
}


@contextlib.asynccontextmanager
async def array(lab: Lab) -> AsyncIterator[dict[str, float]]:
    """Run the array; its final values are in the dictionary after the block."""
    config = contract.ArrayConfig(
        target_name=TARGET,
        portals=list(lab.plan.portals()),
        isolated_network=True,
        lus=[contract.LuConfig(lun=0, size_bytes=64 << 20, store=contract.MemoryStore())],
        model=contract.NoModel(kind="none"),
        seed=1,
        access=contract.AccessConfig.model_validate(ACCESS),
    )
    values: dict[str, float] = {}
    async with await lab.start_engine(lab.plan.array_name, config) as engine:
        await engine.ready()
        await engine.start(clock.now_ns())
        yield values
        values |= (await engine.stop()).values


def disk(lab: Lab, initiator: str) -> KernelDisk:
    login = KernelLogin(lab.plan.portals()[0], TARGET, f"iqn.2011-10.example.hakaru:{initiator}")
    return KernelDisk(login, 0, command_bytes_max=128 << 10, command_timeout_s=60)


def load(path: str) -> contract.InitiatorConfig:
    vm = contract.Vm(
        name="vm01",
        destination=contract.FileDestination(path=path, direct=True),
        region=contract.Region(offset_bytes=0, length_bytes=0),
        pattern=contract.Pattern(sizes=[contract.SizeWeight(bytes=16384)], read_percent=50, random_percent=100),
        load=contract.ClosedLoad(queue_depth=2),
        seed=1,
    )
    return contract.InitiatorConfig(vms=[vm], warmup_s=0.5, measure_s=1.0, verify=True)


def interfaces(lab: Lab) -> list[str]:
    with lab.namespaces.inside(HOST), IPRoute() as links:
        return sorted(link.get("ifname") for link in links.get_links())


async def work() -> dict[str, Any]:
    """Refuse a login, then use the next guest; report what the host has at each step."""
    spec = LabSpec.model_validate({"hosts": 1, "load_guest": {"cpus": 1, "nic": {"model": sys.argv[1]}}})
    found: dict[str, Any] = {}
    async with Lab(plan_lab(spec)) as lab, array(lab) as values:
        guests = lab.load_guests
        await guests.plug(lab.plan, lab.namespaces, [HOST])
        try:
            await guests.attach(HOST, [disk(lab, "stranger")])
        except GuestError as error:
            found["refused"] = error.message
        await guests.unplug()
        found["after_refusal"] = await asyncio.to_thread(interfaces, lab)
        await guests.plug(lab.plan, lab.namespaces, [HOST])
        wanted = disk(lab, HOST)
        paths = await guests.attach(HOST, [wanted])
        engine = await guests.start(HOST, load(paths[wanted]))
        await engine.ready()
        start_ns = clock.gang_start_ns(engine.start_lead_ns)
        await engine.start(start_ns)
        result = await engine.result(60)
        await guests.finish()
        found |= {"guest": guests.describe()[HOST], "values": result.values, "path": paths[wanted]}
        found["late_ms"] = (result.at_ns - start_ns) / 1e6
        await guests.unplug()
        found["between"] = await asyncio.to_thread(interfaces, lab)
        # Every repetition boots a guest of its own.
        await guests.plug(lab.plan, lab.namespaces, [HOST])
        emulator = guests._running[HOST].guest.emulator
        found["again"] = (await emulator.status(), guests.describe()[HOST]["booted_ns"])
        emulator.kill()
        await emulator.wait(10)
        try:
            guests.check()
        except GuestError as error:
            found["killed"] = error.message
        await guests.unplug()
    found["array"] = values
    return found


def occupy(lab: Lab) -> None:
    """Add a macvlan to the second link, which a bridge then refuses."""
    with lab.namespaces.inside(HOST), IPRoute() as links:
        links.link("add", ifname="occupant", kind="macvlan", link=links.link_lookup(ifname="eth1")[0])


def free(lab: Lab) -> None:
    with lab.namespaces.inside(HOST), IPRoute() as links:
        links.link("del", index=links.link_lookup(ifname="occupant")[0])


def bridged(lab: Lab) -> dict[str, bool]:
    with lab.namespaces.inside(HOST), IPRoute() as links:
        return {name: links.link("get", ifname=name)[0].get("master") is not None for name in ("eth0", "eth1")}


async def work_in_part() -> dict[str, Any]:
    """Let the second of two links fail, and report what the host has then."""
    spec = LabSpec.model_validate({"hosts": 1, "paths": 2, "load_guest": {"cpus": 1}})
    found: dict[str, Any] = {}
    async with Lab(plan_lab(spec)) as lab:
        guests = lab.load_guests
        await asyncio.to_thread(occupy, lab)
        try:
            await guests.plug(lab.plan, lab.namespaces, [HOST])
        except GuestError as error:
            found["refused"] = error.message
        found["in part"] = await asyncio.to_thread(bridged, lab)
        await guests.unplug()
        found["returned"] = await asyncio.to_thread(bridged, lab)
        await asyncio.to_thread(free, lab)
        await guests.plug(lab.plan, lab.namespaces, [HOST])
        found["again"] = await asyncio.to_thread(bridged, lab)
        await guests.unplug()
    return found


def main() -> int:
    """Print the result, or the error."""
    sandbox.enter()
    try:
        print(json.dumps(asyncio.run(work_in_part() if sys.argv[1] == "in-part" else work())))
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
