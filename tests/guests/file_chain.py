"""Program of the tests: `hakaru` with a chain that is damaged while it is in use. Its arguments are
those of `hakaru`.

A qcow2 image is overwritten after the load. A VHDX image is never built, because the array below it
is killed.
"""

from __future__ import annotations

import os
import signal
import sys

from hakaru.cli import main
from hakaru.engine.process import EngineProcess
from hakaru.engine.session import EngineSession
from hakaru.fileserver.chain import IMAGE_PATH, Chain
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.guest.machine import Guest
from hakaru.lab.build.guest_chain import GuestChain

# The first cluster is the header. The tables of references and of clusters follow it.
DAMAGE = f"dd if=/dev/zero of={IMAGE_PATH} bs=64k seek=1 count=2 conv=notrunc,fsync 2>/dev/null"

_check = Chain.check
_create_image = Chain._create_image
_build = GuestChain.build


async def damage_and_check(chain: Chain) -> str:
    """Overwrite tables of a qcow2 image, then check as before."""
    if chain.spec.disk.format == "qcow2":
        await chain.guest.run(DAMAGE)
    return await _check(chain)


async def build_while_array_ends(guest: Guest, plan: ChainPlan, array: EngineSession) -> GuestChain:
    """Build a chain, and kill the array before a VHDX image is created."""

    async def create_image(chain: Chain) -> None:
        if chain.spec.disk.format == "vhdx":
            assert isinstance(array, EngineProcess)
            os.kill(array.pid, signal.SIGKILL)
        await _create_image(chain)

    Chain._create_image = create_image  # type: ignore[method-assign]
    return await _build(guest, plan, array)


if __name__ == "__main__":
    Chain.check = damage_and_check  # type: ignore[method-assign]
    GuestChain.build = build_while_array_ends  # type: ignore[method-assign,assignment]
    sys.exit(main())
