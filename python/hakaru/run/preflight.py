"""Pre-flight: checks that this machine has the resources for a run, before anything is built.

Each refusal is an `EnvironmentError_` (exit 3) with a remedy. `hakaru doctor` checks the machine in
general; these checks concern one run on it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Collection
from pathlib import Path

from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_
from hakaru.fileserver.samba import check_programs
from hakaru.lab.plan import LabPlan
from hakaru.run import kind
from hakaru.run.machine import memory_available_bytes
from hakaru.run.plan import cost_of, estimate
from hakaru.study import Expanded, Repetition
from hakaru.units import format_size

# Open files of a process besides one socket per session: stores, pipes of zero-copy reads, logins
# in progress.
FILES_BESIDE = 256


def check_machine(
    expanded: Expanded,
    lab: LabPlan | None,
    folder: Path,
    impossible: Collection[str] = (),
    done: Collection[str] = (),
) -> None:
    """Check engine, programs, folder, disk, memory and open files. `impossible`: points that this
    machine cannot measure; `done`: repetitions of a resumed run. Both need nothing. Raises
    EnvironmentError_.
    """
    find_engine()
    part = kind.of(expanded.study)
    # A search has no repetitions yet.
    turns = [Repetition(point, 1, 0) for point in expanded.points if point.id not in impossible]
    if lab is not None and any(part.file_servers(expanded, turn, lab) for turn in turns):
        check_programs()
    needed = estimate(expanded, lab, impossible, done)
    _check_folder(folder, needed.disk_bytes, "--out or HAKARU_RUNS")
    files = part.files_folder()
    if files is not None and needed.files_bytes:
        # Both may be on one disk.
        beside = needed.disk_bytes if _device(files) == _device(folder) else 0
        _check_folder(files, needed.files_bytes + beside, "HAKARU_FILES")
    available = memory_available_bytes()
    if available is not None and needed.memory_bytes > available:
        raise EnvironmentError_(
            f"the run may need {_mib(needed.memory_bytes)} of memory (including data written to LUs in memory, rings "
            f"and guests), but only {_mib(available)} are available",
            "choose --quick, fewer points with --only, or a machine with more memory",
        )
    sockets = max(cost_of(expanded, point, lab).sockets for point in expanded.points)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and sockets + FILES_BESIDE > hard:
        raise EnvironmentError_(
            f"{sockets} sessions need as many sockets in one process, but this user may open only {hard} files",
            f"raise the limit: ulimit -Hn {sockets + FILES_BESIDE} (as root, or in /etc/security/limits.conf)",
        )


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    existing = folder.absolute()
    try:
        while not existing.exists():
            existing = existing.parent
    except OSError as error:
        raise EnvironmentError_(
            f"{existing} cannot be examined: {error.strerror}", "name a folder that this user may use"
        ) from error
    return existing


def _device(folder: Path) -> int:
    return _existing(folder).stat().st_dev


def _check_folder(folder: Path, needed: int, how: str) -> None:
    existing = _existing(folder)
    if not existing.is_dir():
        raise EnvironmentError_(f"{existing} is not a folder", f"name a folder with {how}")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise EnvironmentError_(f"{existing} cannot be written", f"name another folder with {how}")
    free = os.statvfs(existing)
    if free.f_bavail * free.f_frsize < needed:
        raise EnvironmentError_(
            f"the run may need {_mib(needed)} of disk in {existing}, but only "
            f"{_mib(free.f_bavail * free.f_frsize)} are free",
            f"free some space, or name another folder with {how}",
        )


def _mib(size: int) -> str:
    return format_size(-(-size >> 20) << 20)
