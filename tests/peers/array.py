"""Our array engine, and programs of other makers that connect to it.

The test speaks the protocol of the engine itself, with blocking lines instead of asyncio, so that a
test reads like a script.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_

TARGET_NAME = "iqn.2026-01.org.hakaru:peers"
MIB = 1 << 20


def need(program: str, package: str) -> str:
    """Return the path of a peer program, or skip the test if it is not installed."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed (Debian package {package})")
    return path


class Engine:
    """A process `hakaru-engine run`."""

    def __init__(self, config: dict[str, Any], inside: tuple[str, ...] = ()) -> None:
        """`inside`: a command whose arguments are the engine's command line."""
        try:
            program = find_engine()
        except EnvironmentError_ as error:
            pytest.skip(f"no engine: {error.hint}")
        self.process = subprocess.Popen(
            [*inside, program, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.send({"type": "configure", "contract": self.wait_for("hello")["contract"], "config": config})
        self._sampling = False
        self.found: dict[str, Any] = self.wait_for("ready")["found"]

    def send(self, command: dict[str, Any]) -> None:
        """Send a message to the engine."""
        stdin = _open(self.process.stdin)
        stdin.write(json.dumps(command).encode() + b"\n")
        stdin.flush()

    def wait_for(self, kind: str) -> dict[str, Any]:
        """Return the next event of this kind and drop those before it."""
        for line in _open(self.process.stdout):
            event: dict[str, Any] = json.loads(line)
            if event["type"] == kind:
                return event
            assert event["type"] != "error" or not event["fatal"], event
        raise AssertionError(f"the engine ended without {kind}: {_open(self.process.stderr).read().decode()}")

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield every further event."""
        for line in _open(self.process.stdout):
            event: dict[str, Any] = json.loads(line)
            assert event["type"] != "error" or not event["fatal"], event
            yield event

    def counters(self) -> dict[str, dict[str, float]]:
        """Return the counters as of now or later, by entity and name. Begins the samples."""
        if not self._sampling:
            self._sampling = True
            self.send({"type": "start", "at_ns": 0})
        begun_ns = time.monotonic_ns()
        while (sample := self.wait_for("sample"))["at_ns"] < begun_ns:
            pass
        counters: dict[str, dict[str, float]] = sample["counters"]
        return counters

    def manage(self, kind: str, **action: Any) -> dict[str, Any]:
        """Send a management command to a serving array and return the answer."""
        self.send({"type": "manage", "id": 1, "action": {"kind": kind, **action}})
        reply = self.wait_for("reply")
        assert reply.get("error") is None, reply
        value: dict[str, Any] = reply["value"]
        return value

    def stop(self) -> dict[str, float]:
        """End the engine cleanly and return the values of its result."""
        self.send({"type": "stop"})
        values: dict[str, float] = self.wait_for("result")["values"]
        assert self.process.wait(60) == 0
        return values

    def close(self) -> None:
        """End the engine in any case."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            _open(stream).close()


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def lu(lun: int, size_bytes: int, path: Path | None = None, **more: Any) -> dict[str, Any]:
    """Return an LU in memory or in the file `path`."""
    store = {"kind": "memory"} if path is None else {"kind": "file", "path": str(path)}
    return {"lun": lun, "size_bytes": size_bytes, "store": store, **more}


@contextmanager
def array(
    *lus: dict[str, Any], model: dict[str, Any] | None = None, inside: tuple[str, ...] = (), **more: Any
) -> Iterator[SimpleNamespace]:
    """Run an array on a free port of the loopback; yield `.engine`, `.portal` and `.url(lun)`."""
    config = {
        "engine": "array",
        "target_name": TARGET_NAME,
        "portals": ["127.0.0.1:0"],
        "lus": list(lus),
        "model": model or {"kind": "none"},
        **more,
    }
    engine = Engine(config, inside)
    try:
        portal = engine.found["portals"][0]
        yield SimpleNamespace(engine=engine, portal=portal, url=lambda lun=0: f"iscsi://{portal}/{TARGET_NAME}/{lun}")
    finally:
        engine.close()


def run(*command: str | os.PathLike[str], timeout_s: float = 120) -> str:
    """Return the output of a peer on both streams; fail the test if the peer failed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{output}"
    return output


def iscsi_perf_iops(url: str, depth: int, blocks: int, seconds: int = 1) -> int:
    """Run random reads with `iscsi-perf` for at least `seconds`, and return its average IOPS.

    Its own time limit (`-t`) is missed by a program that is stopped for a second, which then never
    ends. It prints an average at most once per second.
    """
    program = need("iscsi-perf", "libiscsi-bin")
    command = [program, "-r", "-m", str(depth), "-b", str(blocks), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        stdout, output, averages = _open(process.stdout), b"", []
        try:
            while part := os.read(stdout.fileno(), 4096):
                output += part
                averages = re.findall(rb"iops average (\d+) ", output)
                if len(averages) >= seconds:
                    process.terminate()
            assert process.wait(60) == 0 and averages, output.decode(errors="replace")
        finally:
            process.kill()
    return int(averages[-1])
