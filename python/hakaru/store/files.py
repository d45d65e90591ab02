"""Atomic writing of files: under a temporary name, then synced and renamed.

Called by all code that writes to a run directory. A full disk, a read-only directory or a missing
permission becomes an `EnvironmentError_` that names the file and says what to do, and the temporary
file is removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hakaru.errors import EnvironmentError_

WRITING_MAX_S = 60.0
HINTS = {
    errno.ENOSPC: "free some space, then continue with `hakaru run STUDY --resume RUN`; finished repetitions are kept",
    errno.EDQUOT: "your quota is used up: free some space, then continue with --resume",
    errno.EROFS: "the file system is read-only: name another folder with --out or HAKARU_RUNS",
    errno.EACCES: "this user has no permission there: name another folder with --out or HAKARU_RUNS",
    errno.EPERM: "this user has no permission there: name another folder with --out or HAKARU_RUNS",
    errno.ENOTDIR: "a part of that path is a file: name another folder with --out or HAKARU_RUNS",
    errno.EEXIST: "something with that name exists: name another folder with --out or HAKARU_RUNS",
}


def environment_error(path: Path, doing: str, error: OSError) -> EnvironmentError_:
    """Convert `error` to an error with a hint for the user. `doing` begins the message."""
    reason = error.strerror or str(error)
    hint = HINTS.get(error.errno or 0, "name another folder with --out or HAKARU_RUNS")
    return EnvironmentError_(f"{doing} {path}: {reason}", hint)


def write_atomic(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Replace the contents of `path` by the bytes that `fill` writes. On failure, leave it
    unchanged and raise `EnvironmentError_`.
    """
    # Two processes may write the same file (each report analyses its run), so each has a temporary
    # file of its own.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        sync_directory(path.parent)
    except OSError as e:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise environment_error(path, "cannot write", e) from e


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote in `folder`: those
    that are older than any writing takes. Numbers of processes in a sandbox say nothing outside.
    """
    for file in folder.glob(".*.*"):
        if file.suffix[1:].isdigit():
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > WRITING_MAX_S:
                    file.unlink()


def write_json(path: Path, value: Any) -> None:
    """`write_atomic` of indented JSON. NaN and infinities are refused: they are not JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def sync_directory(path: Path) -> None:
    """Make renames within `path` durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
