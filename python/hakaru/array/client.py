"""The control socket, on the side of `hakaru array status` and its like: one request, one answer,
blocking.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from hakaru.array import protocol
from hakaru.array.control import socket_path
from hakaru.errors import EnvironmentError_, LostError

# Deleting a large volume or growing a pool waits for a commit or two.
ANSWER_S = 120.0


def ask(directory: Path, request: protocol.Request, timeout_s: float = ANSWER_S) -> Any:
    """Return the answer of the process that serves `directory`. Raises its error as if it were
    ours.
    """
    try:
        with socket_path(directory) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
            connection.sendall(request.model_dump_json().encode() + b"\n")
            line = _line(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        raise EnvironmentError_(
            f"no array is served from {directory}", "start it with `hakaru array serve`, or name another array file"
        ) from None
    except PermissionError:
        raise EnvironmentError_(
            f"the array in {directory} belongs to another user", "ask as the user who serves it"
        ) from None
    except TimeoutError:
        raise LostError(
            f"the array in {directory} did not answer within {timeout_s:g} s", "look at what it says"
        ) from None
    except OSError as e:
        raise EnvironmentError_(f"cannot ask the array in {directory}: {e.strerror or e}") from e
    if not line.endswith(b"\n"):
        raise LostError(f"the array in {directory} ended before it answered", "look at what it said last")
    try:
        return protocol.parse_reply(line)
    except (ValueError, KeyError, TypeError) as e:
        raise LostError(
            f"the array in {directory} answered nonsense: {e}", "is another version of hakaru serving it?"
        ) from e


def _line(connection: socket.socket) -> bytes:
    """Up to the end of the line, of the stream, or of our patience with its length."""
    received = bytearray()
    while not received.endswith(b"\n") and len(received) < protocol.REPLY_MAX_BYTES:
        piece = connection.recv(1 << 16)
        if not piece:
            break
        received += piece
    return bytes(received)
