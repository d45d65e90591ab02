"""The fabric behind the NICs of a guest that are ports in its memory (vhost-user).

It runs as long as the guest, across repetitions: QEMU connects to it when it starts.
"""

from __future__ import annotations

import asyncio

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError


class GuestPorts:
    """A running fabric engine. Created by `start`."""

    def __init__(self, engine: EngineProcess) -> None:
        self.engine = engine
        self.counters: dict[str, dict[str, float]] = {}
        """Counters of its ports by name, since the guest's boot, as of the last second."""
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, engine: EngineProcess) -> GuestPorts:
        """Start the engine, which was configured before, and listen for the guest. Ends the engine
        after an error.
        """
        try:
            await engine.ready()
            await engine.start(clock.now_ns())
        except BaseException:
            await engine.close()
            raise
        return cls(engine)

    async def _read(self) -> None:
        try:
            async for event in self.engine.events():
                if isinstance(event, contract.Sample):
                    self.counters = {
                        entity.removeprefix("interface/guest-"): dict(values)
                        for entity, values in event.counters.items()
                        if entity.startswith("interface/guest-")
                    }
        except HakaruError:
            # `running` reports an engine that was lost.
            return

    @property
    def running(self) -> bool:
        """Whether the engine still runs."""
        return self.engine.running

    async def close(self) -> None:
        """End the engine. Safe to call twice."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self.engine.close()
