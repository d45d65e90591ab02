"""Thin LUs under a kernel's own file systems: unmapped space, a full pool, and growth.

The pages have 64 KiB, so that small files allocate and free entire pages.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hakaru.guest.machine import Guest, GuestCommandError

from tests.guests.conftest import Run
from tests.guests.disk import CHECK, LONG_S, MAKE, disk_of
from tests.long_form import long_case
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
    """Return an array's configuration with one thin LU on a pool of one group."""
    store = {"kind": "thin", "pool": "p", "volume": "v"}
    pool = {"name": "p", "directory": str(folder / "pool"), "page_bytes": PAGE_BYTES, "groups": [group("g0", pool_mib)]}
    return {"lus": [{**lu(0, virtual_mib * MIB), "store": store}], "pools": [pool], "sample_interval_ms": 60_000}


def pool_of(storage: SimpleNamespace) -> dict[str, Any]:
    """Return the status of the pool."""
    (pool,) = storage.engine.manage("status")["pools"]
    return pool


def used_mib(storage: SimpleNamespace) -> float:
    """Return the space used by the pool's volumes, in MiB."""
    return float(pool_of(storage)["used_bytes"]) / MIB


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_fstrim_returns_the_pages_of_deleted_files(guest: Guest, run: Run, tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        with array(**thin(tmp_path, 512, 256)) as storage:
            assert used_mib(storage) == 0
            async with disk_of(guest, storage) as disk:
                await guest.run(MAKE[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"mount {disk} /mnt && {FIO}", timeout_s=LONG_S)
                await guest.run("sha256sum /mnt/file >/tmp/sum && umount /mnt", timeout_s=LONG_S)
                full = used_mib(storage)
                assert full >= 16
                # Reads from the array, not from the guest's memory.
                await guest.run(f"mount {disk} /mnt && sha256sum -c /tmp/sum", timeout_s=LONG_S)
                trimmed = await guest.run("rm /mnt/file && sync && fstrim -v /mnt", timeout_s=LONG_S)
                # The pages at the ends of the file also hold other data.
                assert used_mib(storage) <= full - 15, trimmed
                await guest.run("umount /mnt")
                await guest.run(CHECK[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"blkdiscard {disk}")
                assert used_mib(storage) == 0

    run(work())


# Every line is another number of 15 digits, so that old, foreign or moved data are noticed. `seq`
# prints long numbers fast only if it needs no format.
FIRST, LINE_BYTES = 10**14, 16
CHUNK_BYTES = 256 << 10
POOL_MIB, WANTED_MIB = 16, 24


def numbers(length_bytes: int) -> str:
    """Return a command that prints so many bytes of numbers."""
    return f"seq {FIRST} {FIRST + length_bytes // LINE_BYTES - 1}"


def test_full_pool_gives_enospc_and_the_guest_continues_after_growth(guest: Guest, run: Run, tmp_path: Path) -> None:
    async def work() -> None:
        data = numbers(WANTED_MIB * MIB)
        with array(**thin(tmp_path, 4 * POOL_MIB, POOL_MIB)) as storage:
            await guest.run("dmesg -c >/dev/null")
            async with disk_of(guest, storage) as disk:
                copy = f"dd of={disk} bs={CHUNK_BYTES} iflag=fullblock oflag=direct"
                with pytest.raises(GuestCommandError, match=NO_SPACE) as failure:
                    await guest.run(f"{data} | {copy}", timeout_s=LONG_S)
                (written,) = map(int, re.findall(r"^(\d+)\+\d+ records out", failure.value.output, re.MULTILINE))
                # Every page of the pool was allocated before a write was refused.
                assert pool_of(storage)["free_bytes"] < CHUNK_BYTES
                capacity = pool_of(storage)["capacity_bytes"]
                assert capacity - CHUNK_BYTES < written * CHUNK_BYTES <= capacity
                kernel_log = await guest.run("dmesg")
                assert "reached a thin provisioning soft threshold" in kernel_log
                await read_back(guest, disk, written * CHUNK_BYTES)
                storage.engine.manage("grow", pool="p", group=group("g1", POOL_MIB))
                rest = f"{data} | {copy} seek={written} skip={written}"
                await guest.run(rest, timeout_s=LONG_S)
                await read_back(guest, disk, WANTED_MIB * MIB)
                assert used_mib(storage) == WANTED_MIB

    run(work())


async def read_back(guest: Guest, disk: str, length_bytes: int) -> None:
    """Check, past the guest's page cache, that the acknowledged data are on the disk."""
    read = f"dd if={disk} bs={CHUNK_BYTES} count={length_bytes // CHUNK_BYTES} iflag=direct 2>/dev/null"
    checksums = await guest.run(f"{read} | md5sum; {numbers(length_bytes)} | md5sum", timeout_s=LONG_S)
    assert len(set(checksums.split("\n")[:2])) == 1, checksums


FILE_LINES = (4 << 20) // LINE_BYTES
# Writes files of 4 MiB in sequence, each to stable storage before its checksum is stored. Ends with
# the first failure.
FILL = f"""
cd /mnt
for i in $(seq {{first}} {{last}}); do
    begin=$(({FIRST} + i * {FILE_LINES}))
    seq $begin $((begin + {FILE_LINES - 1})) >/tmp/content
    dd if=/tmp/content of=file-$i bs=64k oflag=direct conv=fsync || {{{{ rm -f file-$i; exit 1; }}}}
    md5sum file-$i >>/tmp/sums
done 2>&1
"""


# Metadata that ext4 wrote back without space are only in its journal. It reports this, stops at
# unmounting, and needs its journal replayed (status 1: done). XFS retries until there is space.
REPAIR = {"ext4": "e2fsck -f -y {} || [ $? -eq 1 ]", "xfs": "true"}
# XFS fills 64 MiB with its log.
SMALL_POOL_MIB = {"ext4": 64, "xfs": 128}


@pytest.mark.parametrize("kind", [long_case("ext4"), "xfs"])
def test_file_system_on_a_full_pool_loses_no_acknowledged_data(
    guest: Guest, run: Run, tmp_path: Path, kind: str
) -> None:
    async def work() -> None:
        with array(**thin(tmp_path, 512, SMALL_POOL_MIB[kind])) as storage:
            async with disk_of(guest, storage) as disk:
                await guest.run(f"rm -f /tmp/sums; {MAKE[kind].format(disk)} && mount {disk} /mnt", timeout_s=LONG_S)
                with pytest.raises(GuestCommandError, match=NO_SPACE):
                    await guest.run(FILL.format(first=1, last=32), timeout_s=LONG_S)
                await guest.run("echo 3 >/proc/sys/vm/drop_caches; cd /mnt; md5sum -c /tmp/sums", timeout_s=LONG_S)
                storage.engine.manage("grow", pool="p", group=group("g1", 64))
                await guest.run(FILL.format(first=33, last=40), timeout_s=LONG_S)
                await guest.run(f"umount /mnt; {REPAIR[kind].format(disk)}", timeout_s=LONG_S)
                await guest.run(CHECK[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"mount {disk} /mnt; cd /mnt; md5sum -c /tmp/sums", timeout_s=LONG_S)
                assert int(await guest.run("wc -l </tmp/sums")) >= 4 + 8

    run(work())
