"""The runs of a folder: what they are and how large, their notes, and the removal of old ones.

A note is the file `note.txt` of a run, so that it can be changed while the run is being written.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from hakaru.errors import UsageError
from hakaru.store.directory import FORMAT, PARTIAL, described, has_results, run_directories
from hakaru.store.files import environment_error, sync_directory, write_atomic

NOTE = "note.txt"
NOTE_MAX = 1000
"""Longest note, in characters."""
UNREADABLE_NOTE = "(the note cannot be read)"
DELETED = ".deleted"
"""End of the name of a run that is being removed. Its name begins with a dot."""

Status = Literal["running", "done", "interrupted", "failed", "killed", "unreadable"]

WRITTEN = [status for status in get_args(Status) if status not in ("killed", "unreadable")]
"""Values of `status` in run.json."""
TEXTS = ("study", "kind", "origin", "started", "ended", "error")


@dataclass(frozen=True)
class StoredRun:
    """One run of a folder."""

    name: str
    path: Path
    study: str
    kind: str
    status: Status
    """`killed`: its process ended without closing the run. `unreadable`: of another format, or not
    as hakaru writes it.
    """
    form: Literal["quick", "full"]
    origin: str
    started: str
    ended: str | None
    results: bool
    """Whether it has a finished repetition."""
    size_bytes: int
    note: str
    error: str | None

    @property
    def is_usable(self) -> bool:
        """Whether `latest` may mean this run: it has results and did not fail."""
        return self.results and self.status not in ("failed", "unreadable")

    def to_json(self) -> dict[str, Any]:
        """One element of `hakaru runs --json`."""
        return asdict(self) | {"path": str(self.path)}


def stored_runs(folder: Path) -> list[StoredRun]:
    """All runs in `folder`, oldest first, also those that cannot be read. Runs of other users whose
    directory is closed are left out.
    """
    runs = [_stored(directory) for directory in run_directories(folder)]
    return sorted(runs, key=lambda run: (run.started, run.name))


def stored_run(folder: Path, name: str) -> StoredRun | None:
    """The run called `name` in `folder`; None if there is none. No other path can be named."""
    names = {directory.name.removesuffix(PARTIAL): directory for directory in run_directories(folder)}
    return _stored(names[name]) if name in names else None


def _stored(directory: Path) -> StoredRun:
    run = described(directory)
    texts = {name: value for name in TEXTS if isinstance(value := run.get(name), str)}
    return StoredRun(
        name=directory.name.removesuffix(PARTIAL),
        path=directory,
        study=texts.get("study", ""),
        kind=texts.get("kind", ""),
        status=_status(directory, run),
        form="quick" if run.get("quick") else "full",
        origin=texts.get("origin", ""),
        started=texts.get("started", ""),
        ended=texts.get("ended"),
        results=_has_results(directory),
        size_bytes=_size(directory),
        note=read_note(directory),
        error=texts.get("error"),
    )


def _status(directory: Path, run: dict[str, Any]) -> Status:
    if run.get("format") != FORMAT or not _is_well_formed(run):
        return "unreadable"
    status: Status = run["status"]
    if status != "running":
        return status
    try:
        with _locked(directory, fcntl.LOCK_SH) as free:
            return "killed" if free else "running"
    except OSError:
        return "unreadable"  # it belongs to another user


def _is_well_formed(run: dict[str, Any]) -> bool:
    """Whether the fields that lists of runs show have the types that hakaru writes."""
    required = all(isinstance(run.get(name), str) for name in ("study", "kind", "started"))
    optional = all(isinstance(run.get(name), str | None) for name in TEXTS)
    return required and optional and run.get("status") in WRITTEN


def _has_results(directory: Path) -> bool:
    try:
        return has_results(directory)
    except OSError:
        return False


@contextlib.contextmanager
def _locked(directory: Path, kind: int) -> Iterator[bool]:
    """Lock a run and return whether that was possible. `kind`: LOCK_EX, as its writer does, or
    LOCK_SH, which only its writer excludes.
    """
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(lock)


def _size(directory: Path) -> int:
    """Bytes of all files of a run. Files that vanish meanwhile are left out."""
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(folder) / name).lstat().st_size
    return total


def read_note(directory: Path) -> str:
    """The note of a run; empty without one."""
    try:
        return (directory / NOTE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return UNREADABLE_NOTE


def check_note(text: str) -> str:
    """The text as one line. Raises UsageError if it is too long."""
    line = " ".join(text.split())
    if len(line) > NOTE_MAX:
        message = f"the note has {len(line)} characters; at most {NOTE_MAX} are possible"
        raise UsageError(message, "write a shorter one")
    return line


def write_note(directory: Path, text: str) -> None:
    """Set the note of a run; an empty text removes it. Raises UsageError if it is too long,
    EnvironmentError_ if the run cannot be changed.
    """
    line = check_note(text)
    if line:
        write_atomic(directory / NOTE, lambda file: file.write(f"{line}\n".encode()))
        return
    try:
        (directory / NOTE).unlink(missing_ok=True)
    except OSError as error:
        raise environment_error(directory / NOTE, "cannot remove", error) from error


def removable(runs: Sequence[StoredRun], keep: int, *, noted: bool = False) -> list[StoredRun]:
    """Runs that are not among the newest `keep` of their study: older ones, those that failed, and
    those without results. Pure.

    Runs that are being written are never removable, and runs with a note only if `noted`. Neither
    are those of another format, which another version or another program may need.
    """
    kept: Counter[str] = Counter()
    removed = []
    for run in reversed(runs):
        if run.status in ("running", "unreadable") or (run.note and not noted):
            continue
        if run.is_usable and kept[run.study] < keep:
            kept[run.study] += 1
        else:
            removed.append(run)
    return removed[::-1]


def remove(run: StoredRun) -> bool:
    """Remove a run. Returns False if another process has begun to write it. After a crash at any
    instant, the run is either complete or no run any more.
    """
    with _locked(run.path, fcntl.LOCK_EX) as free:
        if not free:
            return False
        gone = run.path.with_name(f".{run.name}{DELETED}")
        try:
            run.path.rename(gone)
            sync_directory(gone.parent)
            shutil.rmtree(gone)
        except OSError as e:
            raise environment_error(run.path, "cannot remove", e) from e
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what a `remove` that was killed has left in `folder`."""
    for path in folder.glob(f".*{DELETED}"):
        shutil.rmtree(path, ignore_errors=True)
