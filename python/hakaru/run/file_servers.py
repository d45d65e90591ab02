"""File servers of a repetition: their directories, their caches, and the error if one of them is
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hakaru import system_calls
from hakaru.errors import EnvironmentError_
from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer


@dataclass(frozen=True)
class PlacedServer:
    """A file server and the place where it runs. Only labs have any."""

    server: FileServer
    namespace: int
    """Descriptor of the network namespace of its node."""

    async def start(self) -> Samba:
        """Start the server. Raises as `Samba.start`."""
        return await Samba.start(self.server, namespace=self.namespace)


@contextlib.asynccontextmanager
async def running(servers: Mapping[str, PlacedServer]) -> AsyncIterator[dict[str, Samba]]:
    """Yield node → its file server, which accepts connections. All of them end with the block.

    Directories of shares are created, and deleted afterwards unless something is left in them.
    Raises EnvironmentError_ if one cannot be created or a server cannot start.
    """
    async with contextlib.AsyncExitStack() as stack:
        started = {}
        for node, placed in servers.items():
            for share in placed.server.shares:
                stack.callback(_remove, Path(share.path))
                _create(placed.server, Path(share.path))
            started[node] = await stack.enter_async_context(await placed.start())
        yield started


async def watch(samba: Samba) -> None:
    """Wait until a server ends, and raise the reason. To be cancelled by others."""
    raise await samba.wait()


async def empty_caches(servers: Iterable[Samba]) -> None:
    """Write the files of all shares back, and drop them from this machine's page cache. Samba has
    no cache of its own. Raises EnvironmentError_ if a file cannot be opened.
    """
    for samba in servers:
        for share in samba.server.shares:
            try:
                await asyncio.to_thread(drop_from_cache, Path(share.path))
            except OSError as error:
                raise EnvironmentError_(
                    f"file server {samba.server.name}: cannot drop {error.filename or share.path} from the page cache: "
                    f"{error.strerror}",
                    "leave out `cold`, or use a directory on a local file system",
                ) from None


def drop_from_cache(folder: Path) -> None:
    """Write the file system of a folder back, and drop the files below it from the page cache.
    Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Pages that are not written back yet stay in the cache.
        system_calls.syncfs(descriptor)
    finally:
        os.close(descriptor)
    for path, _, names in os.walk(folder, onerror=_raise):
        for name in names:
            file = os.open(Path(path) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def _raise(error: OSError) -> None:
    raise error


def _create(server: FileServer, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentError_(
            f"file server {server.name}: cannot create {folder}: {error.strerror}",
            "name a directory that you may write to in HAKARU_FILES",
        ) from None


def _remove(folder: Path) -> None:
    """Delete a directory of a share and the one above it, which servers have in common, if they are
    empty.
    """
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()
