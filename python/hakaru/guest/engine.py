"""`hakaru-engine` in a guest, with the same contract as on this machine.

    async with await EngineHost.open(guest) as host:           guest booted with `engine_options`
        async with await host.spawn("vm-1", config) as engine: a GuestEngine, see
            …                                                  `hakaru.engine.session`
    host.clock.describe()                                      to be stored with the results

A guest has a clock of its own. Its offset is measured before the first engine starts; engines
convert all instants with it. It is measured again at the end, which gives the drift.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hakaru.engine import contract
from hakaru.engine.binary import find_engine
from hakaru.engine.offset import ClockOffset, ClockRecord, measure
from hakaru.engine.session import EngineSession
from hakaru.errors import EnvironmentError_, HakaruError, LostError
from hakaru.guest.engine_image import PROGRAM, with_engine
from hakaru.guest.image import Image
from hakaru.guest.machine import Guest
from hakaru.guest.port import PortProgram

# An emulated processor takes a second to load the engine.
HELLO_TIMEOUT_S = 60.0
_ASK_TIMEOUT_S = 30.0
_GRACE_S = 10.0
_CLOCK_PORT = "hakaru.clock"
_HINT_MAX = 500


def engine_options(image: Image, engines: int, binary: Path | None = None) -> dict[str, Any]:
    """Return fields of GuestSpec for a guest that runs up to `engines` engines at a time.

    `binary`: the engine; None: this machine's own.
    """
    channels = (_CLOCK_PORT, *(f"hakaru.engine.{number}" for number in range(engines)))
    return {"initramfs": with_engine(image, binary or find_engine()), "channels": channels}


class EngineHost:
    """The engines of one guest, and its clock. Created by `open`."""

    def __init__(self, guest: Guest, asker: PortProgram) -> None:
        self.guest = guest
        self._asker = asker
        self._answers = asker.lines()
        self._clock: ClockRecord | None = None
        self._free = [name for name in guest.spec.channels if name != _CLOCK_PORT]

    @classmethod
    async def open(cls, guest: Guest) -> Self:
        """Measure the clock. Raises LostError if the guest has no working engine."""
        host = cls(guest, await PortProgram.start(guest, _CLOCK_PORT, [PROGRAM, "clock"]))
        host._clock = ClockRecord(await host._measure())
        return host

    @property
    def clock(self) -> ClockRecord:
        """Offset of the guest's clock from this machine's, and its drift after `close`."""
        assert self._clock is not None
        return self._clock

    async def spawn(self, node: str, config: contract.EngineConfig) -> GuestEngine:
        """Start an engine and configure it. Raises EnvironmentError_ if all ports are in use."""
        if not self._free:
            raise EnvironmentError_(
                f"guest {self.guest.name} already runs as many engines as it has ports",
                "boot it with more `engines`, or close an engine first",
            )
        port = self._free.pop(0)
        program = await PortProgram.start(self.guest, port, [PROGRAM, "run"])
        engine = GuestEngine(node, config.engine, program, self.clock.start.offset_ns, self._free)
        try:
            await engine.introduce(config)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def close(self) -> None:
        """Measure the clock again, if the guest still runs."""
        if self.clock.end is None and self._asker.running and self.guest.emulator.running:
            self._clock = ClockRecord(self.clock.start, await self._measure())
            await self._asker.signal("TERM")
            with contextlib.suppress(LostError):
                async for _ in self._answers:
                    pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the block is more important than the clock of a guest that is lost.
        try:
            await self.close()
        except HakaruError:
            if error is None:
                raise

    async def _measure(self) -> ClockOffset:
        number = 0

        async def ask() -> int:
            nonlocal number
            number += 1
            await self._asker.write(f"{number}\n".encode())
            async for line in self._answers:
                request, at_ns = line.split()
                assert int(request) == number, f"{self.guest.name} answered {line!r} to {number}"
                return int(at_ns)
            raise LostError(
                f"the clock of guest {self.guest.name} ended with status {self._asker.status}",
                f"its stderr: {self._asker.stderr[-_HINT_MAX:].strip() or 'empty'}",
            )

        try:
            return await asyncio.wait_for(measure(ask), _ASK_TIMEOUT_S)
        except TimeoutError:
            raise self.guest.emulator.lost_error(f"did not report its time within {_ASK_TIMEOUT_S:g} s") from None


class GuestEngine(EngineSession):
    """A running engine in a guest. Created by `EngineHost.spawn`."""

    # Through a virtio port to an emulated processor on a busy machine.
    start_lead_ns = 2_000_000_000

    def __init__(self, node: str, kind: str, program: PortProgram, offset_ns: int, free: list[str]) -> None:
        super().__init__(node, kind, f"{PROGRAM} in guest {program.guest.name}")
        self._port = program
        self._offset_ns = offset_ns
        self._free = free
        self._reader = asyncio.create_task(self._read())

    async def introduce(self, config: contract.EngineConfig) -> None:
        """Check the version of the engine's contract, and configure it."""
        await self._introduce(config, HELLO_TIMEOUT_S)

    @property
    def running(self) -> bool:
        return self._port.running

    async def close(self) -> None:
        try:
            if not self._port.running:
                return
            if self._reader.done():
                # It stops at an error. The rest must be read before the port is used again.
                self._reader = asyncio.create_task(self._discard())
            # A port has no end of input, so the engine is asked.
            await self._send(contract.Stop())
            for name in ("TERM", "KILL", ""):
                await asyncio.wait([self._reader], timeout=_GRACE_S)
                if self._reader.done():
                    break
                if name:
                    await self._port.signal(name)
        finally:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            if not self._port.running and self._port.port not in self._free:
                self._free.append(self._port.port)
            self._retrieve_failures()

    async def _discard(self) -> None:
        with contextlib.suppress(LostError):
            async for _ in self._port.lines():
                pass

    async def _write(self, line: bytes) -> None:
        await self._port.write(line)

    async def _lines(self) -> AsyncIterator[bytes]:
        async for line in self._port.lines():
            yield line

    async def _lost(self) -> HakaruError:
        status = self._port.status
        if not self._hello.done():
            return EnvironmentError_(
                f"{self._program} ended with exit status {status} before it sent `hello`",
                self._stderr_hint("its stderr is empty"),
            )
        return LostError(
            f"{self.name} was lost: exit status {status} in guest {self._port.guest.name}",
            self._stderr_hint("its stderr is empty"),
        )

    def _stderr_hint(self, otherwise: str) -> str:
        text = " / ".join(self._port.stderr.split("\n")).strip(" /")
        return f"the end of its stderr: {text[-_HINT_MAX:]}" if text else otherwise

    def _engine_ns(self, host_ns: int) -> int:
        return host_ns + self._offset_ns

    def _host_ns(self, engine_ns: int) -> int:
        return engine_ns - self._offset_ns
