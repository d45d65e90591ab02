"""Counters of a guest's disk by the watch engine, against known requests and the guest's kernel."""

from __future__ import annotations

from hakaru.engine import clock, contract
from hakaru.guest.engine import EngineHost, GuestEngine
from hakaru.guest.machine import Guest

from tests.guests.conftest import Run
from tests.guests.disk import LONG_S, disk_of
from tests.peers.array import MIB, array, lu

WATCH = contract.WatchConfig(sample_interval_ms=100, machine=True)
WRITTEN_MIB, READ_MIB = 8, 4


def test_watch_in_a_guest_counts_requests_bytes_and_times_of_its_disk(guest: Guest, run: Run) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB)) as storage:
            async with disk_of(guest, storage) as disk, await EngineHost.open(guest) as host:
                name = disk.removeprefix("/dev/")
                async with await host.spawn("vm-1", WATCH) as engine:
                    await engine.ready()
                    await engine.start(clock.gang_start_ns(1_000_000_000))
                    before = await sample_of(engine, clock.now_ns())
                    copy = f"dd if=/dev/zero of={disk} bs=64k count={WRITTEN_MIB * 16} oflag=direct conv=fsync && "
                    copy += f"dd if={disk} of=/dev/null bs=64k count={READ_MIB * 16} iflag=direct"
                    await guest.run(copy, timeout_s=LONG_S)
                    after = await sample_of(engine, clock.now_ns() + host.clock.start.bound_ns)
                    kernel = (await guest.run(f"grep ' {name} ' /proc/diskstats")).split()[3:]
        first, last = before.counters.get(f"disk/{name}", {}), after.counters[f"disk/{name}"]
        grown = {counter: value - first.get(counter, 0) for counter, value in last.items()}
        assert grown["write_bytes"] == WRITTEN_MIB * MIB
        assert grown["read_bytes"] == READ_MIB * MIB
        assert grown["writes"] == WRITTEN_MIB * 16 and grown["reads"] == READ_MIB * 16
        # The kernel's own text, read later by another program. Nothing used the disk in between.
        assert last["writes"] == int(kernel[4]) and last["busy_ns"] == int(kernel[9]) * 10**6
        # One request at a time: never more than one was in the queue.
        assert last["requests_now"] == 0
        assert grown["queue_ns"] <= grown["busy_ns"] * 1.1 + 50e6
        memory = after.counters["machine"]
        # The root file system of the guest is in its page cache.
        assert memory["mem_total_bytes_now"] > memory["mem_cached_bytes_now"] > 100 * MIB

    run(work())


async def sample_of(engine: GuestEngine, at_ns: int) -> contract.Sample:
    """Return the first sample taken after an instant."""
    async for event in engine.events():
        if isinstance(event, contract.Sample) and event.at_ns >= at_ns:
            return event
    raise AssertionError("the watch ended")
