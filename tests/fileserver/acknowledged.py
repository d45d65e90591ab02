"""Clients that write files through a file server with FLUSH, and the record of those for which the
server has acknowledged it. The record is in this process, apart from the server.

    clients = Clients(spawn, "10.77.0.100:445", user)
    clients.begin(3)
    await clients.reach(12)          12 folders are acknowledged, and another one is being written
    …                                the server is killed
    await clients.end()
    wrong = await clients.verify()   folder → what is wrong with it

A client writes one folder after the other: a small tree of files, each by open, write, FLUSH and
close. A folder is acknowledged once all of these have succeeded for all of its files. Contents
follow from the name of a folder, so they can be checked without a second copy.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError
from hakaru.fileserver.samba_settings import User

Spawn = Callable[[contract.EngineConfig], Awaitable[EngineProcess]]
"""Starts an engine beside the clients."""

FILES = 8
"""Files of a folder."""
_SIZES = contract.LognormalSizes(median_bytes=48 << 10, sigma=1.0, min_bytes=1, max_bytes=512 << 10)
# Reading is cheap, and starting engines is not.
_VERIFIED_AT_ONCE = 3


class Clients:
    """Clients of the share `data` of a server."""

    def __init__(self, spawn: Spawn, address: str, user: User) -> None:
        self.acknowledged: dict[str, str] = {}
        """Folder → digest of its description."""
        self.interrupted: set[str] = set()
        """Folders that clients had begun and whose end they did not see."""
        self.errors: list[HakaruError] = []
        """The errors with which clients have ended."""
        self._spawn = spawn
        self._address = address
        self._user = user
        self._clients: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()
        self._writing: set[str] = set()

    def begin(self, clients: int) -> None:
        """Start clients, each with folders of its own, behind those written before."""
        self._clients = [asyncio.create_task(self._run(f"client-{number}")) for number in range(clients)]

    async def reach(self, folders: int) -> None:
        """Wait until a number of folders is acknowledged and another one is being written and
        flushed. Raises the error of clients that have all ended before.
        """

        def reached() -> bool:
            written = len(self.acknowledged) >= folders and bool(self._writing)
            return written or len(self.errors) == len(self._clients)

        async with self._changed:
            await self._changed.wait_for(reached)
        if len(self.errors) == len(self._clients):
            raise self.errors[0]

    async def wait(self) -> None:
        """Wait until all clients have ended by an error."""
        await asyncio.gather(*self._clients)

    async def end(self) -> None:
        """End all clients that still wait for the server."""
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def verify(self) -> dict[str, list[str]]:
        """Read all acknowledged folders; return folder → problems of those that are not as they
        were written. Raises LostError if the server does not respond.
        """
        free = asyncio.Semaphore(_VERIFIED_AT_ONCE)
        wrong: dict[str, list[str]] = {}

        async def check(folder: str) -> None:
            async with free:
                if problems := await self._check(folder):
                    wrong[folder] = problems

        await asyncio.gather(*map(check, self.acknowledged))
        return wrong

    async def write(self, folder: str) -> None:
        """Write a folder, from the place on at which it was interrupted; raise the error if the
        server does not acknowledge all of its files.
        """
        seed = zlib.crc32(folder.encode())
        trees = contract.TreesConfig(seed=seed, trees=1, depth=2, folders=3, targets=FILES, sizes=_SIZES)
        # A build writes without FLUSH what the load then writes with it.
        load = contract.FilesLoad(
            destination=self._place(folder), trees=trees, build=True, tools=1, read_percent=0, flush=True, seed=seed
        )
        async with await self._spawn(load) as engine:
            ready = await engine.ready()
            await engine.start(clock.now_ns())
            async for event in engine.events():
                if isinstance(event, contract.Phase) and event.phase == "measure":
                    await self._note(folder)
            values = (await engine.result()).values
            reasons = [complaint.message for complaint in engine.complaints]
        if values["errors"]:
            raise HakaruError(f"{folder}: {reasons}")
        assert values["flushes"] == values["files_written"] == values["closes"] == FILES, values
        self.acknowledged[folder] = ready.found["digest"]
        self.interrupted.discard(folder)

    async def _run(self, client: str) -> None:
        number = sum(folder.startswith(f"{client}/") for folder in self.acknowledged)
        while True:
            folder = f"{client}/{number}"
            self.interrupted.add(folder)
            try:
                await self.write(folder)
            except HakaruError as error:
                self.errors.append(error)
                return
            finally:
                self._writing.discard(folder)
                await self._note()
            number += 1

    async def _note(self, *writing: str) -> None:
        """Wake those who wait for a change."""
        self._writing.update(writing)
        async with self._changed:
            self._changed.notify_all()

    async def _check(self, folder: str) -> list[str]:
        try:
            async with await self._spawn(contract.FilesVerify(destination=self._place(folder), workers=1)) as engine:
                ready = await engine.ready()
                # The description is in the folder as well, so it is compared with the record.
                if ready.found["digest"] != self.acknowledged[folder]:
                    return ["the description is another one"]
                await engine.start(clock.now_ns())
                try:
                    async for _ in engine.events():
                        pass
                except HakaruError as error:
                    return [complaint.message for complaint in engine.complaints] or [error.message]
        except LostError:
            raise
        except HakaruError as error:
            return [error.message]
        return []

    def _place(self, folder: str) -> contract.FilesSmb:
        password = contract.SecretText(text=self._user.password)
        user = contract.SmbPassword(name=self._user.name, password=password)
        return contract.FilesSmb(
            address=self._address,
            share="data",
            folder=folder,
            user=user,
            # A server with an emulated processor is slow on a busy machine.
            connect_timeout_s=60.0,
            request_timeout_s=120.0,
        )
