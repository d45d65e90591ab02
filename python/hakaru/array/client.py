"""Client of the control socket, for `hakaru array status` and similar commands. Blocks for one
reply to one request.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from hakaru import unix_socket
from hakaru.array import protocol
from hakaru.array.state import SOCKET
from hakaru.errors import EnvironmentError_, LostError

# Deleting a large volume or growing a pool waits for one or two commits.
ANSWER_S = 120.0


def ask(directory: Path, request: protocol.Request, timeout_s: float = ANSWER_S) -> Any:
    """Send a request to the process that serves `directory`, and return the value of its reply.
    Raises the error of the reply.
    """
    try:
        with unix_socket.connect(directory, SOCKET, timeout_s) as connection:
            connection.sendall(request.model_dump_json().encode() + b"\n")
            line = _line(connection)
    except (FileNotFoundError, ConnectionRefusedError):
        raise EnvironmentError_(
            f"no array is served from {directory}", "start it with `hakaru array serve`, or name another array file"
        ) from None
    except PermissionError:
        raise EnvironmentError_(
            f"the array in {directory} belongs to another user", "run the command as the user who serves it"
        ) from None
    except TimeoutError:
        raise LostError(
            f"the array in {directory} did not answer within {timeout_s:g} s", "look at the output of `serve`"
        ) from None
    except OSError as e:
        raise EnvironmentError_(f"cannot reach the array in {directory}: {e.strerror or e}") from e
    if not line.endswith(b"\n"):
        raise LostError(f"the array in {directory} ended before it answered", "look at the last output of `serve`")
    try:
        return protocol.parse_reply(line)
    except (ValueError, KeyError, TypeError) as e:
        raise LostError(
            f"the reply of the array in {directory} is invalid: {e}",
            "check whether another version of hakaru serves it",
        ) from e


def _line(connection: socket.socket) -> bytes:
    """Receive until the end of the line or of the stream, or 64 MiB."""
    received = bytearray()
    while not received.endswith(b"\n") and len(received) < protocol.REPLY_MAX_BYTES:
        piece = connection.recv(1 << 16)
        if not piece:
            break
        received += piece
    return bytes(received)
