"""File servers of a repetition: their directories, and the error if one of them is lost."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from hakaru.errors import EnvironmentError_
from hakaru.fileserver.samba import Samba
from hakaru.fileserver.samba_settings import FileServer
from hakaru.run.place import Place


@contextlib.asynccontextmanager
async def running(place: Place, servers: Mapping[str, FileServer]) -> AsyncIterator[dict[str, Samba]]:
    """Yield node → its file server, which accepts connections. All of them end with the block.

    Directories of shares are created, and deleted afterwards unless something is left in them.
    Raises EnvironmentError_ if one cannot be created or a server cannot start.
    """
    async with contextlib.AsyncExitStack() as stack:
        started = {}
        for node, server in servers.items():
            for share in server.shares:
                stack.callback(_remove, Path(share.path))
                _create(server, Path(share.path))
            started[node] = await stack.enter_async_context(await place.start_file_server(node, server))
        yield started


async def watch(samba: Samba) -> None:
    """Wait until a server ends, and raise the reason. To be cancelled by others."""
    raise await samba.wait()


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
