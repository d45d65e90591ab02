"""Program of the tests: paths that fail under a verified load of a guest whose kernel joins them,
in a lab of its own sandbox. All tasks share one guest, because booting it takes longer than most of
them. Each prints one line of JSON.

    kernel_paths.py IMAGE TASK…

    MANAGER:POLICY:COUNT    cut cables so many times
    states                  change the access state of a port, with multipathd
    not-one-lu              two disks of different LUs
    no-path                 both cables fail; only as the last task, because the load is not ended

A cable is cut between the guest and the switch, so that the guest sees its link as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from hakaru.engine import clock, contract
from hakaru.engine.session import EngineSession
from hakaru.errors import GuestError, HakaruError
from hakaru.guest.login import KernelDisk, KernelLogin, PathTimers
from hakaru.guest.multipath import KernelMultipath, Manager, Policy
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.build.load_guests import LoadGuests
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from pyroute2 import IPRoute

from tests.long_form import IS_LONG

TARGET = "iqn.2011-10.example.hakaru:array"
HOST = "host-1"
TIMERS = PathTimers(nop_interval_s=3, nop_timeout_s=3, recovery_s=3, login_timeout_s=5)
TIMERS_S = TIMERS.nop_interval_s + TIMERS.nop_timeout_s + TIMERS.recovery_s
DEPTH = 4
# Small enough that most blocks are read again after they were written.
LU_BYTES = 4 << 20
REQUESTS = 300
# The gate leaves an emulated processor time for other tests. The long form has no limit.
LOAD: contract.Load = (
    contract.ClosedLoad(queue_depth=DEPTH)
    if IS_LONG
    else contract.OpenLoad(rate_per_s=200.0, arrivals="uniform", in_flight_max=DEPTH)
)
# Longer than any wait for a path that is lost or found again, on a busy machine.
WAIT_S = 120.0
# Bytes after which a share is known: writes of at least 100 requests.
SHARE_BYTES = 100 * 4096
Counters = dict[str, dict[str, float]]
State = Literal["optimized", "non_optimized", "standby", "unavailable"]


@contextlib.asynccontextmanager
async def array(lab: Lab) -> AsyncIterator[EngineSession]:
    config = contract.ArrayConfig(
        target_name=TARGET,
        portals=list(lab.plan.portals()),
        isolated_network=True,
        lus=[contract.LuConfig(lun=lun, size_bytes=LU_BYTES, store=contract.MemoryStore()) for lun in range(2)],
        model=contract.NoModel(kind="none"),
        seed=1,
        sample_interval_ms=200,
    )
    async with await lab.start_engine(lab.plan.array_name, config) as engine:
        await engine.ready()
        await engine.start(clock.now_ns())
        yield engine
        await engine.stop()


def disk_of(lab: Lab, multipath: KernelMultipath) -> KernelDisk:
    settings = tuple(TIMERS.settings().items())
    first, *others = (
        KernelLogin(portal, TARGET, f"iqn.2011-10.example.hakaru:{HOST}", settings) for portal in lab.plan.portals()
    )
    return KernelDisk(first, 0, command_timeout_s=60, other_logins=tuple(others), multipath=multipath)


def load_config(path: str) -> contract.InitiatorConfig:
    vm = contract.Vm(
        name="a",
        destination=contract.FileDestination(path=path, direct=True, multipath=True),
        region=contract.Region(offset_bytes=0, length_bytes=0),
        pattern=contract.Pattern(sizes=[contract.SizeWeight(bytes=4096)], read_percent=50, random_percent=100),
        load=LOAD,
        seed=time.monotonic_ns() & 0xFFFF_FFFF,
    )
    return contract.InitiatorConfig(vms=[vm], warmup_s=0.0, measure_s=0.0, sample_interval_ms=200, verify=True)


class Cables:
    """The cables of the guest, in the order of the portals."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._interfaces = []
        for portal in lab.plan.portals():
            address = ipaddress.ip_address(portal.rpartition(":")[0])
            (found,) = (
                link.interface
                for link in lab.plan.links
                if link.node == HOST
                and address in ipaddress.ip_network(f"{link.address}/{link.prefix_length}", strict=False)
            )
            self._interfaces.append(found)

    async def set(self, cable: int, state: str) -> None:
        def change() -> None:
            with self._lab.namespaces.inside(HOST), IPRoute() as links:
                (index,) = links.link_lookup(ifname=self._interfaces[cable])
                links.link("set", index=index, state=state)

        await asyncio.to_thread(change)


