"""A guest that is logged in to an array with a tape library and nothing else."""

from __future__ import annotations

import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.image import Image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.open_iscsi import OpenIscsi

from tests.guests.disk import open_iscsi
from tests.peers.array import TARGET_NAME, array

LONG_S = 900.0
"""Seconds for a program that fills cartridges. On a machine that does nothing else it takes about
one minute.
"""

# Prints the name of the changer's sg device once the kernel has found all LUs.
FIND_CHANGER = """
for i in $(seq 100); do
    for found in /sys/class/scsi_generic/sg*; do
        if [ "$(cat $found/device/type)" = 8 ] && [ -c /dev/nst0 ] && [ -c /dev/nst1 ]; then
            echo "/dev/${found##*/}"; exit 0
        fi
    done
    usleep 200000
done
ls /sys/class/scsi_generic /dev; exit 1
"""


@dataclass(frozen=True)
class Library:
    """The library as the guest sees it."""

    guest: Guest
    initiator: OpenIscsi
    changer: str

    async def run(self, script: str, *, timeout_s: float = 120.0) -> str:
        """Run a script in which `$CHANGER` is the changer and `mt` is Debian's mt-st."""
        return await self.guest.run(
            f'set -e\nCHANGER={self.changer}\nmt() {{ mt-st "$@"; }}\n{script}', timeout_s=timeout_s
        )

    async def mtx(self, order: str) -> str:
        """Run an order of mtx and return the state of the library afterwards."""
        return await self.run(f"mtx -f $CHANGER {order} >&2\nmtx -f $CHANGER status")

    async def status(self, drive: int) -> str:
        """Return what mt prints about a drive."""
        return await self.run(f"mt -f /dev/nst{drive} status")

    async def state(self, drive: int) -> tuple[int, int, set[str]]:
        """Return file number, block number and flags of a drive."""
        text = await self.status(drive)
        found = re.search(r"File number=(-?\d+), block number=(-?\d+), partition=0", text)
        assert found, text
        flags = text[text.index("General status bits on") :].split("\n")[1]
        return int(found[1]), int(found[2]), set(flags.split())


@asynccontextmanager
async def library_in(image: Image, config: dict[str, Any]) -> AsyncIterator[Library]:
    """Boot a guest and log it in to an array with this library (`tape_library` without `folder`)
    and two drives.
    """
    accelerator = await find_accelerator(image)
    with (
        tempfile.TemporaryDirectory() as folder,
        array(lus=[], tape_library=config | {"folder": folder}) as storage,
    ):
        async with await Guest.boot(GuestSpec("tape", image, cpus=1), accelerator) as guest:
            await guest.run("modprobe st && modprobe sg && modprobe ch")
            async with open_iscsi(guest) as initiator:
                session = await initiator.log_in(storage.portal, TARGET_NAME)
                changer = (await guest.run(FIND_CHANGER)).strip()
                yield Library(guest, initiator, changer)
                await session.log_out()
        values = storage.engine.stop()
        assert (values["protocol_errors"], values["rejects"]) == (0, 0)
