"""Signals that end a run: one that arrives twice counts once, another one ends the run at once."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from hakaru.errors import Interrupted
from hakaru.run import runner


async def interrupted_twice(cleanups: list[str]) -> Path:
    """Get the same signal again during the end."""
    handled = asyncio.Event()
    try:
        os.kill(os.getpid(), signal.SIGINT)
        await handled.wait()
    except asyncio.CancelledError:
        os.kill(os.getpid(), signal.SIGINT)
        # The handler of a signal runs in the loop, before what is scheduled later.
        for _ in range(10):
            await asyncio.sleep(0.001)
        cleanups.append("complete")
        raise
    return Path()


def test_signal_that_arrives_twice_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "SAME_SIGNAL_S", 3600.0)
    cleanups: list[str] = []
    with pytest.raises(Interrupted) as e:
        asyncio.run(runner._interruptible(interrupted_twice(cleanups)))
    assert e.value.exit_code == 128 + signal.SIGINT
    assert cleanups == ["complete"]


def test_second_signal_ends_the_process_without_cleaning_up(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(runner, "SAME_SIGNAL_S", 0.0)
    monkeypatch.setattr(runner.os, "_exit", codes.append)
    with pytest.raises(Interrupted):
        asyncio.run(runner._interruptible(interrupted_twice([])))
    assert codes == [128 + signal.SIGINT]
