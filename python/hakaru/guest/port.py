"""Programs in a guest whose stdin and stdout are a virtio port, one after another on each port.

port.sh is the guest's end, and describes the lines around a program's own. A guest runs scripts one
at a time, so starting and killing a program waits for a script that is running.
"""

from __future__ import annotations

import base64
import contextlib
import shlex
from collections.abc import AsyncIterator, Sequence

from hakaru.errors import LostError
from hakaru.guest.machine import Guest, GuestCommandError

_WRAPPER = "/usr/bin/hakaru-port"
_END_S = 30.0


class PortProgram:
    """A program that runs on a port. Created by `start`."""

    def __init__(self, guest: Guest, port: str, identity: int) -> None:
        self.guest = guest
        self.port = port
        self.status: int | None = None
        """Exit status; None while it runs."""
        self.stderr = ""
        """End of its stderr, after it has ended."""
        self._identity = identity
        self._reader, self._writer = guest.channel(port)

    @classmethod
    async def start(cls, guest: Guest, port: str, command: Sequence[str]) -> PortProgram:
        """Start a program on a port on which none is running."""
        identity = guest.next_identity()
        program = cls(guest, port, identity)
        words = shlex.join([_WRAPPER, port, str(identity), *command])
        # A session of its own, so that the end of this script does not end it.
        await guest.run(f"setsid {words} </dev/null >/dev/null 2>&1 3>&- &")
        await program.write(f"\nbegin {identity}\n".encode())
        return program

    @property
    def running(self) -> bool:
        """Whether the program still runs, as far as its output has been read."""
        return self.status is None

    async def write(self, data: bytes) -> None:
        """Write to the program's stdin. The reader of `lines` notices a guest that is gone."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(data)
            await self._writer.drain()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield the lines of the program's stdout until it ends. Raises LostError if the guest
        does.
        """
        while self.status is None:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                line = b""
            if not line.endswith(b"\n"):
                raise await self.guest.emulator.end_error(f"while a program ran on {self.port}")
            if line.startswith(b"exit "):
                _, status, *stderr = line.split()
                self.stderr = base64.b64decode(b"".join(stderr)).decode(errors="replace")
                self.status = int(status)
                await self.write(f"\nend {self._identity}\n".encode())
            elif line.strip():
                yield line

    async def signal(self, name: str) -> None:
        """Send a signal (`TERM`) to the program, if it still runs."""
        with contextlib.suppress(GuestCommandError, LostError):
            await self.guest.run(f"kill -{name} $(cat /run/{self.port}.pid)", timeout_s=_END_S)
