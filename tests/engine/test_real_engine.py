"""The real engine through its driver: an array, a load against it, counters, and the effect of a
kill.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable

import pytest
from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import EnvironmentError_, LostError, UsageError

TARGET = "iqn.2011-10.example.hakaru:array"
MIB = 1024**2
BUSY = contract.ClosedLoad(queue_depth=4)


def array(portal: str = "127.0.0.1:0", *, spin_us: int = 0) -> contract.ArrayConfig:
    return contract.ArrayConfig(
        target_name=TARGET,
        portals=[portal],
        lus=[contract.LuConfig(lun=0, size_bytes=64 * MIB, store=contract.MemoryStore())],
        model=contract.NoModel(kind="none"),
        spin_us=spin_us,
        sample_interval_ms=100,
    )


def load(portal: str, *, measure_s: float, load_model: contract.Load = BUSY) -> contract.InitiatorConfig:
    vms = [
        contract.Vm(
            name=f"vm-{number}",
            destination=contract.IscsiDestination(
                portal=portal, target_name=TARGET, lun=0, initiator_name=f"iqn.2011-10.example.hakaru:vm-{number}"
            ),
            region=contract.Region(offset_bytes=number * 16 * MIB, length_bytes=16 * MIB),
            pattern=contract.Pattern(sizes=[contract.SizeWeight(bytes=4096)], read_percent=70, random_percent=100),
            load=load_model,
            seed=number,
        )
        for number in range(2)
    ]
    return contract.InitiatorConfig(vms=vms, warmup_s=0.1, measure_s=measure_s, sample_interval_ms=100)


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work, 60)

    asyncio.run(bounded())


def test_engine_without_links_refuses_to_take_one_down() -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("storage", array()) as engine:
            await engine.ready()
            with pytest.raises(UsageError, match="does not accept `set_link` orders now"):
                await engine.set_link("uplink", up=False)

    run(work())


def test_engine_without_counters_on_demand_refuses_to_count() -> None:
    async def work() -> None:
        async with await EngineProcess.spawn("storage", array()) as engine:
            await engine.ready()
            with pytest.raises(UsageError, match="does not accept `count` orders now"):
                await engine.count()

    run(work())


async def portal_of(engine: EngineProcess) -> str:
    return str((await engine.ready()).found["portals"][0])


def test_load_runs_against_the_array_and_both_count_the_same() -> None:
    async def work() -> None:
        async with (
            await EngineProcess.spawn("storage", array()) as storage,
            await EngineProcess.spawn("host-1", load(await portal_of(storage), measure_s=0)) as host,
        ):
            assert (await host.ready()).found["sessions"] == 2
            start_ns = await gang_start([storage, host])
            samples, phases, stop = [], {}, None
            async for event in host.events():
                if isinstance(event, contract.Phase):
                    phases[event.phase] = event.at_ns
                elif isinstance(event, contract.Sample):
                    samples.append(event)
                    if stop is None and len(samples) >= 4 and event.counters["vms"]["reads"] > 100:
                        stop = asyncio.create_task(host.stop())
            assert phases["warmup"] >= start_ns
            assert phases["measure"] >= start_ns + 100_000_000
            reads = [sample.counters["vms"]["reads"] for sample in samples]
            assert reads == sorted(reads)
            assert reads[-1] > 100
            assert clock.now_ns() > samples[-1].at_ns > start_ns
            result = await host.result()
            assert {histogram.name for histogram in result.histograms} == {"read_latency_ns", "write_latency_ns"}
            assert result.values
            stopped = await storage.stop()
            assert stopped.at_ns > start_ns
            assert not storage.complaints

    run(work())


@pytest.mark.alone
def test_phases_begin_at_their_instants() -> None:
    async def work() -> None:
        async with (
            await EngineProcess.spawn("storage", array()) as storage,
            await EngineProcess.spawn("host-1", load(await portal_of(storage), measure_s=0.1)) as host,
        ):
            await host.ready()
            start_ns = await gang_start([storage, host])
            events = [event async for event in host.events()]
            phases = {event.phase: event.at_ns for event in events if isinstance(event, contract.Phase)}
            for phase, after_ns in (("warmup", 0), ("measure", 100_000_000), ("drain", 200_000_000)):
                assert phases[phase] - start_ns == pytest.approx(after_ns, abs=50_000_000), phase

    run(work())


# Alone, because an array that rarely gets a processor works off requests instead of polling.
@pytest.mark.alone
@pytest.mark.parametrize("spin_us", [0, 1000])
def test_spinning_array_reports_its_busy_polling_time(spin_us: int) -> None:
    """Two VMs with a thousand requests per second each: an array that spins for a millisecond never
    sleeps, and has little to do.
    """
    rare = contract.OpenLoad(rate_per_s=1000, arrivals="uniform", in_flight_max=64)

    async def work() -> None:
        async with (
            await EngineProcess.spawn("storage", array(spin_us=spin_us)) as storage,
            await EngineProcess.spawn("host-1", load(await portal_of(storage), measure_s=0.5, load_model=rare)) as host,
        ):
            await host.ready()
            await gang_start([storage, host])
            await host.result()
            await storage.stop()
            samples = [event async for event in storage.events() if isinstance(event, contract.Sample)]
            used = {name: samples[-1].counters["process"][name] for name in ("cpu_user_ns", "cpu_system_ns")}
            busy_poll = samples[-1].counters["process"]["busy_poll_ns"]
            if spin_us:
                # Busy polling is elapsed time, which exceeds processor time if others use the
                # processor.
                assert 0.5 * sum(used.values()) < busy_poll < samples[-1].at_ns - samples[0].at_ns
            else:
                assert busy_poll == 0

    run(work())


def test_killed_engine_is_lost_and_the_other_engine_reports_it() -> None:
    async def work() -> None:
        async with (
            await EngineProcess.spawn("storage", array()) as storage,
            await EngineProcess.spawn("host-1", load(await portal_of(storage), measure_s=30)) as host,
        ):
            await host.ready()
            await gang_start([storage, host])
            async for event in host.events():
                if isinstance(event, contract.Sample):
                    break
            os.kill(storage.pid, signal.SIGKILL)
            with pytest.raises(LostError, match=r"array on storage was lost: ended by SIGKILL"):
                await storage.result()
            with pytest.raises(LostError, match=r"initiator on host-1"):
                await host.result(timeout_s=45)

    run(work())


def test_target_that_closes_amid_its_response_is_lost_at_once() -> None:
    """The end of the stream arrives together with the bytes before it, so no later event would
    report it.
    """

    async def work() -> None:
        pid: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def answer_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(48)
            os.kill(await pid, signal.SIGSTOP)
            writer.write(b"\x23\x87" + bytes(20))  # part of a Login Response
            writer.close()
            await writer.wait_closed()
            os.kill(await pid, signal.SIGCONT)

        async with await asyncio.start_server(answer_half, "127.0.0.1", 0) as server:
            portal = "{}:{}".format(*server.sockets[0].getsockname())
            async with await EngineProcess.spawn("host-1", load(portal, measure_s=1)) as host:
                pid.set_result(host.pid)
                with pytest.raises(LostError, match=r"closed by the target"):
                    await host.ready(timeout_s=20)

    run(work())


def test_stop_ends_the_drain_while_the_target_is_silent() -> None:
    async def work() -> None:
        async with (
            await EngineProcess.spawn("storage", array()) as storage,
            await EngineProcess.spawn("host-1", load(await portal_of(storage), measure_s=1)) as host,
        ):
            await host.ready()
            await gang_start([storage, host])
            try:
                async for event in host.events():
                    if isinstance(event, contract.Phase) and event.phase == "measure":
                        os.kill(storage.pid, signal.SIGSTOP)
                    if isinstance(event, contract.Phase) and event.phase == "drain":
                        break
                # Commands time out after 30 s, logouts after 3 s.
                # A request in flight is given up after 30 s.
                assert (await host.stop(timeout_s=20)).values
            finally:
                os.kill(storage.pid, signal.SIGCONT)

    run(work())


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (array("nonsense"), UsageError),
        (array("192.0.2.1:3260"), UsageError),
        (array("192.0.2.1:3260").model_copy(update={"isolated_network": True}), EnvironmentError_),
        (load("127.0.0.1:1", measure_s=1), LostError),
    ],
    ids=["no address", "address that others reach", "address of another machine", "portal that refuses"],
)
def test_refusal_of_the_engine_arrives_with_a_hint(config: contract.EngineConfig, error: type[Exception]) -> None:
    async def work() -> None:
        with pytest.raises(error) as refused:
            async with await EngineProcess.spawn("here", config) as engine:
                await engine.ready()
        assert str(refused.value).startswith(f"{config.engine} on here: ")
        assert getattr(refused.value, "hint", "")

    run(work())


def test_watch_counts_until_it_is_stopped() -> None:
    async def work() -> None:
        config = contract.WatchConfig(sample_interval_ms=100, machine=True)
        async with await EngineProcess.spawn("here", config) as engine:
            await engine.ready()
            start_ns = clock.now_ns()
            await engine.start(start_ns)
            samples = []
            async for event in engine.events():
                if isinstance(event, contract.Sample):
                    samples.append(event)
                if len(samples) == 3:
                    break
            # A sample may be late, which makes the time until the next one shorter.
            assert all(sample.at_ns >= start_ns + n * 100_000_000 for n, sample in enumerate(samples))
            assert {"machine", "cpu/0", "nic/lo"} <= set(samples[-1].counters)
            await engine.stop()

    run(work())
