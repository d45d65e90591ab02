"""An array of ours, and the programs of others that talk to it.

The engine is driven through the contract by hand: plain blocking lines, no asyncio, so that a test
reads as a script.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
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
    """Path of a peer; skips the test where it is not installed."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed (Debian package {package})")
    return path


class Engine:
    """One `hakaru-engine run`."""

    def __init__(self, config: dict[str, Any], inside: tuple[str, ...] = ()) -> None:
        """`inside`: a command that starts the engine as its arguments say."""
        try:
            program = find_engine()
        except EnvironmentError_ as error:
            pytest.skip(f"no engine: {error.hint}")
        self.process = subprocess.Popen(
            [*inside, program, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.say({"type": "configure", "contract": self.hear("hello")["contract"], "config": config})
        self.found: dict[str, Any] = self.hear("ready")["found"]

    def say(self, command: dict[str, Any]) -> None:
        """One line to the engine."""
        stdin = _open(self.process.stdin)
        stdin.write(json.dumps(command).encode() + b"\n")
        stdin.flush()

    def hear(self, kind: str) -> dict[str, Any]:
        """The next event of that kind; others before it are passed over."""
        for line in _open(self.process.stdout):
            event: dict[str, Any] = json.loads(line)
            if event["type"] == kind:
                return event
            assert event["type"] != "error" or not event["fatal"], event
        raise AssertionError(f"the engine ended without {kind}: {_open(self.process.stderr).read().decode()}")

    def manage(self, kind: str, **action: Any) -> dict[str, Any]:
        """Orders something of an array that serves; its answer."""
        self.say({"type": "manage", "id": 1, "action": {"kind": kind, **action}})
        reply = self.hear("reply")
        assert reply.get("error") is None, reply
        value: dict[str, Any] = reply["value"]
        return value

    def stop(self) -> dict[str, float]:
        """Ends it cleanly; the values of its result."""
        self.say({"type": "stop"})
        values: dict[str, float] = self.hear("result")["values"]
        assert self.process.wait(10) == 0
        return values

    def close(self) -> None:
        """Ends it whatever happened."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            _open(stream).close()


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def lu(lun: int, size_bytes: int, path: Path | None = None, **more: Any) -> dict[str, Any]:
    """An LU in memory, or in the file `path`."""
    store = {"kind": "memory"} if path is None else {"kind": "file", "path": str(path)}
    return {"lun": lun, "size_bytes": size_bytes, "store": store, **more}


@contextmanager
def array(
    *lus: dict[str, Any], model: dict[str, Any] | None = None, inside: tuple[str, ...] = (), **more: Any
) -> Iterator[SimpleNamespace]:
    """An array on a free port of the loopback: `.engine`, `.portal`, `.url(lun)`."""
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


def run(*command: str | os.PathLike[str], timeout_s: float = 60) -> str:
    """What a peer said, on both streams; fails the test if it failed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{said}"
    return said


def iscsi_perf_iops(url: str, depth: int, blocks: int, seconds: int) -> int:
    """Random reads by `iscsi-perf`: its average IOPS."""
    program = need("iscsi-perf", "libiscsi-bin")
    said = run(program, "-r", "-m", str(depth), "-b", str(blocks), "-t", str(seconds), url)
    found = re.findall(r"iops average (\d+)", said.replace("\r", "\n"))
    assert found, said
    return int(found[-1])
