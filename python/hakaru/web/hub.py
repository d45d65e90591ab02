"""The newest run in progress of a folder, followed once for all readers.

A reader waits for a newer version of the state. It gets the newest one, not every one, so a slow
reader costs nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from hakaru.errors import EnvironmentError_
from hakaru.live.feed import LiveRun, live_runs
from hakaru.live.follow import follow
from hakaru.live.state import State
from hakaru.live.view import view

LOOK_S = 1.0
"""Time between two looks for a new run."""
AGAIN_S = 10.0
"""Time until the next look after an error, which is logged each time."""
LOG = logging.getLogger(__name__)


class Hub:
    """Follows runs of `folder` while `run` runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changed = asyncio.Condition()
        self._shown: dict[str, tuple[int, str]] = {}
        self.state: State | None = None
        """The newest run in progress, or the one that was in progress last; None before."""
        self.version = 0

    async def run(self) -> None:
        """Follow one run after the other, until cancelled."""
        while True:
            try:
                runs = await asyncio.to_thread(live_runs, self._folder)
                if runs:
                    await self._follow(runs[-1])
            except Exception:
                # The events of a run may be anything. The next run is followed all the same.
                LOG.exception("cannot follow the run in progress")
                await self._lose()
                await asyncio.sleep(AGAIN_S)
            await asyncio.sleep(LOOK_S)

    async def newer(self, version: int) -> int:
        """Wait for a version that is newer than `version`, and return it."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > version)
            return self.version

    def shown(self, language: str) -> str:
        """The state as JSON for a page; `null` before the first run."""
        version, text = self._shown.get(language, (-1, ""))
        if version != self.version:
            text = json.dumps(self.state and view(self.state, language), ensure_ascii=False, allow_nan=False)
            self._shown[language] = self.version, text
        return text

    async def _follow(self, run: LiveRun) -> None:
        try:
            async for self.state, _ in follow(run):
                await self._publish()
        except EnvironmentError_:
            return  # it has ended meanwhile, or has as many readers as it can have

    async def _lose(self) -> None:
        """Publish that the run is followed no longer, if one was."""
        if self.state is not None and not self.state.has_ended:
            self.state.apply({"event": "closed", "status": "interrupted"})
            await self._publish()

    async def _publish(self) -> None:
        async with self._changed:
            self.version += 1
            self._changed.notify_all()