class Load:
    """A verified load that lasts until it is stopped."""

    def __init__(self, engine: EngineSession) -> None:
        self.engine = engine
        self._events = engine.events()
        self.last: Counters = {}

    @classmethod
    async def begin(cls, guests: LoadGuests, path: str) -> Load:
        engine = await guests.start(HOST, load_config(path))
        await engine.ready()
        await engine.start(clock.gang_start_ns(engine.start_lead_ns))
        return cls(engine)

    async def _sample(self) -> Counters:
        async for event in self._events:
            if isinstance(event, contract.Sample):
                self.last = event.counters
                return event.counters
        raise AssertionError("the load ended")

    async def until(self, **expected: float) -> None:
        """Wait until the counters of the paths have these values."""
        async with asyncio.timeout(WAIT_S):
            while not expected.items() <= (await self._sample())["paths/a"].items():
                pass

    async def returned(self) -> None:
        """Wait until a lost session has returned. Its path may seem usable before: multipathd loads
        a new table when a priority changes, and all its paths are usable until they fail.
        """
        async with asyncio.timeout(WAIT_S):
            while not (await self._sample())["paths/a"]["failback_ns_sum"]:
                pass

    async def progress(self) -> None:
        """Wait until so many further requests have completed."""
        begin = None
        async with asyncio.timeout(WAIT_S):
            while True:
                vms = (await self._sample())["vms"]
                done = vms["reads"] + vms["writes"]
                begin = done if begin is None else begin
                if done >= begin + REQUESTS:
                    return

    async def stop(self) -> Counters:
        """End the load; wrong data or a lost VM raises. Returns the last sample."""
        stopping = asyncio.create_task(self.engine.stop(WAIT_S))
        async for event in self._events:
            if isinstance(event, contract.Sample):
                self.last = event.counters
        await stopping
        await self.engine.close()
        return self.last


async def cuts(lab: Lab, manager: Manager, policy: Policy, count: int) -> dict[str, Any]:
    """Cut the cables in turns, each under a load of its own."""
    guests, cables = lab.load_guests, Cables(lab)
    use = KernelMultipath(manager, policy, TIMERS.recovery_s, check_s=1, failback_s=0, no_path_s=60)
    disk = disk_of(lab, use)
    path = (await guests.attach(HOST, [disk]))[disk]
    found: dict[str, Any] = {"path": path, "cuts": []}
    for cut in range(count):
        # With this policy only the first path carries the load.
        cable = 0 if policy == "failover" else cut % 2
        load = await Load.begin(guests, path)
        await load.until(paths_usable_now=2)
        await load.progress()
        await cables.set(cable, "down")
        await load.until(path_losses=1, paths_usable_now=1)
        await load.progress()
        await cables.set(cable, "up")
        await load.returned()
        await load.until(paths_usable_now=2)
        await load.progress()
        last = await load.stop()
        found["cuts"].append(last["paths/a"] | {"errors": last["vms"]["errors"]})
        print(json.dumps(found["cuts"][-1]), file=sys.stderr)
    running = guests._running[HOST].guest
    found["accelerator"] = running.accelerator.kind
    found["table"] = await running.run("dmsetup table")
    found["sessions"] = (await running.run("ls /sys/class/iscsi_session")).split()
    found["recovery"] = (await running.run("cat /sys/class/iscsi_session/*/recovery_tmo")).split()
    await guests.finish()
    processes = r"ps | grep -c '[m]ultipathd\|[p]aths-' || :"
    found["left"] = await running.run(f"dmsetup ls; ls /sys/class/iscsi_session; {processes}")
    return found


async def no_path(lab: Lab) -> dict[str, Any]:
    """Cut all cables: the requests wait for `no_path_s`, then fail."""
    guests, cables = lab.load_guests, Cables(lab)
    use = KernelMultipath("table", "round_robin", TIMERS.recovery_s, check_s=1, failback_s=0, no_path_s=3)
    disk = disk_of(lab, use)
    path = (await guests.attach(HOST, [disk]))[disk]
    load = await Load.begin(guests, path)
    await load.until(paths_usable_now=2)
    await load.progress()
    for cable in range(2):
        await cables.set(cable, "down")
    async with asyncio.timeout(WAIT_S):
        while not (await load._sample())["vms"]["errors"]:
            pass
    # The node gets its links back.
    for cable in range(2):
        await cables.set(cable, "up")
    return {"paths": load.last["paths/a"], "errors": load.last["vms"]["errors"]}


