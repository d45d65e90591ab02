"""Whatever is killed, whenever: after 2 s no process, namespace, interface or mount of a lab is left."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import MARK, Someone

GONE_WITHIN_S = 2.0
LAB = json.dumps({"hosts": 3, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}})
PHASES = ("entered", "built", "engines")


def marked_processes(mark: str) -> set[int]:
    """Processes that come of one test, by what is in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            # A zombie has no environment; its parent, which has, is found instead.
            if wanted in (directory / "environ").read_bytes().split(b"\0"):
                found.add(int(directory.name))
        except OSError:
            continue
    return found


def all_processes(born_before: float = float("inf")) -> set[int]:
    """Every process of the machine that started before an instant of CLOCK_BOOTTIME, seconds."""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the name, which is in parentheses and may hold anything; field 22 counts from 1 (proc(5)).
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[19]) / os.sysconf("SC_CLK_TCK") <= born_before:
            found.add(int(directory.name))
    return found


def namespaces_of(processes: set[int]) -> set[str]:
    """Namespaces that processes are in or hold open."""
    directories = [Path(f"/proc/{pid}") for pid in processes]
    found = set()
    for directory in directories:
        for place in ("ns", "fd"):
            try:
                entries = list((directory / place).iterdir())
            except OSError:
                continue
            for entry in entries:
                try:
                    target = str(entry.readlink())
                except OSError:
                    continue
                if target.split(":")[0] in ("net", "mnt", "pid", "user"):
                    found.add(target)
    return found


@dataclass(frozen=True)
class Host:
    """What the machine shows of labs from outside."""

    interfaces: frozenset[str]
    mounts: frozenset[str]
    namespaces: frozenset[str]

    @classmethod
    def now(cls, *, held_since: float = float("inf")) -> Host:
        # The kernel gives the number of a namespace that is gone to the next one that anybody makes: what holds one of
        # ours was there before the kill.
        holders = all_processes(held_since)
        # By mount point and type: identifiers change.
        mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
        return cls(
            frozenset(name for _, name in socket.if_nameindex()),
            frozenset(f"{words[4]} {words[words.index('-') + 1]}" for words in mounts),
            frozenset(namespaces_of(holders)),
        )


def wait_until_gone(mark: str, namespaces: set[str], before: Host) -> None:
    """Poll until nothing is left; fail with what is."""
    killed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    deadline = time.monotonic() + GONE_WITHIN_S
    while True:
        now = Host.now(held_since=killed_at)
        left = {
            "processes": marked_processes(mark),
            "namespaces": namespaces & now.namespaces,
            "interfaces": now.interfaces - before.interfaces,
            "mounts": now.mounts - before.mounts,
        }
        if not any(left.values()):
            return
        assert time.monotonic() < deadline, f"left after {GONE_WITHIN_S} s: {left}"
        time.sleep(0.02)


def start_until(someone: Someone, phase: str) -> subprocess.Popen[str]:
    process = someone.start("hold", LAB)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["phase"] == phase:
            return process
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


def reap(process: subprocess.Popen[str]) -> int:
    code = process.wait(10)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    return code


@pytest.mark.parametrize("phase", PHASES)
def test_sigkill_of_hakaru_leaves_nothing(someone: Someone, phase: str) -> None:
    before = Host.now()
    process = start_until(someone, phase)
    processes = marked_processes(someone.mark)
    namespaces = namespaces_of(processes) - before.namespaces
    assert len(processes) >= 4, "supervisor, init, command and what it started"
    assert sum(name.startswith("net:") for name in namespaces) >= (1 if phase == "entered" else 6)
    process.kill()
    assert reap(process) == -signal.SIGKILL
    wait_until_gone(someone.mark, namespaces, before)


def start_run_until(someone: Someone, event: str) -> subprocess.Popen[str]:
    """`hakaru run` itself, in its quickest form, until it tells of an event or a phase."""
    program = "import sys; from hakaru.cli import main; sys.argv[0] = 'hakaru'; sys.exit(main())"
    arguments = ["run", "vm-sweep", "--quick", "--only", "vms=1", "--repetitions", "1", "--json", "--quiet"]
    process = subprocess.Popen(
        [*someone.prefix, someone.python, "-c", program, *arguments, "--out", str(someone.folder / "runs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=someone.folder,
        env=someone.environment(),
    )
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if event in (told["event"], told.get("phase")):
            return process
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize("event", ["check", "sample", "report"])
def test_sigkill_of_a_whole_run_leaves_nothing(someone: Someone, event: str) -> None:
    before = Host.now()
    process = start_run_until(someone, event)
    namespaces = namespaces_of(marked_processes(someone.mark)) - before.namespaces
    assert namespaces
    process.kill()
    assert reap(process) == -signal.SIGKILL
    wait_until_gone(someone.mark, namespaces, before)


@pytest.mark.parametrize("depth", [1, 2])
def test_sigkill_of_init_or_of_the_command_inside_leaves_nothing(someone: Someone, depth: int) -> None:
    before = Host.now()
    process = start_until(someone, "built")
    namespaces = namespaces_of(marked_processes(someone.mark)) - before.namespaces
    victim = process.pid
    for _ in range(depth):
        victim = int(Path(f"/proc/{victim}/task/{victim}/children").read_text().split()[0])
    os.kill(victim, signal.SIGKILL)
    assert process.stderr is not None
    said = process.stderr.read()
    code = reap(process)
    assert (code, "ended by SIGKILL" in said) == ((7, True) if depth == 1 else (137, False))
    wait_until_gone(someone.mark, namespaces, before)


def test_sigkill_at_any_moment_of_the_start_leaves_nothing(someone: Someone) -> None:
    chance = random.Random(20111017)
    before = Host.now()
    for _ in range(10):
        process = someone.start("hold", LAB)
        # Not waiting for anything: the moment itself is what is tried, from before the first exec to a built lab.
        time.sleep(chance.uniform(0, 0.6))
        namespaces = namespaces_of(marked_processes(someone.mark)) - before.namespaces
        process.kill()
        reap(process)
        wait_until_gone(someone.mark, namespaces, before)


def test_a_daemon_left_by_the_command_ends_with_the_sandbox(someone: Someone) -> None:
    before = Host.now()
    done = someone.run("leave_orphan")
    assert done.returncode == 0, done.stderr
    wait_until_gone(someone.mark, set(), before)
