"""Thin LUs under a kernel's own file systems: space given back, a pool that is full, one that
grows.

Pages of 64 KiB, so that small files take and give back whole ones.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.guests.conftest import Run
from tests.guests.disk import CHECK, LONG_S, MAKE, disk_of
from tests.guests.machine import Guest, GuestCommandError
from tests.peers.array import MIB, array, lu

PAGE_BYTES = 64 << 10
NO_SPACE = "No space left on device"
FIO = (
    "fio --name=verified --filename=/mnt/file --size=16M --rw=randwrite --bsrange=4k-64k --ioengine=libaio --direct=1 "
    "--iodepth=16 --verify=crc32c --verify_fatal=1 --end_fsync=1 --output-format=terse"
)


def group(name: str, mib: int) -> dict[str, Any]:
    return {"name": name, "size_bytes": mib * MIB}


def thin(folder: Path, virtual_mib: int, pool_mib: int) -> dict[str, Any]:
    """An array's configuration: one thin LU on a pool of one group."""
    store = {"kind": "thin", "pool": "p", "volume": "v"}
    pool = {"name": "p", "directory": str(folder / "pool"), "page_bytes": PAGE_BYTES, "groups": [group("g0", pool_mib)]}
    return {"lus": [{**lu(0, virtual_mib * MIB), "store": store}], "pools": [pool], "sample_interval_ms": 60_000}


def pool_of(storage: SimpleNamespace) -> dict[str, Any]:
    """The pool's figures."""
    (pool,) = storage.engine.manage("status")["pools"]
    return pool


def used_mib(storage: SimpleNamespace) -> float:
    """What the pool's volumes take, MiB."""
    return float(pool_of(storage)["used_bytes"]) / MIB


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_fstrim_gives_back_the_pages_of_deleted_files(guest: Guest, run: Run, tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        with array(**thin(tmp_path, 512, 256)) as storage:
            assert used_mib(storage) == 0
            async with disk_of(guest, storage) as disk:
                await guest.run(MAKE[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"mount {disk} /mnt && {FIO}", timeout_s=LONG_S)
                await guest.run("sha256sum /mnt/file >/tmp/sum && umount /mnt", timeout_s=LONG_S)
                full = used_mib(storage)
                assert full >= 16
                # From the array, not from the guest's memory.
                await guest.run(f"mount {disk} /mnt && sha256sum -c /tmp/sum", timeout_s=LONG_S)
                trimmed = await guest.run("rm /mnt/file && sync && fstrim -v /mnt", timeout_s=LONG_S)
                # The file's pages but those at its ends, which hold something else as well.
                assert used_mib(storage) <= full - 15, trimmed
                await guest.run("umount /mnt")
                await guest.run(CHECK[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"blkdiscard {disk}")
                assert used_mib(storage) == 0

    run(work())


# Blocks that say which they are, so that nothing old, foreign or moved can pass for one: each is a
# line of 512 bytes.
BLOCKS = "seq -f %0511.0f {} {}"
BLOCK_BYTES, CHUNK_BYTES = 512, 256 << 10
WANTED_MIB = 96


def test_full_pool_is_enospc_and_growing_it_lets_the_guest_go_on(guest: Guest, run: Run, tmp_path: Path) -> None:
    async def work() -> None:
        wanted = BLOCKS.format(1, WANTED_MIB * MIB // BLOCK_BYTES)
        with array(**thin(tmp_path, 256, 64)) as storage:
            await guest.run("dmesg -c >/dev/null")
            async with disk_of(guest, storage) as disk:
                copy = f"dd of={disk} bs={CHUNK_BYTES} iflag=fullblock oflag=direct"
                with pytest.raises(GuestCommandError, match=NO_SPACE) as failure:
                    await guest.run(f"{wanted} | {copy}", timeout_s=LONG_S)
                (written,) = map(int, re.findall(r"^(\d+)\+\d+ records out", failure.value.output, re.MULTILINE))
                # Every page of the pool was taken before one was refused.
                assert pool_of(storage)["free_bytes"] < CHUNK_BYTES
                capacity = pool_of(storage)["capacity_bytes"]
                assert capacity - CHUNK_BYTES < written * CHUNK_BYTES <= capacity
                said = await guest.run("dmesg")
                assert "reached a thin provisioning soft threshold" in said
                await read_back(guest, disk, written * CHUNK_BYTES)
                storage.engine.manage("grow", pool="p", group=group("g1", 64))
                rest = f"{wanted} | {copy} seek={written} skip={written}"
                await guest.run(rest, timeout_s=LONG_S)
                await read_back(guest, disk, WANTED_MIB * MIB)
                assert used_mib(storage) == WANTED_MIB

    run(work())


async def read_back(guest: Guest, disk: str, length_bytes: int) -> None:
    """What was acknowledged is there, past the guest's page cache."""
    read = f"dd if={disk} bs={CHUNK_BYTES} count={length_bytes // CHUNK_BYTES} iflag=direct 2>/dev/null"
    wanted = BLOCKS.format(1, length_bytes // BLOCK_BYTES)
    found = await guest.run(f"{read} | sha256sum; {wanted} | sha256sum", timeout_s=LONG_S)
    assert len(set(found.split("\n")[:2])) == 1, found


# One file after another, each on stable storage before its checksum is noted; ends with the first
# that fails.
FILL = """
cd /mnt
for i in $(seq {first} {last}); do
    seq -f %0511.0f ${{i}}00001 ${{i}}08192 >/tmp/content
    dd if=/tmp/content of=file-$i bs=64k oflag=direct conv=fsync || {{ rm -f file-$i; exit 1; }}
    sha256sum file-$i >>/tmp/sums
done 2>&1
"""


# Metadata that ext4 wrote back while there was no space are in its journal alone; it says so, stops
# at unmounting, and wants its journal replayed (status 1: done). XFS tries again until there is
# space.
REPAIR = {"ext4": "e2fsck -f -y {} || [ $? -eq 1 ]", "xfs": "true"}


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_file_system_on_a_full_pool_loses_nothing_acknowledged(
    guest: Guest, run: Run, tmp_path: Path, kind: str
) -> None:
    async def work() -> None:
        with array(**thin(tmp_path, 512, 128)) as storage:
            async with disk_of(guest, storage) as disk:
                await guest.run(f"rm -f /tmp/sums; {MAKE[kind].format(disk)} && mount {disk} /mnt", timeout_s=LONG_S)
                with pytest.raises(GuestCommandError, match=NO_SPACE):
                    await guest.run(FILL.format(first=1, last=32), timeout_s=LONG_S)
                await guest.run("echo 3 >/proc/sys/vm/drop_caches; cd /mnt; sha256sum -c /tmp/sums", timeout_s=LONG_S)
                storage.engine.manage("grow", pool="p", group=group("g1", 64))
                await guest.run(FILL.format(first=33, last=40), timeout_s=LONG_S)
                await guest.run(f"umount /mnt; {REPAIR[kind].format(disk)}", timeout_s=LONG_S)
                await guest.run(CHECK[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"mount {disk} /mnt; cd /mnt; sha256sum -c /tmp/sums", timeout_s=LONG_S)
                assert int(await guest.run("wc -l </tmp/sums")) >= 4 + 8

    run(work())
