#!/usr/bin/env python3
"""Measures what a live view costs the run that it shows (`make views`).

    bench/views.py [--rounds 12] [--seed 1]
    bench/views.py --kill

Each round runs the same lab four times in random order: twice with nothing beside it, once with
`hakaru attach` on a terminal of its own, once with `hakaru web` and a reader of its events. The
load is closed and uses all processors, so a view takes time from it. A ratio is the rate beside the
view, divided by the rate of the round's first run without one; the second such run shows how much
two equal runs differ. Prints the median ratio with its 95 % interval (from the order of the ratios)
and the CPU time of the view with its processes. Exit code 1: a view costs 2 % or more. Needs an
idle machine, and about 105 seconds per round.

`--kill` kills each view in the middle of a run. Exit code 1: the run noticed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import pty
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from scipy.stats import quantile_test

HAKARU = str(Path(sys.executable).parent / "hakaru")
GOAL = 0.98
LINES, COLUMNS = 50, 160
READ_BYTES = 1 << 16
# Of a run that is measured, the first repetition is left out of the second ratio: a view starts
# during it.
MEASURED = {
    "rate": "10 Gbit/s",
    "vms": "[8]",
    "measure": "{warmup: 1 s, time: 4 s, repetitions: 3, sample_interval: 200 ms}",
}
KILLED = {
    "rate": "100 Mbit/s",
    "vms": "[1, 2, 4]",
    "measure": "{warmup: 300 ms, time: 2 s, repetitions: 2, sample_interval: 200 ms}",
}
STUDY = """\
format: 1
id: watched
title: {{en: A run that is watched}}
question: {{en: How many requests per second does it complete?}}
expectation: {{en: As many as the processors can.}}
origin: emulated
lab:
  hosts: 2
  host_link: {{rate: {rate}}}
  array_link: {{rate: {rate}}}
array:
  target_name: iqn.2026-01.org.hakaru:watched
  model: {{kind: none}}
  lus: [{{lun: 0, size: 256 MiB}}]
load:
  kind: vms
  columns: [[0]]
  image: 16 MiB
  patterns:
    mixed: {{sizes: [{{size: 4 KiB}}], read_percent: 70, random_percent: 100, load: {{kind: closed, queue_depth: 8}}}}
factors: [{{pattern: [mixed], vms: {vms}}}]
measure: {measure}
"""


class View(Protocol):
    """A view of the run of a folder. `shown`: whether the view has shown the load of the run."""

    shown: bool

    def start(self) -> None:
        """Start it. The run is in progress."""

    def end(self) -> float:
        """End it as a user does. Return the CPU time of its processes in s."""

    def kill(self) -> None:
        """Kill it with SIGKILL."""


def cpu_seconds(pid: int, allowed: set[int]) -> float:
    """Wait for the end of a process. Return its CPU time, with that of the children that it has
    waited for. Exit if it ends otherwise than in an `allowed` way (negative: signal).
    """
    _, status, usage = os.wait4(pid, 0)
    if (code := os.waitstatus_to_exitcode(status)) not in allowed:
        sys.exit(f"a view ended with exit code {code}")
    return usage.ru_utime + usage.ru_stime


class Attach:
    """`hakaru attach` in a session and on a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.shown = False
        self._folder = folder

    def start(self) -> None:
        """Start the view. A thread reads what it draws."""
        command = [HAKARU, "attach", "--out", str(self._folder), "--lang", "en"]
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            termios.tcsetwinsize(0, (LINES, COLUMNS))
            os.execve(command[0], command, {**os.environ, "TERM": "xterm-256color"})
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        last = b""
        while True:
            try:
                drawn = os.read(self._terminal, READ_BYTES)
            except OSError:  # the last process has closed the terminal
                return
            # The word may be divided between two reads.
            self.shown |= b"IOPS" in last[-8:] + drawn
            last = drawn

    def end(self) -> float:
        """Press `q`."""
        os.write(self._terminal, b"q")
        return self._ended({0})

    def kill(self) -> None:
        """Kill the view with SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)
        self._ended({-signal.SIGKILL})

    def _ended(self, allowed: set[int]) -> float:
        seconds = cpu_seconds(self._pid, allowed)
        self._reader.join()
        os.close(self._terminal)
        return seconds


class Web:
    """`hakaru web`, and a client that reads its stream of events as a page does."""

    def __init__(self, folder: Path) -> None:
        self.shown = False
        self._folder = folder

    def start(self) -> None:
        """Start the server. A thread reads the events."""
        command = [HAKARU, "web", "--port", "0", "--out", str(self._folder), "--lang", "en"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert self._process.stdout is not None
        self._url = urlsplit(self._process.stdout.readline().strip())
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._url.hostname is not None
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port)
        try:
            connection.request("GET", f"/?{self._url.query}")
            entered = connection.getresponse()
            cookie = (entered.getheader("Set-Cookie") or "").partition(";")[0]
            entered.read()
            connection.request("GET", "/events", headers={"Cookie": cookie})
            for line in connection.getresponse():
                self.shown |= line.startswith(b"data: {") and b'"iops"' in line.lower()
        except (OSError, http.client.HTTPException):  # the server has ended
            return
        finally:
            connection.close()

    def end(self) -> float:
        """End the server with SIGTERM."""
        self._process.terminate()
        return self._ended({0, -signal.SIGTERM})

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._process.kill()
        self._ended({-signal.SIGKILL})

    def _ended(self, allowed: set[int]) -> float:
        seconds = cpu_seconds(self._process.pid, allowed)
        self._process.returncode = 0  # it is waited for
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return seconds


VIEWS: dict[str, Callable[[Path], View]] = {"attach": Attach, "web": Web}
NOTHING, AGAIN = "nothing", "nothing again"


@dataclass
class Run:
    """Results that a run has printed. `rates`: IOPS of each repetition, in their order."""

    rates: list[float] = field(default_factory=list)
    points: int = 0
    exit_code: int = 0
    error: str = ""
    cpu_per_second: float = 0.0
    """CPU seconds of the view beside it per second of its life."""


@contextmanager
def started(folder: Path, settings: dict[str, str]) -> Iterator[tuple[Iterator[dict[str, Any]], Run]]:
    """Start a run in `folder`. Yields its events, and the results so far."""
    study = folder / "study.yaml"
    study.write_text(STUDY.format(**settings))
    command = [HAKARU, "run", str(study), "--out", str(folder), "--report", "none", "--json"]
    run = Run()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):

        def events() -> Iterator[dict[str, Any]]:
            for line in process.stdout or ():
                event: dict[str, Any] = json.loads(line)
                if event["event"] == "result":
                    run.rates.append(event["iops"])
                run.points += event["event"] == "point"
                yield event

        yield events(), run
        run.exit_code = process.wait()
        errors.seek(0)
        run.error = errors.read()


def wait_for(name: str, events: Iterator[dict[str, Any]]) -> dict[str, Any]:
    """Return the next event of this name. Exit if there is none."""
    for event in events:
        if event["event"] == name:
            return event
    sys.exit(f"the run ended before the event {name}")


def measure(view: View | None, folder: Path) -> Run:
    """Run the lab with a view beside it. A point may be invalid, because the load is heavy."""
    with started(folder, MEASURED) as (events, run):
        if view is None:
            for _ in events:
                pass
        else:
            wait_for("run_started", events)
            began = time.monotonic()
            view.start()
            try:
                for _ in events:
                    pass
            except BaseException:
                view.kill()
                raise
            alive_s = time.monotonic() - began
            run.cpu_per_second = view.end() / alive_s
    if run.exit_code not in (0, 5) or len(run.rates) < 2:
        sys.exit(f"exit code {run.exit_code}: {run.error}")
    if view is not None and not view.shown:
        sys.exit("the view has not shown the load")
    return run


def kill(view: View | None, folder: Path) -> Run:
    """Run the lab and kill the view in the second half of it."""
    with started(folder, KILLED) as (events, run):
        half = int(wait_for("run_started", events)["repetitions"]) // 2
        if view is not None:
            view.start()
            try:
                while len(run.rates) < half or not view.shown:
                    wait_for("sample", events)
            finally:
                view.kill()
        for _ in events:
            pass
    return run


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median, and the bounds of its 95 % interval, which assumes no distribution."""
    low, high = quantile_test(ratios, p=0.5).confidence_interval(0.95)
    return statistics.median(ratios), float(low), float(high)


