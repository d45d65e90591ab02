"""Program of the tests: the power of a file server in a guest is cut while clients write to it, and
another guest boots on the same LU. `python -m tests.guests.power_cut FOLDER`, in a sandbox. Prints
JSON lines: what was acknowledged and is not as it was written, after

- `unsafe`: a cut with a virtual disk that ignores flushes, so that data are lost;
- `cut`: a cut with the default one, which does not;
- `full`: a cut of the latter when its pool has been full.

A cut is SIGKILL of QEMU: all caches of the guest are lost, those of both file systems and of the
image. The array continues.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import GuestError, HakaruError
from hakaru.fileserver.chain import Chain
from hakaru.fileserver.chain_spec import HOST_PATH, ChainPlan, ChainSpec
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.guest.machine import Guest
from hakaru.guest.open_iscsi import OpenIscsi
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.build.guest_chain import GuestChain
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab

from tests.fileserver.acknowledged import Clients
from tests.guests.file_server import ADDRESS, LAB, MIB, PAGE_BYTES, PORTAL, SERVER, TARGET_NAME, boot, report

CLIENTS, FOLDERS = 3, 6
# The log of XFS takes 64 MiB.
POOL_MIB, GROWTH_MIB = 128, 64
# Left for the clients before the pool is full.
LEFT_MIB = 6
UNSAFE, SAFE = 0, 1
"""LUNs. Each has a pool of its own."""
SPECS = {
    UNSAFE: ChainSpec(VirtualDisk(format="vhd", size="128 MiB", cache="unsafe")),
    SAFE: ChainSpec(VirtualDisk(format="vhd", size="128 MiB")),
}
REFUSED = "space allocation error"
"""Words of Linux for the sense of a write for which the array has no space."""
_REFUSED_S = 120


def array_config(folder: Path) -> contract.ArrayConfig:
    """Return an array with a thin LU per chain, each in a pool of its own."""
    pools = [
        contract.PoolConfig(
            name=f"p{lun}",
            directory=str(folder / f"pool-{lun}"),
            page_bytes=PAGE_BYTES,
            groups=[contract.GroupConfig(name="g0", size_bytes=POOL_MIB * MIB)],
        )
        for lun in SPECS
    ]
    lus = [
        {"lun": lun, "size_bytes": 512 * MIB, "store": {"kind": "thin", "pool": f"p{lun}", "volume": f"v{lun}"}}
        for lun in SPECS
    ]
    return contract.ArrayConfig.model_validate(
        {
            "engine": "array",
            "target_name": TARGET_NAME,
            "portals": [PORTAL],
            "lus": lus,
            "pools": [pool.model_dump() for pool in pools],
            "model": {"kind": "none"},
            "isolated_network": True,
        }
    )


class Site:
    """An array, clients in another node, and the guest that is the file server at present."""

    def __init__(self, lab: Lab, array: EngineProcess, folder: Path, ended: AsyncExitStack) -> None:
        self.lab = lab
        self.array = array
        self.folder = folder
        self._ended = ended
        """Ends the guests that are left after an error."""

    def clients(self) -> Clients:
        return Clients(self._spawn, f"{ADDRESS}:445", SERVER.users[0])

    async def _spawn(self, config: contract.EngineConfig) -> EngineProcess:
        return await self.lab.start_engine("host-1", config)

    async def boot(self) -> Guest:
        guest = await boot(self.lab)
        self._ended.push_async_callback(guest.close)
        return guest

    async def build(self, guest: Guest, lun: int) -> Chain:
        """Build a chain on an empty LU and serve it."""
        chain = await Chain.build(guest, SPECS[lun], PORTAL, TARGET_NAME, lun=lun)
        await chain.serve(SERVER)
        return chain

    async def reopen(self, guest: Guest, lun: int) -> Chain:
        """Serve a chain whose guest has ended: mounting recovers the logs of its file systems."""
        # The boot may have left messages of disks.
        await guest.run("dmesg -c >/dev/null")
        chain = Chain(guest, SPECS[lun], OpenIscsi(guest, "iqn.2026-01.org.hakaru:file-server"))
        await chain.initiator.begin()
        session = await chain.initiator.log_in(PORTAL, TARGET_NAME)
        chain.lu_device = await session.disk(lun)
        await chain.mount_host()
        await chain.attach_share()
        await chain.serve(SERVER)
        return chain

    async def cut(self, guest: Guest, clients: Clients) -> None:
        """Cut the power while clients write."""
        guest.kill()
        await clients.end()
        await guest.close()

    async def free_mib(self, lun: int) -> int:
        pools = (await self.array.manage(contract.StatusAction()))["pools"]
        return next(int(pool["free_bytes"]) for pool in pools if pool["name"] == f"p{lun}") // MIB

    async def grow(self, lun: int) -> None:
        group = contract.GroupConfig(name="g1", size_bytes=GROWTH_MIB * MIB)
        await self.array.manage(contract.GrowAction(pool=f"p{lun}", group=group))

    async def watch(self, chain: Chain, lun: int) -> str:
        """Wait until the pool is full, as a run does, and return the error with which it ends."""
        pool = str(self.folder / f"pool-{lun}")
        plan = ChainPlan("fs-1", chain.spec, "array", PORTAL, TARGET_NAME, lun, f"p{lun}", f"v{lun}", pool)
        try:
            await GuestChain(plan, chain, self.array).watch()
        except GuestError as error:
            return error.message
        return "nothing"


async def fill(site: Site, chain: Chain, clients: Clients) -> tuple[str, str]:
    """Let clients write until the pool is full and the array has refused a write. Return the error
    of the run, and the line of the guest's kernel.
    """
    ballast = await site.free_mib(SAFE) - LEFT_MIB
    await chain.guest.run(f"dd if=/dev/urandom of={HOST_PATH}/ballast bs=1M count={ballast} conv=fsync 2>&1")
    clients.begin(CLIENTS)
    error = await site.watch(chain, SAFE)
    seen = f"dmesg | grep -m 1 '{REFUSED}' && exit 0; usleep 200000"
    script = f"for i in $(seq {5 * _REFUSED_S}); do {seen}; done; echo no write was refused; exit 1"
    return error, await chain.guest.run(script, timeout_s=2 * _REFUSED_S)


async def lose(site: Site) -> Guest:
    """Cut the power of a server that acknowledges FLUSH without writing. Return the next guest."""
    guest = await site.boot()
    chain = await site.build(guest, UNSAFE)
    # The empty layers stay, and Linux writes nothing of the load by itself, which it
    # would do after half a minute.
    await chain.write_back()
    await guest.run("echo 0 >/proc/sys/vm/dirty_writeback_centisecs")
    clients = site.clients()
    clients.begin(CLIENTS)
    await clients.reach(FOLDERS)
    await site.cut(guest, clients)
    guest = await site.boot()
    chain = await site.reopen(guest, UNSAFE)
    report(case="unsafe", acknowledged=len(clients.acknowledged), wrong=await clients.verify())
    await chain.close()
    return guest


async def work(folder: Path) -> None:
    async with Lab(plan_lab(LabSpec.model_validate(LAB))) as lab, AsyncExitStack() as ended:
        array = await lab.start_engine("array", array_config(folder))
        await array.ready()
        site = Site(lab, array, folder, ended)
        guest = await lose(site)
        await site.build(guest, SAFE)
        clients = site.clients()
        clients.begin(CLIENTS)
        await clients.reach(FOLDERS)
        await site.cut(guest, clients)
        guest = await site.boot()
        chain = await site.reopen(guest, SAFE)
        wrong = await clients.verify()
        acknowledged, interrupted = len(clients.acknowledged), len(clients.interrupted)
        report(case="cut", acknowledged=acknowledged, interrupted=interrupted, wrong=wrong, damaged=await chain.check())
        error, line = await fill(site, chain, clients)
        await site.cut(guest, clients)
        more = len(clients.acknowledged) - acknowledged
        await site.grow(SAFE)
        guest = await site.boot()
        chain = await site.reopen(guest, SAFE)
        wrong = await clients.verify()
        report(case="full", error=error, line=line, more=more, wrong=wrong)


if __name__ == "__main__":
    sandbox.enter()
    try:
        asyncio.run(work(Path(sys.argv[1])))
    except HakaruError as error:
        report(error=type(error).__name__, message=error.message, hint=error.hint)
        sys.exit(error.exit_code)
