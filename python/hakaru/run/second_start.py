"""The second start of loads that prepare for different times before they begin.

    start ── build the trees ── phase `built` ─┐
    start ── build the trees ─────── `built` ──┴ caches are emptied ── second start, at one instant

A load that waits for it says so in its configuration, and reports the phase `built`. All loads of a
repetition wait, or none does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hakaru.engine.process import gang_start
from hakaru.engine.session import EngineSession


class SecondStart:
    """The loads of a repetition, until all of them wait.

    `prepare` is awaited once they do, and before they begin.
    """

    def __init__(self, loads: Sequence[EngineSession], prepare: Callable[[], Awaitable[None]]) -> None:
        self._loads = loads
        self._prepare = prepare
        self._waiting: set[str] = set()

    async def add(self, load: EngineSession) -> None:
        """Note that a load waits. The last one starts all of them.

        Raises LateStartError if this machine was too busy to start them together, and errors of
        `prepare`.
        """
        self._waiting.add(load.name)
        if len(self._waiting) == len(self._loads):
            await self._prepare()
            await gang_start(self._loads)
