"""Unix sockets in a directory, for its owner alone.

The address of a Unix socket has at most 108 bytes, so sockets are bound and connected through a
descriptor of their directory.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path


def bind(directory: Path, name: str) -> socket.socket:
    """Create the socket `name` in `directory`, non-blocking and not yet listening. Only its owner
    has access to it, from its creation on. Raises OSError.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # The file gets the mode of the descriptor (Linux).
        os.fchmod(bound.fileno(), 0o600)
        with path_of(directory, name) as path:
            bound.bind(path)
    except OSError:
        bound.close()
        raise
    return bound


def connect(directory: Path, name: str, timeout_s: float | None = None) -> socket.socket:
    """Connect to the socket `name` in `directory`. Raises FileNotFoundError if there is none,
    ConnectionRefusedError if the process that served it has ended, and OSError.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with path_of(directory, name) as path:
            connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def path_of(directory: Path, name: str) -> Iterator[str]:
    """Yield a path of a file of `directory` that fits the address of a Unix socket."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
