"""Whatever is killed, whenever: after 2 s no process, namespace, interface or mount of a lab is
left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
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


def namespaces_of(directory: Path) -> Iterator[tuple[str, Path]]:
    """Namespaces that a process is in or holds open: `net:[4026532177]` and the like, and where
    that is said.
    """
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
                yield target, entry


class Watched:
    """The namespaces of a test's processes, held open here: a number that is held is not given to
    another one.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.processes = marked_processes(mark)
        self._descriptors: dict[str, int] = {}
        own = {target for target, _ in namespaces_of(Path("/proc/self"))}
        for pid in self.processes:
            for target, entry in namespaces_of(Path(f"/proc/{pid}")):
                if target not in own and target not in self._descriptors:
                    self._hold(target, entry)

    def _hold(self, target: str, entry: Path) -> None:
        try:
            descriptor = os.open(entry, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        # Between reading the link and opening it, it may have become another one.
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()) == target:
            self._descriptors[target] = descriptor
        else:
            os.close(descriptor)

    def count(self, kind: str) -> int:
        return sum(target.startswith(f"{kind}:") for target in self._descriptors)

    def held_by_others(self) -> dict[str, str]:
        """Which of the namespaces some other process is in or holds, and which process."""
        return {
            target: f"{directory} {_command(directory)}"
            for directory in Path("/proc").glob("[0-9]*")
            if directory.name != str(os.getpid()) and not _is_dead(directory)
            for target, _ in namespaces_of(directory)
            if target in self._descriptors
        }

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _is_dead(directory: Path) -> bool:
    """Ended, and only waits for the machine's own init to take note: some take seconds."""
    try:
        return (directory / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _command(directory: Path) -> str:
    """Name, state, parent and arguments of a process."""
    try:
        stat, arguments = (directory / "stat").read_text(), (directory / "cmdline").read_bytes()
    except OSError:
        return "gone"
    return f"{' '.join(stat.split()[1:4])} {arguments.replace(bytes(1), b' ').decode(errors='replace')}"


@dataclass(frozen=True)
class Host:
    """What the machine shows of labs from outside."""

    interfaces: frozenset[str]
    mounts: frozenset[str]

    @classmethod
    def now(cls) -> Host:
        # By mount point and type: identifiers change.
        mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
        return cls(
            frozenset(name for _, name in socket.if_nameindex()),
            frozenset(f"{words[4]} {words[words.index('-') + 1]}" for words in mounts),
        )


def wait_until_gone(watched: Watched, before: Host) -> None:
    """Poll until nothing is left; fail with what is."""
    deadline = time.monotonic() + GONE_WITHIN_S
    try:
        while True:
            now = Host.now()
            left = {
                "processes": marked_processes(watched.mark),
                "namespaces": watched.held_by_others(),
                "interfaces": now.interfaces - before.interfaces,
                "mounts": now.mounts - before.mounts,
            }
            if not any(left.values()):
                return
            assert time.monotonic() < deadline, f"left after {GONE_WITHIN_S} s: {left}"
            time.sleep(0.02)
    finally:
        watched.close()


def start_until(someone: Someone, phase: str) -> subprocess.Popen[str]:
    process = someone.start("hold", LAB)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["phase"] == phase:
            return process
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


def wait_for_processes(someone: Someone, count: int) -> None:
    """Poll until so many show their environment: one that is just being started has none for a
    moment.
    """
    deadline = time.monotonic() + 5
    while len(found := marked_processes(someone.mark)) < count:
        assert time.monotonic() < deadline, f"only {found}"
        time.sleep(0.02)


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
    wait_for_processes(someone, 4)  # supervisor, init, command and what it started
    watched = Watched(someone.mark)
    assert watched.count("net") >= (1 if phase == "entered" else 6), "the sandbox's and every node's"
    process.kill()
    assert reap(process) == -signal.SIGKILL
    wait_until_gone(watched, before)


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
    watched = Watched(someone.mark)
    assert watched.count("pid") == 1
    process.kill()
    assert reap(process) == -signal.SIGKILL
    wait_until_gone(watched, before)


@pytest.mark.parametrize("depth", [1, 2])
def test_sigkill_of_init_or_of_the_command_inside_leaves_nothing(someone: Someone, depth: int) -> None:
    before = Host.now()
    process = start_until(someone, "built")
    watched = Watched(someone.mark)
    victim = process.pid
    for _ in range(depth):
        victim = int(Path(f"/proc/{victim}/task/{victim}/children").read_text().split()[0])
    os.kill(victim, signal.SIGKILL)
    assert process.stderr is not None
    said = process.stderr.read()
    code = reap(process)
    assert (code, "ended by SIGKILL" in said) == ((7, True) if depth == 1 else (137, False))
    wait_until_gone(watched, before)


def test_sigkill_at_any_moment_of_the_start_leaves_nothing(someone: Someone) -> None:
    chance = random.Random(20111017)
    before = Host.now()
    for _ in range(10):
        process = someone.start("hold", LAB)
        # Not waiting for anything: the moment itself is what is tried, from before the first exec
        # to a built lab.
        time.sleep(chance.uniform(0, 0.6))
        watched = Watched(someone.mark)
        process.kill()
        reap(process)
        wait_until_gone(watched, before)


def test_a_daemon_left_by_the_command_ends_with_the_sandbox(someone: Someone) -> None:
    before = Host.now()
    done = someone.run("leave_orphan")
    assert done.returncode == 0, done.stderr
    wait_until_gone(Watched(someone.mark), before)
