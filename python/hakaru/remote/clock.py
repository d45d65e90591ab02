"""The clock of another machine, asked through `ssh`."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import Process
from typing import Self

from hakaru.engine.child import end_child, start_child
from hakaru.engine.offset import ClockOffset, measure
from hakaru.errors import LostError
from hakaru.remote import ssh

MEASURE_TIMEOUT_S = 30.0
_GRACE_S = 5.0


class RemoteClock:
    """`hakaru-engine clock` on another machine. Created by `open`."""

    def __init__(self, name: str, destination: str, process: Process) -> None:
        self._name, self._destination = name, destination
        self._process = process
        self._asked = 0

    @classmethod
    async def open(cls, name: str, destination: str, engine: str) -> Self:
        """Start the program. Errors are those of `measure`."""
        return cls(name, destination, await start_child(ssh.arguments(destination, f"exec {engine} clock")))

    async def measure(self) -> ClockOffset:
        """Measure the offset. Raises LostError if the machine does not answer."""
        try:
            return await asyncio.wait_for(measure(self._ask), MEASURE_TIMEOUT_S)
        except TimeoutError:
            raise LostError(
                f"load host {self._name} did not report its time within {MEASURE_TIMEOUT_S:g} s",
                f"check whether the machine still works: `ssh {self._destination} true`",
            ) from None

    async def close(self) -> None:
        """End the program."""
        await end_child(self._process, _GRACE_S)

    async def _ask(self) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._asked += 1
        # `readline` reports a program that has ended.
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(f"{self._asked}\n".encode())
            await self._process.stdin.drain()
        while line := await self._process.stdout.readline():
            try:
                request, at_ns = map(int, line.split())
            except ValueError:
                raise LostError(
                    f"load host {self._name} answered {line[:80]!r} when asked for its time",
                    "the login must print nothing of its own",
                ) from None
            # A measurement that was cancelled leaves answers behind.
            if request == self._asked:
                return at_ns
        raise await self._lost()

    async def _lost(self) -> LostError:
        assert self._process.stderr is not None
        status = await self._process.wait()
        stderr = (await self._process.stderr.read()).decode(errors="replace").splitlines()
        if status == ssh.FAILED:
            reason, hint = ssh.explain(self._destination, [line.strip() for line in stderr if line.strip()])
            return LostError(f"load host {self._name} was lost: {self._destination}: {reason}", hint)
        return LostError(
            f"load host {self._name} was lost: its clock ended with status {status}", " / ".join(stderr[-3:])
        )
