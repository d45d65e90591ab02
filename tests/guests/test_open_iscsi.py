"""The kernel's own initiator against the array: file systems on its LUs, written, verified, given back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hakaru.guest.machine import Guest
from hakaru.guest.open_iscsi import OpenIscsi

from tests.guests.conftest import Run
from tests.peers.array import MIB, TARGET_NAME, array, lu

INITIATOR_NAME = "iqn.2026-01.org.hakaru:vm-1"
# Under TCG file systems take their time.
LONG_S = 240.0
# Random writes of several sizes, each block with its checksum, read again from the array: the page cache is left out.
FIO = (
    "fio --name=verified --filename=/mnt/file --size=16M --rw=randwrite --bsrange=4k-64k --ioengine=libaio --direct=1 "
    "--iodepth=16 --verify=crc32c --verify_fatal=1 --end_fsync=1 --output-format=terse"
)
CHECK = {"ext4": "e2fsck -f -n {}", "xfs": "xfs_repair -n {}"}
COMPLAINT = re.compile(r".*(?:error|abort|Sense Key|timing out).*", re.IGNORECASE)
MAKE = {"ext4": "mkfs.ext4 -q -F {}", "xfs": "mkfs.xfs -q -f {}"}


@asynccontextmanager
async def open_iscsi(guest: Guest) -> AsyncIterator[OpenIscsi]:
    """An initiator; afterwards nothing is mounted, nobody logged in, whatever happened."""
    initiator = OpenIscsi(guest, INITIATOR_NAME)
    await initiator.begin()
    try:
        yield initiator
    finally:
        await guest.run(
            "if mountpoint -q /mnt; then umount /mnt || umount -l /mnt; fi; iscsiadm -m session >/dev/null 2>&1 &&"
            " iscsiadm -m node -u; iscsiadm -m node -o delete >/dev/null 2>&1; iscsiadm -k 0",
            timeout_s=LONG_S,
        )


@asynccontextmanager
async def disk_of(guest: Guest, storage: SimpleNamespace) -> AsyncIterator[str]:
    """The array's LUN 0 as a disk of the guest."""
    async with open_iscsi(guest) as initiator:
        await initiator.log_in(storage.portal, TARGET_NAME)
        yield await initiator.disk(0)
        await guest.run("cd /; if mountpoint -q /mnt; then umount /mnt; fi", timeout_s=LONG_S)
        await initiator.log_out()


def test_discovery_tells_the_target_and_login_its_session(guest: Guest, run: Run) -> None:
    async def work() -> None:
        with array(lu(0, 64 * MIB)) as storage:
            async with open_iscsi(guest) as initiator:
                assert await initiator.discover(storage.portal) == [(storage.portal, TARGET_NAME)]
                crc = {"node.conn[0].iscsi.HeaderDigest": "CRC32C", "node.conn[0].iscsi.DataDigest": "CRC32C"}
                await initiator.log_in(storage.portal, TARGET_NAME, settings=crc)
                session = await guest.run("iscsiadm -m session -P 2")
                assert "HeaderDigest: CRC32C" in session and "DataDigest: CRC32C" in session, session
                disk = await initiator.disk(0)
                assert (await guest.run(f"blockdev --getsize64 {disk}")).strip() == str(64 * MIB)
                await guest.run(
                    "dd if=/dev/urandom of=/tmp/a bs=64k count=16 2>/dev/null &&"
                    f" dd if=/tmp/a of={disk} bs=64k oflag=direct 2>/dev/null &&"
                    f" dd if={disk} bs=64k count=16 iflag=direct 2>/dev/null | cmp - /tmp/a"
                )
                await initiator.log_out()
            values = storage.engine.stop()
            assert (values["logins"], values["protocol_errors"], values["rejects"]) == (2, 0, 0)

    run(work())


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_file_system_keeps_what_fio_verifies(guest: Guest, run: Run, tmp_path: Path, kind: str) -> None:
    async def work() -> None:
        with array(lu(0, 320 * MIB, path=tmp_path / "lu")) as storage:
            await guest.run("dmesg -c >/dev/null")
            async with disk_of(guest, storage) as disk:
                await guest.run(MAKE[kind].format(disk), timeout_s=LONG_S)
                await guest.run(f"mount {disk} /mnt && {FIO}", timeout_s=LONG_S)
                # Unmounted and mounted anew: nothing of it is left in the guest's memory.
                await guest.run(f"sha256sum /mnt/file >/tmp/sum && umount /mnt && mount {disk} /mnt", timeout_s=LONG_S)
                await guest.run("sha256sum -c /tmp/sum && umount /mnt", timeout_s=LONG_S)
                await guest.run(CHECK[kind].format(disk), timeout_s=LONG_S)
            assert COMPLAINT.findall(await guest.run("dmesg")) == []
            assert storage.engine.stop()["protocol_errors"] == 0

    run(work())
