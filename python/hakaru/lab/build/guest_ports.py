"""The fabric behind the NICs of a guest that are ports in its memory (vhost-user).

It runs as long as the guest, across repetitions: QEMU connects to it when it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from hakaru.engine import clock
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError
from hakaru.lab.build.losses import losses_of_fabric
from hakaru.lab.plan.device import Device
from hakaru.lab.plan.device_guests import entrances


class GuestPorts:
    """A running fabric engine. Created by `start`."""

    def __init__(self, engine: EngineProcess, inputs: Collection[str]) -> None:
        self.engine = engine
        self._inputs = inputs
        self.counters: dict[str, dict[str, float]] = {}
        """Counters of its ports by name, since the guest's boot, as of the last `count_losses`."""
        self._reader = asyncio.create_task(self._discard_events())

    @classmethod
    async def start(cls, engine: EngineProcess, device: Device) -> GuestPorts:
        """Start the engine, which was configured before, and listen for the guests. Ends the engine
        after an error.
        """
        try:
            await engine.ready()
            await engine.start(clock.now_ns())
        except BaseException:
            await engine.close()
            raise
        return cls(engine, tuple(port.end.name for port in entrances(device)))

    async def _discard_events(self) -> None:
        # `count_losses` reports an engine that was lost.
        with contextlib.suppress(HakaruError):
            async for _ in self.engine.events():
                pass

    async def count_losses(self) -> dict[str, int]:
        """Frames that were lost between the cables and the guest so far, by place. Raises LostError
        if the engine has ended or does not respond.
        """
        counted = await self.engine.count()
        self.counters = {
            entity.removeprefix("interface/guest-"): values
            for entity, values in counted.items()
            if entity.startswith("interface/guest-")
        }
        return losses_of_fabric(counted, self._inputs)

    async def close(self) -> None:
        """End the engine. Safe to call twice."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self.engine.close()
