"""`events:` of a study of files on a chain: its pool grows while the files are used. Pure.

    load:
      to: {chain: {…}}
      events:
        - {at: 10 s, grow_pool: {size: 512 MiB}}     # a RAID group is added to the pool

`at` counts from the beginning of the measuring phase. With several file servers, the pool of each
one grows, one after the other. Every repetition begins with the pool of `lu.pool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from hakaru.engine import contract
from hakaru.kinds.files.chain import GROUP, POOL, ChainPart
from hakaru.run.events import ArrayChange, TimedEvent
from hakaru.study.part import SECOND_NS, Part
from hakaru.study.storage import PoolGroup
from hakaru.units import Duration, format_duration, format_size

EVENTS_MAX = 15
GROW = "grow_pool"
"""Name of the growth of a pool, as a run records it."""


class PoolEvent(Part):
    """One event: its time, and the growth of the pool."""

    at: Duration = Field(ge=0, le=86_400 * SECOND_NS, description="time from the beginning of the measuring phase")
    grow_pool: PoolGroup = Field(description="RAID group that is added to the pool of each file server")


Found = tuple[tuple[str | int, ...], str, str]
"""Place below `load`, message and hint."""


def grown_bytes(events: Sequence[PoolEvent]) -> int:
    """Space that the events add to a pool."""
    return sum(event.grow_pool.size for event in events)


def problems(events: Sequence[PoolEvent], chain: ChainPart | None) -> Iterator[Found]:
    """Problems of the events of a point with this chain."""
    if not events:
        return
    if chain is None:
        message = "the load has events, and its files are not on a chain, which has a pool"
        yield ("events",), message, "use `to: {chain: {…}}`, or leave `events` out"
        return
    for i, event in enumerate(events):
        if event.grow_pool.size < 2 * chain.lu.page:
            size, page = format_size(event.grow_pool.size), format_size(chain.lu.page)
            message = f"a group of {size} has no page for data: its first page, of {page}, is the header's"
            yield ("events", i, GROW, "size"), message, f"use at least {format_size(2 * chain.lu.page)}"
    if chain.lu.model.kind != "none":
        yield from _place_problems(events, chain)


def late(events: Sequence[PoolEvent], measured_ns: int | None) -> Iterator[Found]:
    """Problems of events that are not within a measuring phase of this length, if that is known."""
    for i, event in enumerate(events):
        if measured_ns is not None and event.at >= measured_ns:
            message = f"{format_duration(event.at)} is not within the measuring phase of {format_duration(measured_ns)}"
            hint = "`at` counts from the beginning of the measuring phase; make it shorter, or `time` longer"
            yield ("events", i, "at"), message, hint


def _place_problems(events: Sequence[PoolEvent], chain: ChainPart) -> Iterator[Found]:
    """Check that each group has a place of its own on the modelled drives. Their capacity is known
    to the array alone, which refuses a group that ends beyond it.
    """
    model = chain.lu.model
    groups = len(model.groups) if model.kind == "array" else None
    taken = [(0, 0, chain.lu.pool)]
    for i, event in enumerate(events):
        added, place = event.grow_pool, ("events", i, GROW)
        if added.placement is None:
            message = "the model has drives, and the new group has no place on them"
            behind = format_size(max(end for group, _, end in taken if group == 0))
            yield place, message, f"add `placement: {{group: 0, offset: {behind}}}`"
            continue
        group, begin = added.placement.group, added.placement.offset
        if groups is not None and group >= groups:
            message = f"the model has no RAID group {group}"
            yield (*place, "placement", "group"), message, f"its groups are numbered from 0 to {groups - 1}"
        elif ends := [to for of, start, to in taken if of == group and begin < to and start < begin + added.size]:
            message = f"the new group begins at {format_size(begin)}, where another group of the pool is"
            yield (*place, "placement", "offset"), message, f"use at least {format_size(max(ends))}"
        taken.append((group, begin, begin + added.size))


def timed(events: Sequence[PoolEvent], arrays: Sequence[str]) -> list[TimedEvent]:
    """The events as a run carries them out, on the arrays of these nodes."""
    return [
        TimedEvent(event.at, GROW, array, ArrayChange(array, contract.GrowAction(pool=POOL, group=_group(i, event))))
        for i, event in enumerate(events)
        for array in arrays
    ]


def _group(number: int, event: PoolEvent) -> contract.GroupConfig:
    """The group that an event adds, in the format of the engine."""
    added = event.grow_pool
    placement = None
    if added.placement is not None:
        placement = contract.Placement(group=added.placement.group, offset_bytes=added.placement.offset)
    return contract.GroupConfig(name=f"{GROUP}-{number + 2}", size_bytes=added.size, placement=placement)
