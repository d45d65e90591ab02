"""The kernel's threads that poll interfaces, and their precedence over programs.

A sandbox has a PID namespace of its own, in which the threads of the kernel do not exist. So a
process outside, the `serve` of the sandbox's supervisor, looks for them. It gets the name of an
interface, and answers with a byte once the threads of that interface run first.

Only the standard library is imported, because the supervisor imports this module.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CHANNEL = "HAKARU_KERNEL_THREADS"
"""Environment variable of a command in a sandbox: the descriptors of requests and answers, and the
inode of the former, because a process that did not inherit them may have others of these numbers.
"""
COMM_MAX = 15
"""Characters of the name of a thread."""


def threads_of(interface: str) -> set[int]:
    """Kernel threads that poll interfaces of this name, in any network namespace. Empty within a
    sandbox.
    """
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # `PID (NAME) STATE PARENT …`: threads of the kernel are children of 2. Any program may
            # call itself like one.
            name, _, rest = (process / "stat").read_text().partition("(")[2].rpartition(")")
            if name.startswith(f"napi/{interface}-"[:COMM_MAX]) and rest.split()[1] == "2":
                found.add(int(process.name))
    return found


def let_run_first(interface: str) -> None:
    """Let the threads that poll an interface of this name run before all programs (`SCHED_FIFO`,
    lowest priority). Threads of the same name in other labs are raised with them. Without root,
    nothing changes.
    """
    channel = os.environ.get(CHANNEL)
    if channel is None:
        _raise(interface)
        return
    requests, answers, inode = (int(word) for word in channel.split())
    with contextlib.suppress(OSError):
        if os.fstat(requests).st_ino == inode:
            os.write(requests, f"{interface}\n".encode())
            os.read(answers, 1)


def _raise(interface: str) -> None:
    for thread in threads_of(interface):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))


def serve(requests: int, answers: int) -> None:
    """Answer requests until the sandbox has ended."""
    with os.fdopen(requests) as lines:
        for line in lines:
            _raise(line.strip())
            with contextlib.suppress(OSError):
                os.write(answers, b".")
