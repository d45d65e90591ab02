"""The state of a run in progress, kept up to date by its events and by the analyst."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator

from hakaru.errors import UsageError
from hakaru.live.feed import JOINED, Event, LiveRun, events
from hakaru.live.state import State
from hakaru.store import RunReader

ANSWER_MAX_BYTES = 64 << 20
NICE = 19
SO_FAR = "point_so_far"
"""Event of a reader: an answer of the analyst."""

Queue = asyncio.Queue[Event | BaseException | None]


def step_back() -> None:
    """Give this process the lowest share of the processors, because the engines of a run may need
    all of them. A view then draws later.
    """
    os.setpriority(os.PRIO_PROCESS, 0, NICE)


async def follow(run: LiveRun) -> AsyncIterator[tuple[State, Event]]:
    """Yield the state of a run after each event, and the event, until the run has ended and its
    points are analysed. Raises EnvironmentError_ if the run is not in progress.
    """
    queue: Queue = asyncio.Queue()
    state, has_ended = State(run.name), False
    async with contextlib.aclosing(_Analyst(run, queue)) as analyst:
        reader = asyncio.create_task(_read(run, queue))
        try:
            while not (has_ended and analyst.is_idle):
                item = await queue.get()
                if isinstance(item, BaseException):
                    raise item
                if item is None:
                    has_ended = True
                    continue
                if item["event"] == JOINED:
                    state = _of_files(run)
                    for point in state.points.values():
                        if point.ended:
                            await analyst.ask(point.id)
                elif item["event"] == SO_FAR:
                    await analyst.answered()
                    state.learn(item)
                else:
                    state.apply(item)
                    if item["event"] == "repetition":
                        await analyst.ask(str(item["point"]))
                yield state, item
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)


async def _read(run: LiveRun, queue: Queue) -> None:
    try:
        async for event in events(run):
            queue.put_nowait(event)
        queue.put_nowait(None)
    except Exception as error:
        queue.put_nowait(error)


def _of_files(run: LiveRun) -> State:
    """The state that the files of a run give. A run that has just begun has none of them."""
    try:
        reader = RunReader(run.directory)
        return State.of_files(run.name, reader.read("run.json"), reader.read("points.json"), reader.repetitions())
    except UsageError:
        return State(run.name)


class _Analyst:
    """The process of `hakaru.live.analyst`, which is started at the first question. It analyses one
    point at a time; of several questions about a point, those that wait count once.
    """

    def __init__(self, run: LiveRun, queue: Queue) -> None:
        self._run, self._queue = run, queue
        self._waiting: deque[str] = deque()
        self._asked: str | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._is_lost = False

    @property
    def is_idle(self) -> bool:
        """Whether no answer is due."""
        return self._is_lost or (self._asked is None and not self._waiting)

    async def ask(self, point: str) -> None:
        """Ask for the results of a point so far."""
        if point not in self._waiting:
            self._waiting.append(point)
        await self._next()

    async def answered(self) -> None:
        """The answer to a question has arrived; ask the next one."""
        self._asked = None
        await self._next()

    async def _next(self) -> None:
        if self._asked is not None or not self._waiting or self._is_lost:
            return
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hakaru.live.analyst", str(self._run.folder), self._run.name),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=ANSWER_MAX_BYTES,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,
            )
            self._listener = asyncio.create_task(self._listen(self._process))
        assert self._process.stdin is not None
        self._asked = self._waiting.popleft()
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(f"{self._asked}\n".encode())

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self._queue.put_nowait({"event": SO_FAR, **json.loads(line)})
        # The view continues without it.
        self._is_lost = True
        self._queue.put_nowait({"event": "analyst_lost"})

    async def aclose(self) -> None:
        """End the process."""
        if self._process is None or self._listener is None:
            return
        self._listener.cancel()
        await asyncio.gather(self._listener, return_exceptions=True)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