def compare(rounds: int, seed: int) -> int:
    """Print what the views cost. Return the exit code."""
    order = random.Random(seed)
    names = [NOTHING, AGAIN, *VIEWS]
    whole: dict[str, list[float]] = {name: [] for name in names[1:]}
    later: dict[str, list[float]] = {name: [] for name in names[1:]}
    cpu: dict[str, list[float]] = {name: [] for name in names[1:]}
    for number in range(1, rounds + 1):
        runs: dict[str, Run] = {}
        for name in order.sample(names, len(names)):
            with tempfile.TemporaryDirectory(prefix="views-") as folder:
                make = VIEWS.get(name)
                runs[name] = measure(make and make(Path(folder)), Path(folder))
            rates = "  ".join(f"{rate:,.0f}" for rate in runs[name].rates)
            print(f"{number:>3} {name:<14} {rates} IOPS", flush=True)
        alone = runs.pop(NOTHING)
        for name, run in runs.items():
            whole[name].append(statistics.mean(run.rates) / statistics.mean(alone.rates))
            later[name].append(statistics.mean(run.rates[1:]) / statistics.mean(alone.rates[1:]))
            cpu[name].append(run.cpu_per_second)
    print(f"\n{'beside the run':<15} {'ratio of the rate':<28} {'after the first repetition':<28} CPU s per s")
    is_missed = False
    for name in names[1:]:
        cells = ["{:.4f} ({:.4f} to {:.4f})".format(*interval(each[name])) for each in (whole, later)]
        print(f"{name:<15} {cells[0]:<28} {cells[1]:<28} {statistics.median(cpu[name]):.3f}")
        is_missed |= name in VIEWS and min(interval(each[name])[0] for each in (whole, later)) <= GOAL
    print(f"goal of a view: a ratio above {GOAL:.2f}: {'missed' if is_missed else 'reached'} ({rounds} rounds)")
    return int(is_missed)


def compare_killed() -> int:
    """Print how runs end whose view is killed. Return the exit code."""
    has_failed, expected = False, (0, 0, 0)
    for name in (NOTHING, *VIEWS):
        with tempfile.TemporaryDirectory(prefix="views-") as folder:
            make = VIEWS.get(name)
            run = kill(make and make(Path(folder)), Path(folder))
        ended = (run.exit_code, run.points, len(run.rates))
        expected = ended if name == NOTHING else expected
        fits = ended == expected and run.exit_code == 0
        has_failed |= not fits
        print(f"{name:<8} exit code {ended[0]}, {ended[1]} points, {ended[2]} repetitions", flush=True)
        if not fits:
            print(run.error, file=sys.stderr)
    return int(has_failed)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rounds", type=int, default=12, help="at least 10")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--kill", action="store_true")
    chosen = options.parse_args()
    if chosen.rounds < 10:
        options.error("the interval needs at least 10 rounds")
    return compare_killed() if chosen.kill else compare(chosen.rounds, chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
