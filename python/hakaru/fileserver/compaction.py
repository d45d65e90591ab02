"""Compaction of the virtual disk of a chain: a copy of its image has only what its file system
uses, and takes its place. The counterpart of what Hyper-V does with a dynamic disk.

    await chain.stop_serving()
    if await free_bytes(chain) >= …:     the host needs space for both images
        await compact(chain)
        await chain.trim_host()          … and gives the old one back to the LU

Formats that ignore TRIM keep the blocks of deleted files, and their data are no zeros. So the file
system is trimmed on an overlay of the image, which stores what was discarded; the copy is that of
the overlay. Nothing has to be overwritten, so neither image nor pool grows before it shrinks.
"""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import replace

from hakaru.errors import HakaruError
from hakaru.fileserver import virtual_disk
from hakaru.fileserver.chain import IMAGE_PATH, Chain
from hakaru.fileserver.chain_spec import HOST_PATH
from hakaru.guest.machine import GuestCommandError

_OVERLAY_PATH = f"{HOST_PATH}/disk.overlay"
_SCRATCH_PATH = f"{HOST_PATH}/disk.compacted"
# Commands copy whole disks, on an emulated processor of a busy machine.
_LONG_S = 600.0


async def free_bytes(chain: Chain) -> int:
    """Return the space that the host's file system has left."""
    return int(await _run(chain, f"df -B1 --output=avail {HOST_PATH} | tail -n 1"))


async def compact(chain: Chain) -> None:
    """Copy the image without free space of its file system and without zeros. The disk is detached
    meanwhile, so Samba must have ended. A fixed disk is sparse then, and `chain.spec` describes it
    so.

    After an error of a command, such as a full host, the image is the old one, and mounted again.
    Raises GuestCommandError.
    """
    disk = chain.spec.disk
    await chain.detach_share()
    try:
        await _run(chain, shlex.join(virtual_disk.overlay_command(disk, IMAGE_PATH, _OVERLAY_PATH)))
        await chain.attach_share(_OVERLAY_PATH)
        await chain.trim_guest()
        await chain.detach_share()
        commands = virtual_disk.compact_commands(disk, IMAGE_PATH, _SCRATCH_PATH, _OVERLAY_PATH)
        await _run(chain, *map(shlex.join, commands), "sync")
    except GuestCommandError:
        # The first error matters, also if the image is damaged and cannot be attached.
        with contextlib.suppress(HakaruError):
            await chain.detach_share()
            await _run(chain, f"rm -f {_SCRATCH_PATH} {_OVERLAY_PATH}")
            await chain.attach_share()
        raise
    chain.spec = replace(chain.spec, disk=virtual_disk.compacted(disk))
    await chain.attach_share()


async def _run(chain: Chain, *lines: str) -> str:
    return await chain.guest.run("\n".join(["set -e", *lines]), timeout_s=_LONG_S)
