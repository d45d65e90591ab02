"""The command `hakaru attach`: a full-screen view on a terminal, plain lines elsewhere, events on
demand.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hakaru.extras import extra
from hakaru.live.feed import CLOSED, LiveRun, events
from hakaru.live.follow import step_back
from hakaru.live.lines import line_of
from hakaru.translation import shown

if TYPE_CHECKING:
    from hakaru.live.screen import RunScreen


def attach(run: LiveRun, *, json_lines: bool, plain: bool, language: str) -> int:
    """Watch a run until it ends or the user leaves. Returns the exit code: 0, and 7 if the process
    of the run was killed.
    """
    if json_lines or plain:
        with _interruptible():
            return asyncio.run(_print(run, json_lines=json_lines))
    screen = load_screen()(run, language)
    step_back()
    code = screen.run()
    if screen.error is not None:
        raise screen.error
    return code or 0


def load_screen() -> type[RunScreen]:
    """Return the full-screen view. Raises EnvironmentError_ without the extra `live`."""
    with extra("live"):
        from hakaru.live.screen import RunScreen
    return RunScreen


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a program at once, even while no process reads its stdout.

    asyncio only cancels its task, which a write that blocks never learns.
    """

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        # Python writes the rest of its buffer at exit, which would block again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    finally:
        signal.signal(signal.SIGINT, before)


async def _print(run: LiveRun, *, json_lines: bool) -> int:
    was_killed = False
    async for event in events(run):
        line = json.dumps(event, ensure_ascii=False) if json_lines else shown(line_of(event) or "") or None
        if line is not None:
            print(line, file=sys.stdout, flush=True)
        was_killed = event["event"] == CLOSED and event["status"] == "running"
    return 7 if was_killed else 0
