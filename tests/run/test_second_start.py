"""The second start of loads that build their trees first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.engine.process import LateStartError
from hakaru.errors import GuestError
from hakaru.run import repetition
from hakaru.run.gang import Messages
from hakaru.run.second_start import SecondStart


class Load:
    """A load that notes its start."""

    start_lead_ns = 10**9

    def __init__(self, name: str) -> None:
        self.name = name
        self.at_ns: int | None = None

    async def start(self, at_ns: int) -> None:
        self.at_ns = at_ns


def started(loads: list[Load], prepare: Any) -> None:
    second = SecondStart(loads, prepare)  # type: ignore[arg-type]

    async def add_all() -> None:
        for load in loads:
            assert loads[0].at_ns is None, "none begins before all of them wait"
            await second.add(load)  # type: ignore[arg-type]

    asyncio.run(add_all())


def test_loads_begin_together_after_the_preparation() -> None:
    loads, prepared = [Load("a"), Load("b")], []

    async def prepare() -> None:
        assert [load.at_ns for load in loads] == [None, None]
        prepared.append(True)

    started(loads, prepare)
    assert prepared and loads[0].at_ns == loads[1].at_ns is not None


def test_failure_of_the_preparation_is_not_a_late_start() -> None:
    """A late start is tried again, and ends the run. A guest that fails costs one point."""

    async def prepare() -> None:
        raise GuestError("the guest is full", "use a larger one")

    with pytest.raises(GuestError, match="the guest is full") as failed:
        started([Load("a")], prepare)
    assert not isinstance(failed.value, LateStartError)


def test_repetition_reports_the_failure_as_it_is() -> None:
    class Engine:
        async def events(self) -> AsyncIterator[Any]:
            yield contract.Phase(phase="built", at_ns=1)

    async def add(_: Any) -> None:
        raise GuestError("the guest is full", "use a larger one")

    engine: Any = Engine()
    load: Any = SimpleNamespace(second=SimpleNamespace(add=add), warm_up=None)
    with pytest.raises(GuestError):
        asyncio.run(repetition._listen(engine, Messages(), None, load))  # type: ignore[arg-type]


def test_busy_machine_is_a_late_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare() -> None:
        monkeypatch.setattr("hakaru.engine.clock.gang_start_ns", lambda _: 1)

    with pytest.raises(LateStartError, match="too late"):
        started([Load("a")], prepare)