async def work(image: str, tasks: list[str]) -> None:
    """Build the lab, do the tasks and print their results."""
    spec = LabSpec.model_validate({"hosts": 1, "paths": 2, "load_guest": {"cpus": 1, "image": image}})
    async with Lab(plan_lab(spec)) as lab, array(lab) as engine:
        await lab.load_guests.plug(lab.plan, lab.namespaces, [HOST])
        try:
            for task in tasks:
                print(json.dumps({"task": task, **await result_of(lab, engine, task)}), flush=True)
        finally:
            await lab.load_guests.unplug()


async def result_of(lab: Lab, engine: EngineSession, task: str) -> dict[str, Any]:
    match task.split(":"):
        case ["states"]:
            return await states(lab, engine)
        case ["no-path"]:
            return await no_path(lab)
        case ["not-one-lu"]:
            return await refused(lab)
        case [manager, policy, count]:
            return await cuts(lab, manager, policy, int(count))  # type: ignore[arg-type]
    raise AssertionError(f"unknown task {task}")


async def share(engine: EngineSession) -> float:
    """Share of the first port of the array in the next bytes that it receives."""
    begun_ns, first = clock.now_ns(), [0.0, 0.0]
    async for event in engine.events():
        if not isinstance(event, contract.Sample) or event.at_ns < begun_ns:
            continue
        received = [event.counters[f"port/{port}"]["rx_bytes"] for port in range(2)]
        first = first if any(first) else received
        grown = [now - before for now, before in zip(received, first, strict=True)]
        if sum(grown) >= SHARE_BYTES:
            return grown[0] / sum(grown)
    raise AssertionError("the array ended")


async def states(lab: Lab, engine: EngineSession) -> dict[str, Any]:
    """Change the access state of the first port to each other one and back, under one load. Wait
    until the load has left the port, and until both ports share it again.
    """

    async def change(state: State, transition_ms: int, least: float, most: float) -> None:
        order = contract.SetPortStateAction(portal=0, state=state, transition_ms=transition_ms)
        await engine.manage(order)
        async with asyncio.timeout(WAIT_S):
            while not least <= (part := await share(engine)) <= most:
                pass
        print(f"{state} after {transition_ms} ms: share {part:.3f}", file=sys.stderr)

    guests = lab.load_guests
    use = KernelMultipath("multipathd", "round_robin", TIMERS.recovery_s, check_s=1, failback_s=0, no_path_s=60)
    disk = disk_of(lab, use)
    path = (await guests.attach(HOST, [disk]))[disk]
    load = await Load.begin(guests, path)
    await load.until(paths_usable_now=2)
    changes: list[tuple[State, int]] = [("standby", 0), ("unavailable", 0), ("non_optimized", 0), ("standby", 1000)]
    for state, transition_ms in changes:
        await change(state, transition_ms, 0.0, 0.02)
        await change("optimized", transition_ms, 0.3, 0.7)
    last = await load.stop()
    await guests.finish()
    return {"paths": last["paths/a"], "errors": last["vms"]["errors"], "changes": len(changes)}


async def refused(lab: Lab) -> dict[str, Any]:
    """Ask for what the guest does not have: disks that are one LU, then multipath-tools."""
    guests = lab.load_guests
    use = KernelMultipath("table", "round_robin", TIMERS.recovery_s, check_s=1, failback_s=0, no_path_s=3)
    disk = disk_of(lab, use)
    await guests.attach(HOST, [disk])
    running = guests._running[HOST]
    assert running.joined is not None and running.initiator is not None
    found: dict[str, Any] = {}
    session = await running.initiator.log_in(lab.plan.portals()[0], TARGET)
    first, other = await session.disk(0), await session.disk(1)
    for name, disks, changed in (
        ("not one LU", [first, other], use),
        ("no program", [first], KernelMultipath("multipathd", "round_robin", 2, 1, 0, 3)),
    ):
        try:
            async with guests._failing(HOST):
                await running.joined.join([disks], changed)
        except GuestError as error:
            found[name] = error.message
    await guests.finish()
    return found


def main() -> int:
    """Print the results, or the error."""
    sandbox.enter()
    try:
        asyncio.run(work(sys.argv[1], sys.argv[2:]))
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
