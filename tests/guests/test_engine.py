"""`hakaru-engine` in a guest: the contract and its instants are the same as on this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import EnvironmentError_, LostError, UsageError
from hakaru.guest.command import HOST_ADDRESS
from hakaru.guest.engine import EngineHost
from hakaru.guest.engine_image import PROGRAM, with_engine
from hakaru.guest.image import Image
from hakaru.guest.machine import Guest
from hakaru.guest.port import PortProgram

from tests.guests.conftest import Run

WATCH = contract.WatchConfig(sample_interval_ms=200)
ENGINE_PORT = "hakaru.engine.0"


def test_engines_of_guest_and_host_start_together_on_one_clock(guest: Guest, run: Run) -> None:
    async def work() -> None:
        async with await EngineHost.open(guest) as host:
            guests_engine = await host.spawn("vm-1", WATCH)
            async with guests_engine, await EngineProcess.spawn("host-1", WATCH) as hosts_engine:
                engines = (guests_engine, hosts_engine)
                for engine in engines:
                    await engine.ready()
                # An order takes longer to a guest than through a pipe, so more time is allowed.
                started = clock.gang_start_ns(2_000_000_000)
                await asyncio.gather(*(engine.start(started) for engine in engines))
                samples = {}
                for engine in engines:
                    async for event in engine.events():
                        if isinstance(event, contract.Sample) and event.at_ns >= started:
                            samples[engine.node] = event
                            break
                now = clock.now_ns()
                bound = host.clock.start.bound_ns
                for sample in samples.values():
                    assert started - bound <= sample.at_ns <= now + bound
                # The guest has been up for seconds, so its own clock shows another time.
                assert abs(host.clock.start.offset_ns) > 1_000_000_000
                assert samples["vm-1"].counters != samples["host-1"].counters
                result = await guests_engine.stop()
                assert started - bound <= result.at_ns <= clock.now_ns() + bound
                assert not guests_engine.complaints
        record = host.clock
        assert record.end is not None and record.start.exchanges == 32
        # A guest's clock that is off by a percent could not be used.
        assert record.drift_ppm is not None and abs(record.drift_ppm) < 10_000 + (record.drift_bound_ppm or 0)
        assert record.describe()["start"]["bound_ns"] < 1_000_000_000

    run(work())


def test_port_is_used_again_after_an_engine_that_was_killed(guest: Guest, run: Run) -> None:
    async def work() -> None:
        async with await EngineHost.open(guest) as host:
            async with await host.spawn("vm-1", WATCH) as engine:
                await engine.ready()
                await guest.run(f"kill -KILL $(cat /run/{ENGINE_PORT}.pid)")
                with pytest.raises(LostError, match=r"watch on vm-1 was lost: exit status 137 in guest vm-1"):
                    await engine.result(60)
                # Input that no engine reads does not reach the next one.
                await engine.start(1)
                assert not engine.running
            async with await host.spawn("vm-1", WATCH) as engine:
                await engine.ready()
                assert (await engine.stop()).values is not None

    run(work())


def test_refused_configuration_is_the_engines_own_error(guest: Guest, run: Run) -> None:
    async def work() -> None:
        async with await EngineHost.open(guest) as host:
            broken = WATCH.model_copy(update={"sample_interval_ms": -1})
            async with await host.spawn("vm-1", broken) as engine:
                with pytest.raises(UsageError, match="watch on vm-1"):
                    await engine.ready()
            async with await host.spawn("vm-1", WATCH) as first, await host.spawn("vm-1", WATCH) as second:
                with pytest.raises(EnvironmentError_, match="as many engines as it has ports"):
                    await host.spawn("vm-1", WATCH)
                await asyncio.gather(first.ready(), second.ready())

    run(work())


def test_program_that_is_no_engine_is_named(guest: Guest, run: Run) -> None:
    async def work() -> None:
        program = await PortProgram.start(guest, ENGINE_PORT, ["sh", "-c", "echo one; echo two >&2; exit 3"])
        assert [line async for line in program.lines()] == [b"one\n"]
        assert (program.status, program.stderr, program.running) == (3, "two\n", False)

    run(work())


def test_archive_with_the_engine_is_built_once_per_engine(image: Image, tmp_path: Path) -> None:
    engine = tmp_path / "hakaru-engine"
    engine.write_bytes(Path("/bin/true").read_bytes())
    first = with_engine(image, engine)
    try:
        assert with_engine(image, engine) == first
        content = first.read_bytes()
        assert content.startswith(image.initramfs.read_bytes()) and PROGRAM[1:].encode() in content
        engine.write_bytes(Path("/bin/false").read_bytes())
        second = with_engine(image, engine)
        second.unlink()
        assert second != first
    finally:
        first.unlink()


TARGET = "iqn.2026-01.org.hakaru:array"
MIB = 1 << 20
ARRAY = contract.ArrayConfig(
    target_name=TARGET,
    portals=["127.0.0.1:0"],
    lus=[contract.LuConfig(lun=0, size_bytes=16 * MIB, store=contract.MemoryStore())],
    model=contract.NoModel(kind="none"),
    sample_interval_ms=100,
)


def load(portal: str) -> contract.InitiatorConfig:
    vm = contract.Vm(
        name="vm-1",
        destination=contract.IscsiDestination(
            portal=portal, target_name=TARGET, lun=0, initiator_name="iqn.2026-01.org.hakaru:vm-1"
        ),
        region=contract.Region(offset_bytes=0, length_bytes=16 * MIB),
        pattern=contract.Pattern(sizes=[contract.SizeWeight(bytes=4096)], read_percent=70, random_percent=100),
        load=contract.ClosedLoad(queue_depth=4),
        seed=1,
    )
    return contract.InitiatorConfig(vms=[vm], warmup_s=0.5, measure_s=1.0, sample_interval_ms=200)


def test_load_in_a_guest_runs_against_an_array_on_this_machine(guest: Guest, run: Run) -> None:
    async def work() -> None:
        async with await EngineHost.open(guest) as host, await EngineProcess.spawn("storage", ARRAY) as storage:
            port = str((await storage.ready()).found["portals"][0]).rpartition(":")[2]
            async with await host.spawn("vm-1", load(f"{HOST_ADDRESS}:{port}")) as engine:
                assert (await engine.ready()).found["sessions"] == 1
                start_ns = clock.gang_start_ns(2_000_000_000)
                await asyncio.gather(storage.start(start_ns), engine.start(start_ns))
                events = [event async for event in engine.events()]
                phases = {event.phase: event.at_ns for event in events if isinstance(event, contract.Phase)}
                bound = host.clock.start.bound_ns
                assert start_ns - bound <= phases["warmup"] < phases["measure"] <= clock.now_ns() + bound
                result = await engine.result()
                assert {histogram.name for histogram in result.histograms} == {"read_latency_ns", "write_latency_ns"}
                samples = [event for event in events if isinstance(event, contract.Sample)]
                assert samples[-1].counters["vms"]["reads"] > 0
                await storage.stop()
                assert not storage.complaints and not engine.complaints

    run(work())
