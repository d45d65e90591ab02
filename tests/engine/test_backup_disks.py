"""The backup engine on disks of this machine, as if its kernel were the initiator. Files stand for
the disks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import EnvironmentError_, UsageError

from tests.engine.test_backup import IMAGE, KIB, MIB, NAME, events_of, image_of, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose file system has direct I/O."""
    try:
        os.close(os.open(tmp_path / "probe", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"{tmp_path} has no direct I/O: {error}")
    return tmp_path


def lu(name: str) -> contract.Lu:
    """An LU that the engine has no session with."""
    return contract.Lu(portal="127.0.0.1:1", target_name=NAME + name, lun=0, initiator_name=NAME + "kvm-1")


def config(folder: Path, *, time_limit_s: float = 0.0, **job: Any) -> contract.BackupConfig:
    whole = {
        "name": "vm-1",
        "source": lu("primary"),
        "destination": lu("vtl"),
        "length_bytes": IMAGE,
        "block_bytes": 64 * KIB,
        "disks": contract.Disks(source=str(folder / "primary"), destination=str(folder / "vtl")),
        **job,
    }
    return contract.BackupConfig(
        jobs=[contract.BackupJob.model_validate(whole)], time_limit_s=time_limit_s, sample_interval_ms=100
    )


@pytest.mark.parametrize("streams", [1, 5])
def test_copy_between_disks_equals_the_image(folder: Path, streams: int) -> None:
    image = image_of(folder / "primary", 10 * MIB)
    before = image_of(folder / "vtl", 12 * MIB)
    places = {"source_offset_bytes": MIB, "destination_offset_bytes": 2 * MIB}

    async def work() -> None:
        async with await EngineProcess.spawn("kvm-1", config(folder, streams=streams, verify=True, **places)) as engine:
            found = (await engine.ready()).found
            assert (found["sessions"], found["source"]["lu"]) == (0, None)
            assert found["io_backend"] in ("io_uring", "threads")
            events = await events_of(engine)
            values = (await engine.result()).values
        phases = [event.phase for event in events if isinstance(event, contract.Phase)]
        assert phases == ["measure", "drain", "verify"]
        assert values["bytes"] == values["verified_bytes"] == IMAGE
        assert (values["jobs_done"], values["mismatches"]) == (1, 0)
        last = [event for event in events if isinstance(event, contract.Sample)][-1].counters
        counted = last["backup/vm-1"]
        assert counted["read_bytes"] == counted["written_bytes"] == IMAGE
        assert counted["read_latency_ns_sum"] > 0 and counted["write_latency_ns_sum"] > 0
        assert (counted["errors"], counted["in_flight_now"], counted["done_now"]) == (0, 0, 1)
        assert not [entity for entity in last if entity.startswith("tcp/")]

    run(work())
    copy = (folder / "vtl").read_bytes()
    assert copy[2 * MIB : 2 * MIB + IMAGE] == image[MIB : MIB + IMAGE]
    assert copy[: 2 * MIB] == before[: 2 * MIB] and copy[2 * MIB + IMAGE :] == before[2 * MIB + IMAGE :]


def test_time_limit_ends_a_copy_after_writing_what_was_read(folder: Path) -> None:
    image = image_of(folder / "primary", IMAGE)
    (folder / "vtl").write_bytes(bytes(IMAGE))

    async def work() -> None:
        limited = config(folder, time_limit_s=0.5, rate_limit_bytes_per_s=MIB)
        async with await EngineProcess.spawn("kvm-1", limited) as engine:
            await events_of(engine)
            values = (await engine.result()).values
        written = int(values["bytes/vm-1"])
        # A busy machine may notice the end late, and the first blocks may be read at once.
        assert 0 < written <= MIB * (values["seconds/vm-1"] + 1)
        assert (values["jobs_done"], values["seconds/vm-1"] >= 0.5) == (0, True)
        copy = (folder / "vtl").read_bytes()
        assert copy[:written] == image[:written] and not any(copy[written:])

    run(work())


@pytest.mark.parametrize("missing", ["primary", "vtl"])
def test_missing_disk_is_named_and_not_created(folder: Path, missing: str) -> None:
    for name in {"primary", "vtl"} - {missing}:
        image_of(folder / name, IMAGE)

    async def work() -> None:
        async with await EngineProcess.spawn("kvm-1", config(folder)) as engine:
            with pytest.raises(EnvironmentError_) as refused:
                await engine.ready()
            assert f"cannot open {folder / missing} for vm-1: No such file" in str(refused.value)
            assert refused.value.hint

    run(work())
    assert not (folder / missing).exists()


def test_disk_that_is_too_small_is_refused_before_anything_is_copied(folder: Path) -> None:
    image_of(folder / "primary", IMAGE)
    before = image_of(folder / "vtl", 4 * MIB)

    async def work() -> None:
        async with await EngineProcess.spawn("kvm-1", config(folder)) as engine:
            with pytest.raises(UsageError, match=rf"vm-1: the copy ends at byte {IMAGE}, .* only {4 * MIB} bytes"):
                await engine.ready()

    run(work())
    assert (folder / "vtl").read_bytes() == before
