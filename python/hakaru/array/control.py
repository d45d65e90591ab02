"""Server of the control socket.

A Unix socket that only its owner may use (0600). Connections, the length of a request and the time
that a client may be silent are limited. `answer` interprets the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from hakaru import unix_socket
from hakaru.array import protocol
from hakaru.array.state import SOCKET, unusable_error
from hakaru.errors import HakaruError, UsageError

CONNECTIONS_MAX = 32
# Seconds after which a silent client is disconnected. Clients send their request at once.
SILENCE_S = 30.0

Answer = Callable[[protocol.Request], Awaitable[Any]]


@contextlib.asynccontextmanager
async def listening(directory: Path, answer: Answer) -> AsyncIterator[None]:
    """Answer requests on `directory`'s socket while the block runs."""
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
    """Answer requests until the client disconnects, is silent for 30 s, or sends a line that is too
    long.
    """
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
    try:
        return unix_socket.bind(directory, SOCKET)
    except OSError as e:
        raise unusable_error(directory, e) from e
