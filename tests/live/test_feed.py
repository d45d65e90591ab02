"""Runs that can be watched."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.live.feed import LiveRun, events, find_live
from hakaru.run.publisher import READERS_MAX
from hakaru.store import RunWriter

from tests.live.conftest import ScriptedRun

NOBODY = 65534


def test_a_run_that_has_ended_is_not_in_progress(invented_run: Path) -> None:
    with pytest.raises(UsageError, match="is not in progress: done"):
        find_live(invented_run.name, invented_run.parent)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize("name", [True, False], ids=["by name", "the newest"])
def test_a_run_of_another_user_is_told_from_one_that_has_ended(scripted: ScriptedRun, name: bool) -> None:
    folder = scripted.directory.parent
    for each in [folder, *folder.parents][:4]:
        each.chmod(0o755)
    looking = "import os, sys; from pathlib import Path; from hakaru.live.feed import find_live; "
    looking += f"os.chdir(sys.argv[1]); os.setuid({NOBODY}); find_live(sys.argv[2] or None, Path())"
    writer = RunWriter(scripted.directory)  # locks the run, as its process does
    run = scripted.run.name
    command = [sys.executable, "-c", looking, str(folder), run if name else ""]
    looked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert f"no permission to watch {run}" in looked.stderr
    # A run that has ended may have left its socket.
    writer.close()
    scripted.set_status("done")
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (f"no permission to watch {run}" if name else "no run is in progress") in ended.stderr


def test_a_reader_too_many_learns_the_reason(scripted: ScriptedRun) -> None:
    async def read(run: LiveRun) -> list[str]:
        return [event["event"] async for event in events(run)]

    connections = [scripted.run.connect() for _ in range(READERS_MAX)]
    with pytest.raises(EnvironmentError_, match="32 readers watch the run already"):
        asyncio.run(read(scripted.run))
    for connection in connections:
        connection.close()
