"""The events of a run in progress, read from the socket in its directory.

    live_runs(folder)      the runs of a folder that are in progress, the newest last
    find_live(name, …)     the run that a user names
    events(run)            its events, from the first one on, until the run has ended

A run whose process was killed leaves a socket that refuses connections. A reader that was dropped
because it was too slow connects again; the event `joined` says that the events start over.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakaru import unix_socket
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.run.publisher import REFUSED, SOCKET
from hakaru.store import FORMAT, find_run, stored_runs
from hakaru.store.directory import PARTIAL, described, run_directories

Event = dict[str, Any]

LINE_MAX_BYTES = 64 << 20
CONNECT_S = 5.0
CLOSED = "closed"
"""Event of a reader: the connection ended before the event `done`. `status` is that of run.json; of
a run whose process was killed, it is `running`.
"""
OTHERS_RUN = "only the user who started a run may watch it"
JOINED = "joined"
"""Event of a reader: the events that follow start with the first one of the run."""


@dataclass(frozen=True)
class LiveRun:
    """A run in progress. Its directory is renamed when its last repetition has ended."""

    folder: Path
    name: str

    @property
    def directory(self) -> Path:
        """Where its files are now."""
        partial = self.folder / f"{self.name}{PARTIAL}"
        return partial if partial.is_dir() else self.folder / self.name

    def connect(self) -> socket.socket:
        """Connect to its socket. Raises OSError if it is not in progress."""
        try:
            return unix_socket.connect(self.directory, SOCKET, CONNECT_S)
        except FileNotFoundError:
            # The directory may have been renamed between the two steps.
            return unix_socket.connect(self.directory, SOCKET, CONNECT_S)

    def is_live(self) -> bool:
        """Whether its process publishes events now."""
        return self.why_unreachable() is None

    def why_unreachable(self) -> OSError | None:
        """Why its process cannot be reached; None if it can. PermissionError: another user's."""
        try:
            self.connect().close()
        except OSError as e:
            return e
        return None


def of_directory(directory: Path) -> LiveRun:
    """The run in `directory`, in progress or not."""
    return LiveRun(directory.parent, directory.name.removesuffix(PARTIAL))


def live_runs(folder: Path) -> list[LiveRun]:
    """The runs of `folder` that are in progress, the newest last."""
    return [run for run in _with_sockets(folder) if run.is_live()]


def _with_sockets(folder: Path) -> list[LiveRun]:
    """The runs of `folder` that have a socket, also one that a killed process has left."""
    with_socket = [(d, described(d)) for d in run_directories(folder) if _has_socket(d)]
    # The events of another format of runs may have other fields.
    runs = [
        (str(run.get("started", "")), d.name, of_directory(d)) for d, run in with_socket if run.get("format") == FORMAT
    ]
    return [run for _, _, run in sorted(runs, key=lambda each: each[:2])]


def _has_socket(directory: Path) -> bool:
    try:
        return (directory / SOCKET).is_socket()
    except OSError:
        return False  # it belongs to another user


def find_live(name: str | None, folder: Path) -> LiveRun:
    """The run in progress called `name`, or the newest one. Raises UsageError if there is none, or
    if it belongs to another user.
    """
    if name is None or name == "latest":
        runs = live_runs(folder)
        if not runs:
            running = {run.name for run in stored_runs(folder) if run.status == "running"}
            _refuse_others([run for run in _with_sockets(folder) if run.name in running and _is_closed(run)])
            raise UsageError(f"no run is in progress in {folder}", "`hakaru runs` lists the runs that have ended")
        return runs[-1]
    run = of_directory(find_run(name, folder))
    if _is_closed(run):
        _refuse_others([run])
    if not run.is_live():
        status = next((each.status for each in stored_runs(run.folder) if each.name == run.name), "ended")
        hint = f"`hakaru report {run.name}` writes its report"
        if status == "killed":
            hint = f"`hakaru run STUDY --resume {run.name}` or, for a tuning, `hakaru tune --resume` continues it"
        raise UsageError(f"{run.name} is not in progress: {status}", hint)
    return run


def _is_closed(run: LiveRun) -> bool:
    """Whether only another user may watch a run."""
    return isinstance(run.why_unreachable(), PermissionError)


def _refuse_others(runs: list[LiveRun]) -> None:
    """Raise UsageError if there are runs, which only another user may watch."""
    if runs:
        raise UsageError(f"no permission to watch {runs[-1].name}", OTHERS_RUN)


async def events(run: LiveRun) -> AsyncIterator[Event]:
    """Yield the events of a run until its end: the last one is `done` or `closed`. Raises
    EnvironmentError_ if it is not in progress, has too many readers, or belongs to another user.
    """
    try:
        connection = run.connect()
    except OSError as e:
        hint = OTHERS_RUN if isinstance(e, PermissionError) else "`hakaru runs` shows whether it has ended"
        raise EnvironmentError_(f"cannot watch {run.name}: {e.strerror or e}", hint) from e
    while True:
        yield {"event": JOINED, "run": run.name}
        dropped = False
        async for event in _lines(connection):
            if event["event"] == REFUSED:
                raise EnvironmentError_(f"cannot watch {run.name}: {event['reason']}", "end another view of it first")
            yield event
            dropped |= event["event"] == "dropped"
            if event["event"] == "done":
                return
        again = _connect_again(run) if dropped else None
        if again is None:
            yield {"event": CLOSED, "run": run.name, "status": described(run.directory).get("status")}
            return
        connection = again


def _connect_again(run: LiveRun) -> socket.socket | None:
    try:
        return run.connect()
    except OSError:
        return None


async def _lines(connection: socket.socket) -> AsyncIterator[Event]:
    connection.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=LINE_MAX_BYTES)
    try:
        while line := await reader.readline():
            if line.endswith(b"\n"):
                yield json.loads(line)
    except ConnectionError:
        return
    finally:
        writer.close()
