"""The view of `run --live` at a terminal: what remains of it when it is stopped or killed."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from hakaru.lab.sandbox import supervisor
from hakaru.left_terminal import LEAVE

from tests.live.conftest import ScriptedRun

ROOT = Path(__file__).parents[2]
WAIT_S = 120.0
RUN = """
import os, signal, sys, termios, time
from pathlib import Path
from hakaru.live.beside import Beside
beside = Beside("en")
beside.opened(Path(sys.argv[1]))
while termios.tcgetattr(0)[3] & termios.ICANON:
    time.sleep(0.01)
os.kill(beside._view.pid, int(sys.argv[2]))
beside.close()
assert beside._view.poll() is not None
"""
RAW = "import os, signal, tty; tty.setraw(0); os.kill(os.getpid(), signal.SIGKILL)"


def at_a_terminal(command: list[str]) -> tuple[int, str, bool]:
    """Exit code, output, and whether the terminal reads lines afterwards as it did before."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TERM": "xterm-256color"}
    output, deadline = b"", time.monotonic() + WAIT_S
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    ) as process:
        while process.poll() is None or select.select([master], [], [], 0)[0]:
            assert time.monotonic() < deadline
            if select.select([master], [], [], 0.1)[0]:
                output += os.read(master, 1 << 16)
    after = termios.tcgetattr(slave)
    os.close(master)
    os.close(slave)
    return process.returncode, output.decode(errors="replace"), after == before


@pytest.mark.parametrize("signal", ["9", "19"], ids=["killed", "stopped"])
def test_the_terminal_is_restored_when_the_view_cannot(scripted: ScriptedRun, signal: str) -> None:
    code, output, is_restored = at_a_terminal([sys.executable, "-c", RUN, str(scripted.directory), signal])
    assert code == 0, output
    assert is_restored and LEAVE in output


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_supervisor_restores_the_terminal_of_a_run_that_was_killed() -> None:
    command = [sys.executable, "-I", "-S", supervisor.__file__, "root", sys.executable, "-c", RAW]
    code, output, is_restored = at_a_terminal(command)
    assert code == 137, output
    assert is_restored and LEAVE in output
