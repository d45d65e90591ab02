"""The array's LU as a disk of the guest, for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

from tests.guests.machine import Guest
from tests.guests.open_iscsi import OpenIscsi
from tests.peers.array import TARGET_NAME

INITIATOR_NAME = "iqn.2026-01.org.hakaru:vm-1"
# Under TCG file systems take their time.
LONG_S = 240.0
MAKE = {"ext4": "mkfs.ext4 -q -F {}", "xfs": "mkfs.xfs -q -f {}"}
CHECK = {"ext4": "e2fsck -f -n {}", "xfs": "xfs_repair -n {}"}


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
