"""`hakaru array serve` as a process, and commands that talk to it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hakaru.array.state import SOCKET
from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_

from tests.cli.command import run_here

ROOT = Path(__file__).resolve().parents[2]
TARGET_NAME = "iqn.2026-01.org.example:array"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
MEMORY = "lus:\n  - {lun: 0, size: 8 MiB, store: {kind: memory}}\n"


def array_file(folder: Path, rest: str = MEMORY, **fields: str) -> Path:
    """Write an array file to `folder`, with a free port of the loopback; `fields` and `rest` are
    YAML.
    """
    head = {"format": "1", "target_name": TARGET_NAME, "portals": '["127.0.0.1:0"]', **fields}
    path = folder / "array.yaml"
    path.write_text("".join(f"{name}: {value}\n" for name, value in head.items()) + rest)
    return path


def hakaru(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. One that only asks the server runs in this process, which is much
    faster, unless the environment matters to it.
    """
    if arguments[1] == "serve" or environment:
        return process(*arguments, **environment)
    return run_here(*arguments)


def process(*arguments: str | Path, timeout_s: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command as a process to its end."""
    return subprocess.run(
        [sys.executable, "-m", "hakaru.cli", *arguments],
        capture_output=True,
        text=True,
        env=ENVIRONMENT | environment,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def stdout_of(*arguments: str | Path, **environment: str) -> str:
    """Run a command that succeeds; return its stdout."""
    result = hakaru(*arguments, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def json_of(*arguments: str | Path) -> Any:
    """Run a command that succeeds; return its JSON."""
    return json.loads(stdout_of(*arguments, "--json"))


def error_of(result: subprocess.CompletedProcess[str], code: int) -> str:
    """Check that a command failed with an exit code; return its message and hint."""
    assert result.returncode == code, (result.stdout, result.stderr)
    assert result.stderr.startswith("error: "), result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.removeprefix("error: ")


class ServedArray:
    """A running `hakaru array serve`."""

    def __init__(self, file: Path, *arguments: str, **environment: str) -> None:
        try:
            find_engine()
        except EnvironmentError_ as error:
            pytest.skip(f"no engine: {error.hint}")
        self.file = file
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hakaru.cli", "array", "serve", file, "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=ENVIRONMENT | environment,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.end(signal.SIGKILL))
        self.ready: dict[str, Any] = json.loads(line)
        self.state = Path(self.ready["state"])
        self.engine: int = self.ready["engine"]["pid"]

    @property
    def portal(self) -> str:
        return str(self.ready["portals"][0])

    def url(self, lun: int = 0) -> str:
        return f"iscsi://{self.portal}/{TARGET_NAME}/{lun}"

    def end(self, number: signal.Signals = signal.SIGTERM) -> str:
        """End the process by a signal; return its stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.communicate(timeout=120)[1]

    def connect(self) -> socket.socket:
        """Return a connection to the control socket."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(self.state / SOCKET))
        return connection


@contextmanager
def served(file: Path, *arguments: str, **environment: str) -> Iterator[ServedArray]:
    """Serve an array while the block runs."""
    running = ServedArray(file, *arguments, **environment)
    try:
        yield running
    finally:
        stderr = running.end(signal.SIGKILL)
        print(stderr)


def until(predicate: Callable[[], bool], condition: str, timeout_s: float = 60) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, condition
        time.sleep(0.02)
