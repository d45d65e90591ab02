"""The backup engine over loopback: copied data, counters, refusals and losses."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError, UsageError, VerificationError

KIB, MIB = 1024, 1024**2
NAME = "iqn.2013-01.example.hakaru:"
IMAGE = 8 * MIB + 12 * KIB

MEMORY = contract.MemoryStore(fill_seed=7)


def lu(size: int, store: contract.Store = MEMORY, **settings: Any) -> contract.LuConfig:
    return contract.LuConfig(lun=0, size_bytes=size, store=store, **settings)


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work, 240)

    asyncio.run(bounded())


class Bench:
    """Two arrays, and backups between them. Everything ends with the stack."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.source: EngineProcess
        self.destination: EngineProcess

    async def serve(self, name: str, unit: contract.LuConfig, **settings: Any) -> EngineProcess:
        config = contract.ArrayConfig(
            target_name=NAME + name,
            portals=["127.0.0.1:0"],
            lus=[unit],
            model=contract.NoModel(kind="none"),
            **settings,
        )
        engine = await self._stack.enter_async_context(await EngineProcess.spawn(name, config))
        await engine.ready()
        return engine

    async def build(self, source: contract.LuConfig, destination: contract.LuConfig, **settings: Any) -> None:
        self.source = await self.serve("primary", source)
        self.destination = await self.serve("vtl", destination, **settings)

    async def lu_of(self, engine: EngineProcess) -> contract.Lu:
        portal = (await engine.ready()).found["portals"][0]
        return contract.Lu(portal=portal, target_name=NAME + engine.node, lun=0, initiator_name=NAME + "kvm-1")

    async def backup(self, *, time_limit_s: float = 0.0, **job: Any) -> EngineProcess:
        whole = {
            "name": "vm-1",
            "source": await self.lu_of(self.source),
            "destination": await self.lu_of(self.destination),
            "length_bytes": IMAGE,
            "block_bytes": 64 * KIB,
            **job,
        }
        config = contract.BackupConfig(
            jobs=[contract.BackupJob(**whole)], time_limit_s=time_limit_s, sample_interval_ms=100
        )
        return await self._stack.enter_async_context(await EngineProcess.spawn("kvm-1", config))


def with_bench(work: Callable[[Bench], Awaitable[None]]) -> None:
    async def run_with_bench() -> None:
        async with AsyncExitStack() as stack:
            await work(Bench(stack))

    run(run_with_bench())


async def events_of(engine: EngineProcess) -> list[contract.Sample | contract.Phase]:
    await engine.ready()
    await engine.start(clock.now_ns())
    return [event async for event in engine.events()]


async def started(engine: EngineProcess, written: int) -> None:
    """Start the copy and wait until at least `written` bytes of it are written."""
    await engine.ready()
    await engine.start(clock.now_ns())
    async for event in engine.events():
        if isinstance(event, contract.Sample) and event.counters["backups"]["written_bytes"] >= written:
            return


def image_of(path: Path, length: int) -> bytes:
    """Write a file of random bytes as the content of an LU; return the bytes."""
    image = os.urandom(length)
    path.write_bytes(image)
    return image


