"""The control socket, on the side of the process that serves.

A Unix socket that only its owner may use (0600). Bounded in every direction: connections, length of
a request, time that a client may be silent. What a request means is `answer`'s business.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from hakaru.array import protocol
from hakaru.array.state import SOCKET, unusable
from hakaru.errors import HakaruError, UsageError

CONNECTIONS_MAX = 32
# A client asks at once or has gone astray.
SILENCE_S = 30.0

Answer = Callable[[protocol.Request], Awaitable[Any]]


@contextlib.asynccontextmanager
async def listening(directory: Path, answer: Answer) -> AsyncIterator[None]:
    """Requests on `directory`'s socket are answered while the block runs."""
    clients: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(clients) >= CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        try:
            await _converse(reader, writer, answer)
        finally:
            clients.discard(task)
            writer.close()

    server = await asyncio.start_unix_server(accept, sock=_bind(directory), limit=protocol.REQUEST_MAX_BYTES)
    try:
        yield
    finally:
        server.close()
        for task in clients:
            task.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        (directory / SOCKET).unlink(missing_ok=True)


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    """Answer line after line until the client leaves, is silent, or sends what is no line."""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while True:
            try:
                line = await asyncio.wait_for(reader.readuntil(b"\n"), SILENCE_S)
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                too_long = UsageError(f"not a request: longer than {protocol.REQUEST_MAX_BYTES >> 10} KiB")
                writer.write(protocol.emit_error(too_long))
                return await writer.drain()
            try:
                reply = protocol.emit_value(await answer(protocol.parse_request(line)))
            except HakaruError as error:
                reply = protocol.emit_error(error)
            writer.write(reply)
            await writer.drain()


def _bind(directory: Path) -> socket.socket:
    """The socket, only its owner's from the first instant."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    before = os.umask(0o177)
    try:
        with socket_path(directory) as path:
            bound.bind(path)
    except OSError as e:
        bound.close()
        raise unusable(directory, e) from e
    finally:
        os.umask(before)
    return bound


@contextlib.contextmanager
def socket_path(directory: Path) -> Iterator[str]:
    """A name of the socket that fits the 108 bytes of a Unix address, however deep the directory
    lies.
    """
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)
