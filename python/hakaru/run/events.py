"""Events of a repetition: changes of the lab, of an array or of a file server's disk at set times
of its measuring phase.

A kind whose load has events returns them from `RunKind.events`. `Events` carries them out and
records when that was, by the clock of the engines. Nothing on a data path is timed here.

Links of the kernel are mended at the end of a repetition, in whatever way it ends. Arrays and
fabrics are started anew for every repetition, so their changes end with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hakaru.caveats import Caveat
from hakaru.engine import clock, contract
from hakaru.engine.session import EngineSession


@dataclass(frozen=True)
class LinkChange:
    """A link or trunk of the lab is cut or mended."""

    link: str
    up: bool


@dataclass(frozen=True)
class ArrayChange:
    """The array on a node carries out a management request."""

    node: str
    action: contract.ManageAction


@dataclass(frozen=True)
class DiskChange:
    """The virtual disk of the file server in a node's guest becomes larger, with all layers below
    and above it.
    """

    node: str
    disk_bytes: int
    """New size of the virtual disk."""
    lu_bytes: int
    """New size of the LU below it."""


Change = LinkChange | ArrayChange | DiskChange


@dataclass(frozen=True)
class TimedEvent:
    """One event."""

    at_ns: int
    """Time from the beginning of the measuring phase."""
    name: str
    """Its name in the study, for example `link_down`."""
    object: str
    """The thing that changes: name of the link, or number of the portal."""
    change: Change


class Disks(Protocol):
    """The disks of file servers in guests. Only a lab has any."""

    async def extend(self, node: str, disk_bytes: int, lu_bytes: int) -> dict[str, Any]:
        """Carry out a `DiskChange`, and return its record. Raises DeviceError if a layer fails,
        LostError if the array does.
        """
        ...


class Link(Protocol):
    """A link of the kernel that can be cut. Only a lab has any."""

    async def set(self, up: bool) -> None:
        """Cut the link, or mend it. Raises EnvironmentError_ if the kernel refuses."""
        ...

    async def restore(self) -> None:
        """Mend the link, and wait until it carries frames. Raises EnvironmentError_."""
        ...


class Events:
    """The events of one repetition, whose measuring phase begins when all `loads` loads measure.

    `links`: those of the kernel, by name. If there is a fabric, it cuts the links instead. `disks`:
    needed for events that change one. Call `play` in a task, `handle_measure` for each load, `end`
    once the loads have ended, and `restore` after the task has ended.
    """

    def __init__(
        self,
        events: Sequence[TimedEvent],
        links: Mapping[str, Link],
        arrays: Sequence[EngineSession],
        fabrics: Sequence[EngineSession],
        loads: int,
        disks: Disks | None = None,
    ) -> None:
        self._planned = sorted(events, key=lambda event: event.at_ns)
        self._links = links
        self._arrays = {array.node: array for array in arrays}
        self._fabrics = fabrics
        self._loads = loads
        self._disks = disks
        self._ended = False
        self._measure_ns: list[int] = []
        self._began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._change: asyncio.Future[dict[str, Any]] | None = None
        self._cut: set[str] = set()
        self._carried_out: list[dict[str, Any]] = []

    def handle_measure(self, at_ns: int) -> None:
        """Learn that a load began to measure."""
        self._measure_ns.append(at_ns)
        if len(self._measure_ns) == self._loads and not self._began.done():
            self._began.set_result(max(self._measure_ns))

    async def play(self) -> None:
        """Carry out the events in order until `end`. Raises EnvironmentError_ if the lab refuses a
        change, the error of an array that does, DeviceError if a guest fails, and LostError if an
        array does not answer.
        """
        for event in self._planned:
            due_ns = await self._began + event.at_ns
            await asyncio.sleep(max(0, due_ns - clock.now_ns()) / 1e9)
            if self._ended:
                return
            begun_ns = clock.now_ns()
            # A change that has begun is completed even if this task is cancelled, so that `restore`
            # comes after it.
            self._change = asyncio.ensure_future(self._carry_out(event.change))
            record = await asyncio.shield(self._change)
            self._carried_out.append(
                {
                    "event": event.name,
                    "object": event.object,
                    "due_ns": due_ns,
                    "begun_ns": begun_ns,
                    "done_ns": clock.now_ns(),
                    **record,
                }
            )

    async def _carry_out(self, change: Change) -> dict[str, Any]:
        """Carry out a change; return its own record, besides the instants."""
        match change:
            case LinkChange(link, up) if self._fabrics:
                await self._fabrics[0].set_link(link, up=up)
            case LinkChange(link, up):
                if not up:
                    self._cut.add(link)
                await self._links[link].set(up)
            case ArrayChange(node, action):
                await self._arrays[node].manage(action)
            case DiskChange(node, disk_bytes, lu_bytes):
                assert self._disks is not None, f"{node} has no disk"
                return await self._disks.extend(node, disk_bytes, lu_bytes)
        return {}

    async def end(self) -> None:
        """Begin no further event, and wait for one that has begun: layers of a chain are examined
        next. Raises its error.
        """
        self._ended = True
        if self._change is not None:
            await asyncio.shield(self._change)

    async def restore(self) -> None:
        """Mend every link that was cut, and wait until it carries frames. Raises EnvironmentError_
        if the lab refuses.
        """
        if self._change is not None:
            await asyncio.wait([self._change])
            if not self._change.cancelled():
                # Retrieved: `play` has raised it, unless its task was cancelled.
                self._change.exception()
        for link in sorted(self._cut):
            await self._links[link].restore()
        self._cut.clear()

    def describe(self) -> list[dict[str, Any]]:
        """The events that were carried out, in order: `event`, `object`, and the instants at which
        it was due, begun and done, ns of CLOCK_MONOTONIC. Changes of disks have a record besides.
        """
        return self._carried_out

    def caveats(self, interval_ns: int) -> Iterator[Caveat]:
        """The caveat of the event that was carried out latest, if that is later than a sample
        interval, or of the first one that was not carried out before the load ended.
        """
        if len(self._carried_out) < len(self._planned):
            event = self._planned[len(self._carried_out)]
            yield Caveat("event_missed", {"event": event.name, "object": event.object})
        late = max(self._carried_out, key=_late_ns, default=None)
        if late is not None and _late_ns(late) > interval_ns:
            values = {"event": late["event"], "object": late["object"]}
            yield Caveat("event_late", values | {"late_ms": _late_ns(late) / 1e6, "interval_ms": interval_ns / 1e6})


def _late_ns(event: dict[str, Any]) -> int:
    return int(event["begun_ns"]) - int(event["due_ns"])