@pytest.mark.parametrize("streams", [1, 2, 5])
def test_copy_equals_the_image_and_nothing_else_is_changed(tmp_path: Path, streams: int) -> None:
    image = image_of(tmp_path / "primary", 10 * MIB)
    before = image_of(tmp_path / "vtl", 12 * MIB)

    async def work(bench: Bench) -> None:
        await bench.build(
            lu(10 * MIB, contract.FileStore(path=str(tmp_path / "primary"))),
            lu(12 * MIB, contract.FileStore(path=str(tmp_path / "vtl")), block_bytes=4096),
        )
        engine = await bench.backup(
            source_offset_bytes=MIB, destination_offset_bytes=2 * MIB, streams=streams, verify=True
        )
        ready = (await engine.ready()).found
        assert ready["sessions"] == 2 * streams
        assert sum(part["length_bytes"] for part in ready["parts"]["vm-1"]) == IMAGE
        events = await events_of(engine)
        phases = [event.phase for event in events if isinstance(event, contract.Phase)]
        assert phases == ["measure", "drain", "verify"]
        values = (await engine.result()).values
        assert values["jobs_done"] == 1
        assert values["bytes"] == values["bytes/vm-1"] == values["verified_bytes"] == IMAGE
        assert values["mismatches"] == 0
        assert 0 < values["first_done_s"] == values["last_done_s"] == values["seconds/vm-1"]
        last = [event for event in events if isinstance(event, contract.Sample)][-1].counters
        counted = last["backup/vm-1"]
        assert counted["read_bytes"] == counted["written_bytes"] == IMAGE
        assert counted["reads"] == counted["writes"] >= -(-IMAGE // (64 * KIB))
        assert (counted["errors"], counted["in_flight_now"], counted["done_now"]) == (0, 0, 1)
        assert last["backups"] == counted
        assert last["tcp/vm-1/destination"]["sent_bytes"] >= IMAGE
        assert last["tcp/vm-1/destination"]["acked_bytes"] >= IMAGE
        assert 0 < last["tcp/vm-1/source"]["sent_bytes"] < IMAGE
        await bench.destination.stop()

    with_bench(work)
    copy = (tmp_path / "vtl").read_bytes()
    assert copy[2 * MIB : 2 * MIB + IMAGE] == image[MIB : MIB + IMAGE]
    assert copy[: 2 * MIB] == before[: 2 * MIB]
    assert copy[2 * MIB + IMAGE :] == before[2 * MIB + IMAGE :]


def test_four_jobs_have_separate_results(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.build(lu(16 * MIB), lu(16 * MIB, contract.MemoryStore()))
        source, destination = await bench.lu_of(bench.source), await bench.lu_of(bench.destination)
        jobs = [
            contract.BackupJob(
                name=f"vm-{n}",
                source=source,
                source_offset_bytes=n * 4 * MIB,
                destination=destination,
                destination_offset_bytes=n * 4 * MIB,
                length_bytes=(n + 1) * MIB,
                verify=n == 3,
            )
            for n in range(4)
        ]
        config = contract.BackupConfig(jobs=jobs, time_limit_s=60.0, sample_interval_ms=100)
        async with await EngineProcess.spawn("kvm-1", config) as engine:
            await events_of(engine)
            values = (await engine.result()).values
        assert values["jobs_done"] == 4
        assert [values[f"bytes/vm-{n}"] for n in range(4)] == [(n + 1) * MIB for n in range(4)]
        assert values["bytes"] == 10 * MIB
        seconds = [values[f"seconds/vm-{n}"] for n in range(4)]
        assert (values["first_done_s"], values["last_done_s"]) == (min(seconds), max(seconds))
        assert values["verified_bytes"] == 4 * MIB

    with_bench(work)


@pytest.mark.parametrize(("percent", "share"), [(0, 1.0), (50, 0.5), (100, 8 / 512)])
def test_compressed_copy_can_be_read_by_any_zstd_decoder(tmp_path: Path, percent: int, share: float) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    places: list[dict[str, int]] = []

    async def work(bench: Bench) -> None:
        full = lu(IMAGE, contract.MemoryStore(fill_seed=1, fill_compressible_percent=percent))
        await bench.build(full, lu(16 * MIB, contract.FileStore(path=str(packed))))
        engine = await bench.backup(streams=3, compression=contract.Zstd(level=1), verify=True)
        places.extend((await engine.ready()).found["parts"]["vm-1"])
        await events_of(engine)
        values = (await engine.result()).values
        assert values["bytes"] == values["verified_bytes"] == IMAGE
        assert values["mismatches"] == 0
        assert share * 0.98 <= values["written_bytes/vm-1"] / IMAGE <= share * 1.02 + 0.01
        bench.destination = await bench.serve("vtl-2", lu(IMAGE, contract.FileStore(path=str(plain))))
        await events_of(await bench.backup())

    with_bench(work)
    copy, image = packed.read_bytes(), plain.read_bytes()
    for place in places:
        part = copy[place["destination_offset_bytes"] :]
        with pyarrow.CompressedInputStream(io.BytesIO(part), "zstd") as stream:
            begin = place["source_offset_bytes"]
            assert stream.read(place["length_bytes"]) == image[begin : begin + place["length_bytes"]]


def test_time_limit_ends_a_copy_after_writing_what_was_read(tmp_path: Path) -> None:
    image = image_of(tmp_path / "primary", IMAGE)

    async def work(bench: Bench) -> None:
        await bench.build(
            lu(IMAGE, contract.FileStore(path=str(tmp_path / "primary"))),
            lu(IMAGE, contract.FileStore(path=str(tmp_path / "vtl"))),
        )
        engine = await bench.backup(time_limit_s=0.5, rate_limit_bytes_per_s=MIB, verify=True)
        await events_of(engine)
        values = (await engine.result()).values
        assert values["jobs_done"] == 0
        assert "first_done_s" not in values
        assert "last_done_s" not in values
        assert values["seconds/vm-1"] >= 0.5
        written = int(values["bytes/vm-1"])
        # A busy machine may notice the end late, and the first blocks may be sent at once.
        assert 0 < written <= MIB * (values["seconds/vm-1"] + 1)
        assert values["verified_bytes"] == written
        copy = (tmp_path / "vtl").read_bytes()
        assert copy[:written] == image[:written]
        assert not any(copy[written:])

    with_bench(work)


def test_result_of_a_stopped_copy_matches_the_written_data(tmp_path: Path) -> None:
    image = image_of(tmp_path / "primary", IMAGE)

    async def work(bench: Bench) -> None:
        await bench.build(
            lu(IMAGE, contract.FileStore(path=str(tmp_path / "primary"))),
            lu(IMAGE, contract.FileStore(path=str(tmp_path / "vtl"))),
        )
        engine = await bench.backup(rate_limit_bytes_per_s=MIB, verify=True, depth=4)
        await started(engine, 64 * KIB)
        values = (await engine.stop()).values
        written = int(values["bytes/vm-1"])
        assert 0 < written < IMAGE
        assert values["jobs_done"] == 0
        assert values["verified_bytes"] == 0
        assert (tmp_path / "vtl").read_bytes()[:written] == image[:written]

    with_bench(work)


def test_verification_detects_a_copy_changed_by_others(tmp_path: Path) -> None:
    async def work(bench: Bench) -> None:
        await bench.build(lu(IMAGE), lu(IMAGE, contract.FileStore(path=str(tmp_path / "vtl"))))
        # Several seconds before the verification.
        engine = await bench.backup(rate_limit_bytes_per_s=2 * MIB, verify=True)
        await started(engine, 192 * KIB)
        with (tmp_path / "vtl").open("r+b") as file:
            file.seek(64 * KIB + 1000)
            file.write(b"changed")
        with pytest.raises(VerificationError, match=r"vm-1 .* differs .* in 1 blocks, the first at byte 65536 "):
            await engine.result()

    with_bench(work)


@pytest.mark.parametrize(
    ("source", "destination", "job", "expected"),
    [
        (lu(4 * MIB), lu(16 * MIB), {}, [str(IMAGE), str(4 * MIB), "LUN 0 of " + NAME + "primary"]),
        (lu(16 * MIB), lu(4 * MIB), {}, [str(IMAGE), str(4 * MIB), "LUN 0 of " + NAME + "vtl"]),
        (lu(16 * MIB), lu(IMAGE), {"compression": contract.Zstd()}, ["packed", str(IMAGE)]),
        (lu(16 * MIB, block_bytes=4096), lu(16 * MIB), {"block_bytes": 4608}, ["4608", "4096"]),
        (lu(16 * MIB), lu(16 * MIB, read_only=True), {}, ["write-protected", NAME + "vtl"]),
        (lu(16 * MIB), lu(16 * MIB), {"streams": 64, "length_bytes": MIB}, ["64 streams for 16 blocks"]),
        (lu(16 * MIB), lu(16 * MIB), {"depth": 0}, ["depth"]),
    ],
    ids=["source too small", "destination too small", "no room to pack", "odd block", "read-only", "streams", "depth"],
)
def test_impossible_job_is_refused_before_anything_is_copied(
    source: contract.LuConfig, destination: contract.LuConfig, job: dict[str, Any], expected: list[str]
) -> None:
    async def work(bench: Bench) -> None:
        await bench.build(source, destination)
        engine = await bench.backup(**job)
        with pytest.raises(UsageError) as refused:
            await engine.ready()
        assert refused.value.hint
        for words in ["jobs[0]" if "depth" in job else "vm-1", *expected]:
            assert words in str(refused.value)

    with_bench(work)


def test_full_destination_ends_the_job_and_keeps_the_acknowledged_data(tmp_path: Path) -> None:
    pool = contract.PoolConfig(
        name="vtl",
        directory=str(tmp_path / "pool"),
        page_bytes=64 * KIB,
        groups=[contract.GroupConfig(name="g", size_bytes=3 * MIB)],
    )
    thin = contract.ThinStore(pool="vtl", volume="copy")
    image = image_of(tmp_path / "primary", IMAGE)

    async def work(bench: Bench) -> None:
        source = lu(IMAGE, contract.FileStore(path=str(tmp_path / "primary")))
        await bench.build(source, lu(16 * MIB, thin), pools=[pool])
        # One block at a time, so that the acknowledged data are the beginning of the image.
        engine = await bench.backup(depth=1, verify=True)
        written = 0
        with pytest.raises(LostError, match=r"vm-1, destination .*: no space left at byte (\d+) of the copy") as full:
            await engine.ready()
            await engine.start(clock.now_ns())
            async for event in engine.events():
                if isinstance(event, contract.Sample):
                    written = int(event.counters["backup/vm-1"]["written_bytes"])
                    errors = event.counters["backup/vm-1"]["errors"]
        assert errors == 1
        assert 0 < written < 3 * MIB
        assert f"no space left at byte {written} " in str(full.value)
        assert f"{written} bytes of the copy had been written" in str(full.value)
        # Crash the array: the data that it acknowledged and flushed must survive.
        os.kill(bench.destination.pid, signal.SIGKILL)
        with pytest.raises(LostError):
            await bench.destination.result()
        bench.source = await bench.serve("vtl", lu(16 * MIB, thin), pools=[pool])
        bench.destination = await bench.serve("back", lu(written, contract.FileStore(path=str(tmp_path / "back"))))
        await events_of(await bench.backup(length_bytes=written))
        assert (tmp_path / "back").read_bytes() == image[:written]

    with_bench(work)


@pytest.mark.parametrize("side", ["source", "destination"])
def test_killed_array_ends_the_job_and_is_named(side: str) -> None:
    async def work(bench: Bench) -> None:
        await bench.build(lu(IMAGE), lu(IMAGE, contract.MemoryStore()))
        engine = await bench.backup(rate_limit_bytes_per_s=MIB, streams=2)
        await started(engine, 64 * KIB)
        os.kill(getattr(bench, side).pid, signal.SIGKILL)
        with pytest.raises(LostError, match=rf"vm-1, {side} \(LUN 0 of .*connection lost .*; \d+ bytes of the copy"):
            await engine.result()

    with_bench(work)


def test_unreachable_portal_and_missing_lun_are_reported() -> None:
    async def work(bench: Bench) -> None:
        await bench.build(lu(IMAGE), lu(IMAGE))
        unreachable = (await bench.lu_of(bench.source)).model_copy(update={"portal": "127.0.0.1:1"})
        wrong = (await bench.lu_of(bench.destination)).model_copy(update={"lun": 9})
        cases: list[tuple[dict[str, Any], type[HakaruError], str]] = [
            (
                {"source": unreachable},
                LostError,
                "vm-1, source (LUN 0 of iqn.2013-01.example.hakaru:primary at 127.0.0.1:1",
            ),
            ({"destination": wrong}, UsageError, "vm-1, destination (LUN 9"),
        ]
        for job, error, expected in cases:
            engine = await bench.backup(**job)
            with pytest.raises(error) as refused:
                await engine.ready()
            assert expected in str(refused.value)

    with_bench(work)


def test_chap_is_used_on_both_sides() -> None:
    async def work(bench: Bench) -> None:
        user = contract.ChapUser(name="backup", secret=contract.SecretText(text="twelve-or-more-bytes"))
        access = contract.AccessConfig(users=[user])
        bench.source = await bench.serve("primary", lu(MIB), access=access)
        bench.destination = await bench.serve("vtl", lu(MIB), access=access)
        job = (await bench.backup(length_bytes=MIB), await bench.lu_of(bench.source))
        with pytest.raises(LostError, match="login refused"):
            await job[0].ready()
        config = contract.BackupConfig(
            jobs=[
                contract.BackupJob(
                    name="vm-1", source=job[1], destination=await bench.lu_of(bench.destination), length_bytes=MIB
                )
            ],
            chap=contract.ChapConfig(user=user),
            login=contract.LoginKeys(data_digest=True, header_digest=True),
            time_limit_s=0.0,
        )
        async with await EngineProcess.spawn("kvm-1", config) as engine:
            await events_of(engine)
            assert (await engine.result()).values["jobs_done"] == 1

    with_bench(work)
