"""Events of a repetition: their instants, and the links that are mended at its end, whatever
happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hakaru.engine import clock
from hakaru.errors import EnvironmentError_
from hakaru.run.events import DiskChange, Events, LinkChange, TimedEvent

MS = 1_000_000
DOWN, UP = LinkChange("array.0", up=False), LinkChange("array.0", up=True)


class Links:
    """Links that record what was done to them."""

    def __init__(self, refuse: bool = False) -> None:
        self.done: list[tuple[str, bool]] = []
        self.entered = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.refuse = refuse

    async def change(self, name: str, up: bool) -> None:
        self.entered.set()
        await self.go_on.wait()
        self.done.append((name, up))
        if self.refuse and not up:
            raise EnvironmentError_("refused", "")


@dataclass
class OneLink:
    """One of them."""

    links: Links
    name: str

    async def set(self, up: bool) -> None:
        await self.links.change(self.name, up)

    async def restore(self) -> None:
        await self.set(True)


def events_of(links: Links, *changes: tuple[int, LinkChange], loads: int = 1) -> Events:
    planned = [TimedEvent(at_ns, "link", change.link, change) for at_ns, change in changes]
    return Events(planned, {change.link: OneLink(links, change.link) for _, change in changes}, [], [], loads)


def names(events: Events) -> list[str]:
    return [caveat.name for caveat in events.caveats(100 * MS)]


def test_events_are_carried_out_in_order_after_the_last_load_has_begun_to_measure() -> None:
    async def scenario() -> None:
        links = Links()
        events = events_of(links, (20 * MS, UP), (0, DOWN), loads=2)
        task = asyncio.create_task(events.play())
        start = clock.now_ns()
        events.handle_measure(start - 50 * MS)
        await asyncio.sleep(0)
        assert links.done == []
        events.handle_measure(start)
        await task
        assert links.done == [("array.0", False), ("array.0", True)]
        described = events.describe()
        assert [event["due_ns"] - start for event in described] == [0, 20 * MS]
        for event in described:
            assert event["due_ns"] <= event["begun_ns"] <= event["done_ns"]
        assert "event_missed" not in names(events)
        await events.restore()
        # It may not carry frames yet.
        assert links.done[2:] == [("array.0", True)]

    asyncio.run(scenario())


def test_lateness_is_that_of_the_latest_event() -> None:
    async def scenario() -> Sequence[str]:
        links = Links()
        events = events_of(links, (0, DOWN), (MS, UP))
        events.handle_measure(clock.now_ns() - 10**9)
        await events.play()
        (caveat,) = events.caveats(100 * MS)
        assert caveat.values["late_ms"] >= 990
        return names(events)

    assert asyncio.run(scenario()) == ["event_late"]


def test_link_that_is_down_at_the_end_is_mended_and_missed_events_are_named() -> None:
    async def scenario() -> None:
        links = Links()
        events = events_of(links, (0, DOWN), (3600 * 10**9, UP))
        task = asyncio.create_task(events.play())
        events.handle_measure(clock.now_ns())
        await links.entered.wait()
        while not links.done:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await events.restore()
        assert links.done == [("array.0", False), ("array.0", True)]
        assert "event_missed" in names(events)

    asyncio.run(scenario())


def test_link_is_mended_after_a_cut_that_was_under_way_when_the_repetition_ended() -> None:
    async def scenario() -> None:
        links = Links()
        links.go_on.clear()
        events = events_of(links, (0, DOWN))
        task = asyncio.create_task(events.play())
        events.handle_measure(clock.now_ns())
        await links.entered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        restoring = asyncio.create_task(events.restore())
        await asyncio.sleep(0)
        assert links.done == []
        links.go_on.set()
        await restoring
        assert links.done == [("array.0", False), ("array.0", True)]

    asyncio.run(scenario())


def test_link_is_mended_after_an_error() -> None:
    async def scenario() -> None:
        links = Links(refuse=True)
        events = events_of(links, (0, DOWN))
        events.handle_measure(clock.now_ns())
        with pytest.raises(EnvironmentError_):
            await events.play()
        await events.restore()
        assert links.done == [("array.0", False), ("array.0", True)]

    asyncio.run(scenario())


def test_loads_that_have_ended_wait_for_a_change_that_has_begun_and_for_no_other() -> None:
    async def scenario() -> None:
        links = Links()
        links.go_on.clear()
        events = events_of(links, (0, DOWN), (0, UP))
        task = asyncio.create_task(events.play())
        events.handle_measure(clock.now_ns())
        await links.entered.wait()
        ending = asyncio.create_task(events.end())
        await asyncio.sleep(0)
        assert not ending.done()
        links.go_on.set()
        await ending
        await task
        assert links.done == [("array.0", False)]
        assert len(events.describe()) == 1 and "event_missed" in names(events)

    asyncio.run(scenario())


def test_error_of_a_change_under_way_is_raised_when_the_loads_have_ended() -> None:
    async def scenario() -> None:
        links = Links(refuse=True)
        links.go_on.clear()
        events = events_of(links, (0, DOWN))
        task = asyncio.create_task(events.play())
        events.handle_measure(clock.now_ns())
        await links.entered.wait()
        links.go_on.set()
        with pytest.raises(EnvironmentError_):
            await events.end()
        await asyncio.gather(task, return_exceptions=True)
        await events.restore()

    asyncio.run(scenario())


class Disks:
    """Disks that record how they were extended."""

    async def extend(self, node: str, disk_bytes: int, lu_bytes: int) -> dict[str, Any]:
        return {"layers": {node: [disk_bytes, lu_bytes]}}


def test_change_of_a_disk_adds_its_record_to_the_event() -> None:
    async def scenario() -> None:
        planned = [TimedEvent(0, "extend_disk", "server", DiskChange("server", 96, 128))]
        events = Events(planned, {}, [], [], 1, Disks())
        events.handle_measure(clock.now_ns())
        await events.play()
        (event,) = events.describe()
        assert (event["object"], event["layers"]) == ("server", {"server": [96, 128]})

    asyncio.run(scenario())
