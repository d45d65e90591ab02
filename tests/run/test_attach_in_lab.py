"""Views of real runs: what they show, and that the run does not notice them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hakaru import unix_socket
from hakaru.run.publisher import SOCKET

from tests.run.conftest import Hakaru, until

WAIT_S = 120.0


def until_true(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds; fail after two minutes."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_stopped(process: subprocess.Popen[str]) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_run_does_not_notice_readers_that_are_killed_stopped_or_interrupted(hakaru: Hakaru, study: Path) -> None:
    run = hakaru.start("run", str(study), "--json", "--report", "none")
    until(run, "run_started")
    killed, stopped, interrupted, healthy = (hakaru.start("attach", "--json") for _ in range(4))
    for reader in (killed, stopped, interrupted):
        until(reader, "repetition_started")
    # A pipe that no process reads would stop the run, and make a healthy reader a slow one.
    # `communicate` would lose what `until` has read ahead.
    read = ThreadPoolExecutor()
    assert run.stdout is not None
    run_output = read.submit(run.stdout.read)
    healthy_output = read.submit(healthy.communicate, timeout=WAIT_S)
    killed.kill()
    stopped.send_signal(signal.SIGSTOP)
    until_true(lambda: is_stopped(stopped))
    interrupted.send_signal(signal.SIGINT)
    assert interrupted.wait(WAIT_S) == 130
    assert killed.wait(WAIT_S) == -signal.SIGKILL
    lines = run_output.result(WAIT_S)
    assert run.wait(WAIT_S) in (0, 5)  # a point may be invalid on a busy machine
    assert is_stopped(stopped)
    stopped.kill()
    stopped.communicate()
    # A reader gets the events that the run prints, from the first one on.
    seen = [json.loads(line) for line in healthy_output.result()[0].splitlines()]
    assert healthy.returncode == 0
    assert [e["event"] for e in seen[:2]] == ["joined", "run_started"]
    printed = [json.loads(line) for line in lines.splitlines()]
    lasting = [event for event in printed if event["event"] != "sample"]
    assert [event for event in seen if event["event"] != "sample"][-len(lasting) :] == lasting
    samples = [event for event in seen if event["event"] == "sample"]
    assert samples and {"iops", "text", "queues"} <= samples[0].keys()
    assert "in_flight" in samples[-1]["queues"]
    assert not (hakaru.only_run() / SOCKET).exists()


def test_attach_to_a_pipe_prints_plain_lines_and_reports_a_killed_run(hakaru: Hakaru, study: Path) -> None:
    run = hakaru.start("run", str(study), "--json", "--report", "none")
    until(run, "run_started")
    view = hakaru.start("attach")
    assert view.stdout is not None
    first = [view.stdout.readline()]
    while not first[-1].startswith("  result: "):
        first.append(view.stdout.readline())
        assert first[-1], "the view ended before the first result"
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    rest, errors = view.communicate(timeout=WAIT_S)
    assert errors == ""
    assert view.returncode == 7
    assert first[0].startswith("run small-")
    assert rest.splitlines()[-1] == "the process of the run was killed"
    # Its socket stays, and refuses connections.
    directory = hakaru.only_run()
    with pytest.raises(ConnectionRefusedError):
        unix_socket.connect(directory, SOCKET)
    again = hakaru.ask("attach", directory.name.removesuffix(".partial"))
    assert again.returncode == 2
    assert "is not in progress: killed" in again.stderr
    assert f"--resume {directory.name.removesuffix('.partial')}" in again.stderr
    none = hakaru.ask("attach")
    assert none.returncode == 2 and "no run is in progress" in none.stderr
    # A resumed run replaces the socket.
    resumed = hakaru.run("run", str(study), "--resume", "latest", "--report", "none", "--quiet")
    assert resumed.returncode in (0, 5), resumed.stderr
    assert not (hakaru.only_run() / SOCKET).exists()
