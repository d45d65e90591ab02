"""Attaches the array's LU to the guest as a disk for the length of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

from hakaru.guest.machine import Guest
from hakaru.guest.open_iscsi import OpenIscsi

from tests.peers.array import TARGET_NAME

INITIATOR_NAME = "iqn.2026-01.org.hakaru:vm-1"
# File systems are slow under TCG.
LONG_S = 240.0
MAKE = {"ext4": "mkfs.ext4 -q -F {}", "xfs": "mkfs.xfs -q -f {}"}
CHECK = {"ext4": "e2fsck -f -n {}", "xfs": "xfs_repair -n {}"}


@asynccontextmanager
async def open_iscsi(guest: Guest) -> AsyncIterator[OpenIscsi]:
    """Provide an initiator. Afterwards no mount and no session remains, even after an error."""
    initiator = OpenIscsi(guest, INITIATOR_NAME)
    await initiator.begin()
    try:
        yield initiator
    finally:
        await guest.run(
            "if mountpoint -q /mnt; then umount /mnt || umount -l /mnt; fi",
            timeout_s=LONG_S,
        )
        await initiator.log_out_all()
        await initiator.end()


@asynccontextmanager
async def disk_of(guest: Guest, storage: SimpleNamespace) -> AsyncIterator[str]:
    """Attach the array's LUN 0 to the guest as a disk."""
    async with open_iscsi(guest) as initiator:
        session = await initiator.log_in(storage.portal, TARGET_NAME)
        yield await session.disk(0)
        await guest.run("cd /; if mountpoint -q /mnt; then umount /mnt; fi", timeout_s=LONG_S)
        await session.log_out()
