"""The backup engine and a tape library over loopback: cartridges, order of jobs, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError, UsageError

KIB, MIB = 1024, 1024**2
NAME = "iqn.2013-01.example.hakaru:"
IMAGE = 4 * MIB


class Bench:
    """A source with an image for each job, a library without times, and backups to it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.portals: dict[str, str] = {}

    async def serve(self, name: str, **config: Any) -> None:
        model = contract.NoModel(kind="none")
        array = contract.ArrayConfig(target_name=NAME + name, portals=["127.0.0.1:0"], model=model, **config)
        engine = await self._stack.enter_async_context(await EngineProcess.spawn(name, array))
        self.portals[name] = (await engine.ready()).found["portals"][0]

    async def build(self, *, drives: int = 1, capacity: int = 16 * MIB, write_protected: bool = False) -> None:
        lu = contract.LuConfig(lun=0, size_bytes=3 * IMAGE, store=contract.MemoryStore(fill_seed=7))
        await self.serve("primary", lus=[lu])
        library = contract.TapeLibraryConfig(
            lun=0,
            drives=[contract.TapeDriveConfig(lun=1 + i, generation="lto5") for i in range(drives)],
            slots=3,
            cartridges=[
                contract.CartridgeConfig(barcode=f"HAK00{slot}L5", slot=slot, write_protected=write_protected)
                for slot in (1, 2, 3)
            ],
            capacity_bytes=capacity,
            early_warning_bytes=MIB,
        )
        await self.serve("library", lus=[], tape_library=library)

    def lu(self, name: str, lun: int) -> contract.Lu:
        initiator = NAME + "kvm-1"
        return contract.Lu(portal=self.portals[name], target_name=NAME + name, lun=lun, initiator_name=initiator)

    def job(self, number: int, *, drive: int = 0, **tape: Any) -> contract.BackupJob:
        destination = {"changer_lun": 0, "drive": drive, "cartridge": f"HAK00{number}L5", **tape}
        return contract.BackupJob(
            name=f"vm-{number}",
            source=self.lu("primary", 0),
            source_offset_bytes=(number - 1) * IMAGE,
            destination=self.lu("library", 1 + drive),
            length_bytes=IMAGE,
            block_bytes=64 * KIB,
            verify=True,
            tape=contract.TapeDestination(**destination),
        )

    async def backup(self, *jobs: contract.BackupJob) -> EngineProcess:
        config = contract.BackupConfig(jobs=list(jobs), time_limit_s=0.0, sample_interval_ms=100)
        return await self._stack.enter_async_context(await EngineProcess.spawn("kvm-1", config))


def with_bench(work: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            await asyncio.wait_for(work(Bench(stack)), 120)

    asyncio.run(run())


async def result_of(engine: EngineProcess) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Run a backup. Return its values and its last counters."""
    await engine.ready()
    await engine.start(clock.now_ns())
    samples = [event async for event in engine.events() if isinstance(event, contract.Sample)]
    return (await engine.result()).values, samples[-1].counters


@pytest.mark.parametrize("drives", [1, 2])
def test_jobs_take_turns_at_a_drive_and_each_copy_reads_back(drives: int) -> None:
    async def work(bench: Bench) -> None:
        await bench.build(drives=drives)
        jobs = [bench.job(n, drive=(n - 1) % drives, filemark_every_bytes=MIB) for n in (1, 2, 3)]
        values, counters = await result_of(await bench.backup(*jobs))
        assert values["jobs_done"] == 3
        assert values["bytes"] == values["verified_bytes"] == 3 * IMAGE
        assert values["mismatches"] == 0
        # The last filemark of each copy is at its end.
        assert counters["backups"]["filemarks"] == counters["backups"]["synchronisations"] == 3 * 4
        # The time of a job that waits for the drive includes that of the one before it.
        assert values["seconds/vm-3"] > values["seconds/vm-1"]
        assert values["last_done_s"] == max(values[f"seconds/vm-{n}"] for n in (1, 2, 3))

    with_bench(work)


def test_copies_follow_each_other_on_one_cartridge() -> None:
    async def work(bench: Bench) -> None:
        await bench.build()
        tape = {"cartridge": "HAK001L5", "append": True, "fixed_block_bytes": 16 * KIB}
        values, _ = await result_of(await bench.backup(*(bench.job(n, **tape) for n in (1, 2, 3))))
        assert (values["verified_bytes"], values["mismatches"]) == (3 * IMAGE, 0)
        # A later backup writes behind them, and they stay; from the beginning, it would erase them.
        values, _ = await result_of(await bench.backup(bench.job(2, **tape)))
        assert (values["verified_bytes"], values["mismatches"]) == (IMAGE, 0)

    with_bench(work)


def test_a_cartridge_is_in_one_drive_only() -> None:
    async def work(bench: Bench) -> None:
        await bench.build(drives=2)
        tape = {"cartridge": "HAK001L5", "append": True}
        message = "HAK001L5 is in drive 0 for vm-1, so it cannot be in drive 1 for vm-2"
        with pytest.raises(UsageError, match=message) as refused:
            await result_of(await bench.backup(bench.job(1, **tape), bench.job(2, drive=1, **tape)))
        assert "own cartridges" in (refused.value.hint or "")

    with_bench(work)


@pytest.mark.parametrize(
    ("library", "tape", "error", "message"),
    [
        ({"write_protected": True}, {}, UsageError, "cartridge HAK001L5 is write-protected"),
        ({}, {"cartridge": "HAK009L5"}, UsageError, "the library has no cartridge HAK009L5"),
        ({}, {"drive": 1}, UsageError, "LUN 2 is not a tape drive"),
        ({"capacity": 2 * MIB}, {}, LostError, "cartridge HAK001L5 is full at byte"),
    ],
)
def test_what_the_library_lacks_is_named(
    library: dict[str, Any], tape: dict[str, Any], error: type[HakaruError], message: str
) -> None:
    async def work(bench: Bench) -> None:
        await bench.build(**library)
        with pytest.raises(error, match=message) as refused:
            await result_of(await bench.backup(bench.job(1, **tape)))
        assert refused.value.hint

    with_bench(work)
