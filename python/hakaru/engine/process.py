"""One process of `hakaru-engine` on this machine.

    async with await EngineProcess.spawn("host-1", config, namespace=descriptor) as engine:
        …                                         see `hakaru.engine.session`

A process that ends is a LostError with its exit status and the last lines of its stderr. Leaving
the block ends the process: stdin is closed (which means stop), then SIGTERM is sent, then SIGKILL.
An engine has a process group of its own, so that Ctrl-C reaches only hakaru, which then stops its
engines in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Self

from hakaru.engine import clock, contract
from hakaru.engine.binary import find_engine
from hakaru.engine.session import EngineSession
from hakaru.errors import EnvironmentError_, HakaruError, LostError

HELLO_TIMEOUT_S = 10.0
_GRACE_S = 2.0
# A sample of 256 VMs with histograms has some hundred KiB, the last one of 20 000 VMs some MiB.
_LINE_MAX_BYTES = 64 * 1024**2
_STDERR_LINES = 20
_STDERR_LINE_MAX = 500


class EngineProcess(EngineSession):
    """A running engine. Created by `spawn`."""

    def __init__(self, node: str, kind: str, binary: Path, process: asyncio.subprocess.Process) -> None:
        super().__init__(node, kind, str(binary))
        self._process = process
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._stderr_reader = asyncio.create_task(self._read_stderr())
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def spawn(
        cls,
        node: str,
        config: contract.EngineConfig,
        *,
        namespace: int | None = None,
        binary: Path | None = None,
    ) -> Self:
        """Start an engine, check the version of its contract, and configure it.

        `namespace`: descriptor of the network namespace to enter; None: this process's own. Raises
        EnvironmentError_ if there is no engine or it has another contract, LostError if it sends
        nothing.
        """
        program = binary or find_engine()
        arguments = ["run"] if namespace is None else ["run", "--netns", f"/proc/self/fd/{namespace}"]
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=_LINE_MAX_BYTES,
                pass_fds=() if namespace is None else (namespace,),
                process_group=0,
            )
        except OSError as error:
            raise EnvironmentError_(f"{program} does not start: {error.strerror}", "run `hakaru doctor`") from error
        engine = cls(node, config.engine, program, process)
        try:
            await engine._introduce(config, HELLO_TIMEOUT_S)
        except BaseException:
            await engine.close()
            raise
        return engine

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
            if self._process.stdin is not None:
                self._process.stdin.close()
            await self._wait_for_exit()
        finally:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            await self._process.wait()
            for task in (self._reader, self._stderr_reader):
                task.cancel()
            await asyncio.gather(self._reader, self._stderr_reader, return_exceptions=True)
            self._retrieve_failures()

    async def _wait_for_exit(self) -> None:
        for next_signal in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE_S)
                return
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(next_signal)

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
        status = await self._process.wait()
        await asyncio.wait([self._stderr_reader], timeout=_GRACE_S)
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


async def gang_start(engines: Iterable[EngineSession]) -> int:
    """Start all engines at one instant, and return it in nanoseconds of `CLOCK_MONOTONIC`.

    Raises EnvironmentError_ if this machine was too busy to reach all of them in time.
    """
    gang = list(engines)
    at_ns = clock.gang_start_ns(max(engine.start_lead_ns for engine in gang))
    await asyncio.gather(*(engine.start(at_ns) for engine in gang))
    late_ns = clock.now_ns() - at_ns
    if late_ns > 0:
        raise EnvironmentError_(
            f"engines could not be started together: the last order arrived {late_ns / 1e6:.0f} ms too late",
            "this machine is busy; try again when it is idle",
        )
    return at_ns
