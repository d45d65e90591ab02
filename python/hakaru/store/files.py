"""Files that are there whole or not at all: written aside, synced, renamed.

Called by everything that writes into a run directory. A full disk, a read-only directory or a
missing permission becomes an `EnvironmentError_` that names the file and says what to do; what was
written aside is removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from hakaru.errors import EnvironmentError_

HINTS = {
    errno.ENOSPC: "free some space, then go on with `hakaru run STUDY --resume RUN`; finished repetitions are kept",
    errno.EDQUOT: "your quota is used up: free some space, then go on with --resume",
    errno.EROFS: "the file system is read-only: name another folder with --out or HAKARU_RUNS",
    errno.EACCES: "you may not write there: name another folder with --out or HAKARU_RUNS",
    errno.EPERM: "you may not write there: name another folder with --out or HAKARU_RUNS",
    errno.ENOTDIR: "a part of that path is a file: name another folder with --out or HAKARU_RUNS",
    errno.EEXIST: "something of that name is there: name another folder with --out or HAKARU_RUNS",
}


def environment_error(path: Path, doing: str, error: OSError) -> EnvironmentError_:
    """`error` as one that a user can act on."""
    reason = error.strerror or str(error)
    hint = HINTS.get(error.errno or 0, "name another folder with --out or HAKARU_RUNS")
    return EnvironmentError_(f"{doing} {path}: {reason}", hint)


def write_atomic(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Give `path` the bytes that `fill` writes, or leave it as it was and raise
    `EnvironmentError_`.
    """
    # Two processes may write the same file (each report analyses its run): each aside is its own.
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("wb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        aside.rename(path)
        sync_directory(path.parent)
    except OSError as e:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise environment_error(path, "cannot write", e) from e


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
