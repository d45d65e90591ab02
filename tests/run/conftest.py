"""Fixtures: small studies, hakaru as a process, and an array on loopback in the place of existing
equipment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.engine.binary import find_engine

from tests.cli.command import run_here

ROOT = Path(__file__).parents[2]

STUDY = """\
format: 1
id: small
title: {en: Small, ja: 小}
question: {en: Does it run?, ja: 動くか}
expectation: {en: It does., ja: 動く}
origin: emulated
lab:
  hosts: 2
  host_link: {rate: 100 Mbit/s}
  array_link: {rate: 100 Mbit/s}
array:
  target_name: iqn.2011-10.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB}]
load:
  kind: vms
  columns: [[0]]
  image: 16 MiB
  patterns:
    mixed: {sizes: [{size: 16 KiB}], read_percent: 50, random_percent: 100, load: {kind: closed, queue_depth: 4}}
    reads: {sizes: [{size: 16 KiB}], read_percent: 100, random_percent: 100, load: {kind: closed, queue_depth: 4}}
factors:
  - {pattern: [mixed], vms: [1, 3]}
  - {pattern: [reads], vms: [2]}
measure: {warmup: 200 ms, time: 1 s, repetitions: 2, sample_interval: 200 ms}
seed: 7
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Write a study of three points with two repetitions of about one second each. It has one host,
    because the links of two are checked for twice as long.
    """
    folder = tmp_path / "small"
    folder.mkdir()
    path = folder / "study.yaml"
    path.write_text(STUDY.replace("hosts: 2", "hosts: 1"))
    return path


@dataclass
class Hakaru:
    """Run `hakaru …` with its own folder of runs."""

    runs: Path
    prefix: list[str] = field(default_factory=list)

    def command(self, *arguments: str) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "hakaru.cli", *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "HAKARU_RUNS": str(self.runs), "NO_COLOR": "1"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, env=self.environment(), timeout=800, check=False
        )

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that starts no engine, within the process of the tests."""
        return run_here(*arguments, HAKARU_RUNS=str(self.runs), NO_COLOR="1")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in the background, in its own process group."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            start_new_session=True,
        )

    def only_run(self) -> Path:
        """Return the only run directory."""
        (directory,) = self.runs.iterdir()
        return directory


@pytest.fixture
def hakaru(tmp_path: Path) -> Hakaru:
    """Return hakaru with an empty folder of runs."""
    return Hakaru(tmp_path / "runs")


def until(process: subprocess.Popen[str], event: str, times: int = 1) -> None:
    """Read a JSON stream until the event has occurred `times` times; fail if it ends before."""
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == event:
            times -= 1
            if times == 0:
                return
    assert process.stderr is not None
    pytest.fail(f"the stream ended before {event}: {process.stderr.read()}")


@dataclass
class LoopbackArray:
    """An array engine on loopback, which hakaru uses as existing equipment."""

    process: subprocess.Popen[bytes]
    portal: str
    target_name: str

    def kill(self) -> None:
        """Kill the array."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def array() -> Iterator[LoopbackArray]:
    """Run an array without a timing model, with one LU of 64 MiB, on a free port."""
    with loopback_array(1) as array:
        yield array


@pytest.fixture
def two_lus() -> Iterator[LoopbackArray]:
    """Run the same array with two LUs."""
    with loopback_array(2) as array:
        yield array


@contextlib.contextmanager
def loopback_array(lus: int) -> Iterator[LoopbackArray]:
    """Run an array on loopback with LUs of 64 MiB."""
    config = contract.ArrayConfig(
        target_name="iqn.2011-10.example.vendor:existing",
        portals=["127.0.0.1:0"],
        lus=[contract.LuConfig(lun=n, size_bytes=64 << 20, store=contract.MemoryStore()) for n in range(lus)],
        model=contract.NoModel(kind="none"),
    )
    with subprocess.Popen([find_engine(), "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(contract.Configure(contract=contract.CONTRACT_VERSION, config=config).line())
        process.stdin.flush()
        hello, ready = (contract.parse_event(process.stdout.readline()) for _ in range(2))
        assert isinstance(hello, contract.Hello) and isinstance(ready, contract.Ready), (hello, ready)
        yield LoopbackArray(process, str(ready.found["portals"][0]), config.target_name)
        process.stdin.close()
        process.kill()


@pytest.fixture
def write_site(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a site file with one LU."""

    def _write(portal: str, target_name: str, **extra: Any) -> Path:
        path = tmp_path / "site.yaml"
        lu = {"portal": portal, "target_name": target_name, "lun": 0, **extra}
        path.write_text(json.dumps({"format": 1, "name": "loopback", "lus": [lu]}))
        return path

    return _write
