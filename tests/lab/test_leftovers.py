"""After any process is killed at any time, no process, namespace, interface or mount of a lab
remains. While the machine does nothing else, this takes 2 s at most.
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

from tests.run.conftest import STUDY

from .conftest import MARK, User

GONE_WITHIN_S = 2.0
# Time until a machine with other work as well has ended all processes, which exit by themselves
# once the killed one is gone. Those that stay do so for minutes.
BUSY_WITHIN_S = 60.0
LAB = json.dumps({"hosts": 3, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}})
PHASES = ("entered", "built", "engines")


def marked_processes(mark: str) -> set[int]:
    """Return the processes of one test, recognised by the mark in their environment."""
    marker = f"{MARK}={mark}".encode()
    pids = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            # A zombie has no environment. Its parent has one and is in the result instead.
            if marker in (directory / "environ").read_bytes().split(b"\0"):
                pids.add(int(directory.name))
        except OSError:
            continue
    return pids


def namespaces_of(directory: Path) -> Iterator[tuple[str, Path]]:
    """Yield the namespaces that a process is in or holds open, such as `net:[4026532177]`, with the
    entry in /proc.
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


class HeldNamespaces:
    """The namespaces of a test's processes, held open here so that the kernel does not give their
    numbers to other namespaces.
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
        # The entry may have become another namespace between reading the link and opening it.
        if str(Path(f"/proc/self/fd/{descriptor}").readlink()) == target:
            self._descriptors[target] = descriptor
        else:
            os.close(descriptor)

    def count(self, kind: str) -> int:
        return sum(target.startswith(f"{kind}:") for target in self._descriptors)

    def held_by_others(self) -> dict[str, str]:
        """Return namespace → process for each namespace that another process is in or has open."""
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
    """Return whether a process has ended and only waits for the init of the machine, which may take
    seconds.
    """
    try:
        return (directory / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _command(directory: Path) -> str:
    """Return name, state, parent and arguments of a process."""
    try:
        stat, arguments = (directory / "stat").read_text(), (directory / "cmdline").read_bytes()
    except OSError:
        return "gone"
    return f"{' '.join(stat.split()[1:4])} {arguments.replace(bytes(1), b' ').decode(errors='replace')}"


@dataclass(frozen=True)
class Host:
    """Interfaces and mounts of the machine outside labs."""

    interfaces: frozenset[str]
    mounts: frozenset[str]

    @classmethod
    def now(cls) -> Host:
        # Mounts are compared by mount point and type because their identifiers change.
        mounts = (line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines())
        return cls(
            frozenset(name for _, name in socket.if_nameindex()),
            frozenset(f"{words[4]} {words[words.index('-') + 1]}" for words in mounts),
        )


def wait_until_gone(held: HeldNamespaces, before: Host, within_s: float = BUSY_WITHIN_S) -> None:
    """Wait until nothing is left, or fail with the remainder."""
    deadline = time.monotonic() + within_s
    try:
        while True:
            now = Host.now()
            left = {
                "processes": marked_processes(held.mark),
                "namespaces": held.held_by_others(),
                "interfaces": now.interfaces - before.interfaces,
                "mounts": now.mounts - before.mounts,
            }
            if not any(left.values()):
                return
            assert time.monotonic() < deadline, f"left after {within_s} s: {left}"
            time.sleep(0.02)
    finally:
        held.close()


def start_until(user: User, phase: str) -> subprocess.Popen[str]:
    process = user.start("hold", LAB)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["phase"] == phase:
            return process
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


def wait_for_processes(user: User, count: int) -> None:
    """Wait until this many processes show their environment: a process that is being started has
    none for a moment.
    """
    deadline = time.monotonic() + 60
    while len(pids := marked_processes(user.mark)) < count:
        assert time.monotonic() < deadline, f"only {pids}"
        time.sleep(0.02)


def reap(process: subprocess.Popen[str]) -> int:
    code = process.wait(60)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    return code


@pytest.mark.alone
def test_after_sigkill_of_hakaru_everything_is_gone_in_two_seconds(user: User) -> None:
    kill_and_wait(user, "engines", GONE_WITHIN_S)


@pytest.mark.parametrize("phase", PHASES)
def test_sigkill_of_hakaru_leaves_nothing(user: User, phase: str) -> None:
    kill_and_wait(user, phase, BUSY_WITHIN_S)


def kill_and_wait(user: User, phase: str, within_s: float) -> None:
    """Kill hakaru in this phase, and wait until nothing is left."""
    before = Host.now()
    process = start_until(user, phase)
    wait_for_processes(user, 4)  # supervisor, init, command and its child
    held = HeldNamespaces(user.mark)
    assert held.count("net") >= (1 if phase == "entered" else 6), "the sandbox's and every node's"
    process.kill()
    assert reap(process) == -signal.SIGKILL
    wait_until_gone(held, before, within_s)


def start_run_until(user: User, event: str) -> subprocess.Popen[str]:
    """Start a short `hakaru run` and return once it has reported this event or phase."""
    program = "import sys; from hakaru.cli import main; sys.argv[0] = 'hakaru'; sys.exit(main())"
    study = user.folder / "study.yaml"
    study.write_text(STUDY.replace("hosts: 2", "hosts: 1"))
    arguments = ["run", str(study), "--only", "vms=1", "--repetitions", "1", "--json", "--quiet"]
    process = subprocess.Popen(
        [*user.prefix, user.python, "-c", program, *arguments, "--out", str(user.folder / "runs")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=user.folder,
        env=user.environment(),
    )
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if event in (message["event"], message.get("phase")):
            return process
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize("event", ["check", "sample", "report"])
def test_sigkill_of_a_complete_run_leaves_nothing(user: User, event: str) -> None:
    before = Host.now()
    process = start_run_until(user, event)
    held = HeldNamespaces(user.mark)
    assert held.count("pid") == 1
    process.kill()
    assert reap(process) == -signal.SIGKILL
    wait_until_gone(held, before)


@pytest.mark.parametrize("depth", [1, 2])
def test_sigkill_of_init_or_of_the_command_inside_leaves_nothing(user: User, depth: int) -> None:
    before = Host.now()
    process = start_until(user, "built")
    held = HeldNamespaces(user.mark)
    victim = process.pid
    for _ in range(depth):
        # Before init, the supervisor of root starts the process that raises kernel threads.
        victim = int(Path(f"/proc/{victim}/task/{victim}/children").read_text().split()[-1])
    os.kill(victim, signal.SIGKILL)
    assert process.stderr is not None
    stderr = process.stderr.read()
    code = reap(process)
    assert (code, "ended by SIGKILL" in stderr) == ((7, True) if depth == 1 else (137, False))
    wait_until_gone(held, before)


def test_sigkill_at_any_moment_of_the_start_leaves_nothing(user: User) -> None:
    chance = random.Random(20111017)
    before = Host.now()
    for _ in range(10):
        process = user.start("hold", LAB)
        # Kill at a random time, from before the first exec to a built lab.
        time.sleep(chance.uniform(0, 0.6))
        held = HeldNamespaces(user.mark)
        process.kill()
        reap(process)
        wait_until_gone(held, before)


def test_a_daemon_left_by_the_command_ends_with_the_sandbox(user: User) -> None:
    before = Host.now()
    done = user.run("leave_orphan")
    assert done.returncode == 0, done.stderr
    wait_until_gone(HeldNamespaces(user.mark), before)
