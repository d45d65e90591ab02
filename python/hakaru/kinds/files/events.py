"""`events:` of a study of files on a chain: its pool and its disk grow while the files are used.
Pure.

    load:
      to: {chain: {…}}
      events:
        - {at: 10 s, grow_pool: {size: 512 MiB}}     # a RAID group is added to the pool
        - {at: 20 s, extend_disk: {size: 1 GiB}}     # LU, virtual disk and both file systems grow

`at` counts from the beginning of the measuring phase. With several file servers, the pool or disk
of each one grows, one after the other. Every repetition begins with the pool of `lu.pool` and the
disk of `disk.size`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from hakaru.engine import contract
from hakaru.fileserver.chain_spec import ChainPlan
from hakaru.fileserver.virtual_disk import FORMATS
from hakaru.kinds.files.chain import GROUP, POOL, ChainPart, size_problems
from hakaru.run.events import ArrayChange, DiskChange, TimedEvent
from hakaru.study.part import SECOND_NS, Part
from hakaru.study.storage import PoolGroup
from hakaru.units import Duration, Size, format_duration, format_size

EVENTS_MAX = 15
GROW = "grow_pool"
"""Name of the growth of a pool, as a run records it."""
EXTEND = "extend_disk"
"""The same of the extension of a disk."""
NAMES = (GROW, EXTEND)
_BLOCK_BYTES = 512


class DiskExtension(Part):
    """The size of a virtual disk that is extended."""

    size: Size = Field(le=1 << 46, description="new size of the virtual disk; its LU grows by as many bytes")


class ChainEvent(Part):
    """One event: its time, and one change."""

    at: Duration = Field(ge=0, le=86_400 * SECOND_NS, description="time from the beginning of the measuring phase")
    grow_pool: PoolGroup | None = Field(
        default=None, description="RAID group that is added to the pool of each file server"
    )
    extend_disk: DiskExtension | None = Field(
        default=None,
        description="extension of the virtual disk of each file server, of its LU and of the file systems on both",
    )


Found = tuple[tuple[str | int, ...], str, str]
"""Place below `load`, message and hint."""


def grown_bytes(events: Sequence[ChainEvent]) -> int:
    """Space that the events add to a pool."""
    return sum(event.grow_pool.size for event in events if event.grow_pool is not None)


def disk_sizes(events: Sequence[ChainEvent]) -> list[int]:
    """Sizes to which the events extend a disk, in the order of their times."""
    ordered = sorted(events, key=lambda event: event.at)
    return [event.extend_disk.size for event in ordered if event.extend_disk is not None]


def grows(events: Sequence[ChainEvent]) -> bool:
    """Whether a pool grows."""
    return any(event.grow_pool is not None for event in events)


def problems(events: Sequence[ChainEvent], chain: ChainPart | None) -> Iterator[Found]:
    """Problems of the events of a point with this chain."""
    if not events:
        return
    if chain is None:
        message = "the load has events, and its files are not on a chain, which has a pool and a disk"
        yield ("events",), message, "use `to: {chain: {…}}`, or leave `events` out"
        return
    for i, event in enumerate(events):
        if (event.grow_pool is None) == (event.extend_disk is None):
            given = "none" if event.grow_pool is None else ", ".join(NAMES)
            hint = f"give one of {', '.join(f'`{name}`' for name in NAMES)} in each event"
            yield ("events", i), f"an event is one change, and this one has {given}", hint
        elif event.grow_pool is not None and event.grow_pool.size < 2 * chain.lu.page:
            size, page = format_size(event.grow_pool.size), format_size(chain.lu.page)
            message = f"a group of {size} has no page for data: its first page, of {page}, is the header's"
            yield ("events", i, GROW, "size"), message, f"use at least {format_size(2 * chain.lu.page)}"
    if chain.lu.model.kind != "none":
        yield from _place_problems(events, chain)
    yield from _disk_problems(events, chain)


def late(events: Sequence[ChainEvent], measured_ns: int | None) -> Iterator[Found]:
    """Problems of events that are not within a measuring phase of this length, if that is known."""
    for i, event in enumerate(events):
        if measured_ns is not None and event.at >= measured_ns:
            message = f"{format_duration(event.at)} is not within the measuring phase of {format_duration(measured_ns)}"
            hint = "`at` counts from the beginning of the measuring phase; make it shorter, or `time` longer"
            yield ("events", i, "at"), message, hint


def _place_problems(events: Sequence[ChainEvent], chain: ChainPart) -> Iterator[Found]:
    """Check that each group has a place of its own on the modelled drives. Their capacity is known
    to the array alone, which refuses a group that ends beyond it.
    """
    model = chain.lu.model
    groups = len(model.groups) if model.kind == "array" else None
    taken = [(0, 0, chain.lu.pool)]
    for i, event in enumerate(events):
        added, place = event.grow_pool, ("events", i, GROW)
        if added is None:
            continue
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


def _disk_problems(events: Sequence[ChainEvent], chain: ChainPart) -> Iterator[Found]:
    """Check that each disk can be extended, becomes larger, and fits on its LU and in its pool."""
    size, pool = chain.disk.size, chain.lu.pool
    # Stable, as the order in which a run carries them out.
    for i, event in sorted(enumerate(events), key=lambda each: each[1].at):
        pool += 0 if event.grow_pool is None else event.grow_pool.size
        if event.extend_disk is None:
            continue
        wanted, place = event.extend_disk.size, ("events", i, EXTEND, "size")
        if not FORMATS[chain.disk.format].can_grow:
            message = f"QEMU cannot make a disk of the format {chain.disk.format} larger"
            yield place[:-1], message, "use `format: raw` or `format: qcow2`, or leave the event out"
        elif wanted % _BLOCK_BYTES:
            yield place, f"{wanted} bytes are not whole blocks", "use a multiple of 512 bytes"
        elif wanted <= size:
            message = f"the disk has {format_size(size)} before the event, and {format_size(wanted)} is not larger"
            yield place, message, "a disk cannot shrink; use a larger size, or another order of the events"
        else:
            disk = chain.disk.model_copy(update={"size": wanted})
            lu = chain.lu.model_copy(update={"size": lu_bytes(chain, wanted), "pool": pool})
            larger = chain.model_copy(update={"disk": disk, "lu": lu})
            yield from ((place, message, hint) for _, message, hint in size_problems((), larger, 0))
            size = wanted


def lu_bytes(chain: ChainPart, disk_bytes: int) -> int:
    """Size of the LU below a disk that was extended to `disk_bytes`."""
    return chain.lu.size + disk_bytes - chain.disk.size


def timed(events: Sequence[ChainEvent], chain: ChainPart, plans: Sequence[ChainPlan]) -> list[TimedEvent]:
    """The events as a run carries them out, on the chains with these plans."""
    return [_timed(i, event, chain, plan) for i, event in enumerate(events) for plan in plans]


def _timed(number: int, event: ChainEvent, chain: ChainPart, plan: ChainPlan) -> TimedEvent:
    if event.grow_pool is not None:
        action = contract.GrowAction(pool=POOL, group=_group(number, event.grow_pool))
        return TimedEvent(event.at, GROW, plan.array, ArrayChange(plan.array, action))
    assert event.extend_disk is not None
    size = event.extend_disk.size
    return TimedEvent(event.at, EXTEND, plan.node, DiskChange(plan.node, size, lu_bytes(chain, size)))


def _group(number: int, added: PoolGroup) -> contract.GroupConfig:
    """The group that an event adds, in the format of the engine."""
    placement = None
    if added.placement is not None:
        placement = contract.Placement(group=added.placement.group, offset_bytes=added.placement.offset)
    return contract.GroupConfig(name=f"{GROUP}-{number + 2}", size_bytes=added.size, placement=placement)
