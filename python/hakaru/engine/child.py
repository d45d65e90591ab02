"""An engine behind the pipes of a child process: the engine itself, or a program that reaches it
elsewhere.

A child that ends is a LostError with its exit status and the last lines of its stderr. Leaving the
block ends the child: stdin is closed (which means stop), then SIGTERM is sent, then SIGKILL. A
child has a process group of its own, so that Ctrl-C reaches only hakaru, which then stops its
engines in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

from hakaru.engine.session import EngineSession
from hakaru.errors import EnvironmentError_, HakaruError, LostError

# A sample of 256 VMs with histograms has some hundred KiB, the last one of 20 000 VMs some MiB.
_LINE_MAX_BYTES = 64 * 1024**2
_STDERR_LINES = 20
_STDERR_LINE_MAX = 500


async def start_child(arguments: Sequence[str | Path], *, pass_fds: Sequence[int] = ()) -> Process:
    """Start a program with pipes for its standard streams. Raises EnvironmentError_ if it does not
    start.
    """
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LINE_MAX_BYTES,
            pass_fds=pass_fds,
            process_group=0,
        )
    except OSError as error:
        raise EnvironmentError_(f"{arguments[0]} does not start: {error.strerror}", "run `hakaru doctor`") from error


async def end_child(process: Process, grace_s: float) -> None:
    """Close the stdin of a child, and end it by force after `grace_s` and another `grace_s`."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        for next_signal in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s)
                return
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(next_signal)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()


class ChildEngine(EngineSession):
    """A running engine, whose lines a child process carries."""

    grace_s = 2.0
    """Time that the engine has to end after its stdin is closed, and after SIGTERM."""

    def __init__(self, node: str, kind: str, program: str, process: Process) -> None:
        super().__init__(node, kind, program)
        self._process = process
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._stderr_reader = asyncio.create_task(self._read_stderr())
        self._reader = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is still running; may lag behind its end."""
        return self._process.returncode is None

    async def close(self) -> None:
        """End the process, by force if necessary. Safe to call twice."""
        try:
            await end_child(self._process, self.grace_s)
        finally:
            for task in (self._reader, self._stderr_reader):
                task.cancel()
            await asyncio.gather(self._reader, self._stderr_reader, return_exceptions=True)
            self._retrieve_failures()

    async def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        # The reader reports an engine that has ended, with the end of its stderr.
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(line)
            await self._process.stdin.drain()

    async def _lines(self) -> AsyncIterator[bytes]:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            yield line

    async def _lost(self) -> HakaruError:
        status = await self._status()
        if not self._hello.done():
            return EnvironmentError_(
                f"{self._program} ended with exit status {status} before it sent `hello`",
                self._stderr_hint("set $HAKARU_ENGINE to the path of the engine, or unset it"),
            )
        if status < 0:
            with contextlib.suppress(ValueError):
                return LostError(
                    f"{self.name} was lost: ended by {signal.Signals(-status).name}",
                    self._stderr_hint("`dmesg` shows whether the machine ran out of memory"),
                )
        return LostError(f"{self.name} was lost: exit status {status}", self._stderr_hint("its stderr is empty"))

    async def _status(self) -> int:
        """Wait for the end of the process, and for the end of its stderr."""
        status = await self._process.wait()
        await asyncio.wait([self._stderr_reader], timeout=self.grace_s)
        return status

    def _stderr_hint(self, otherwise: str) -> str:
        return "the end of its stderr: " + " / ".join(self._stderr) if self._stderr else otherwise

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        pending = b""
        while chunk := await self._process.stderr.read(4096):
            *lines, pending = (pending + chunk).split(b"\n")
            # A line without an end must not grow without bound.
            pending = pending[-_STDERR_LINE_MAX:]
            self._keep_stderr(lines)
        self._keep_stderr([pending])

    def _keep_stderr(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            text = line.decode(errors="replace").strip()
            if text:
                self._stderr.append(text[-_STDERR_LINE_MAX:])
