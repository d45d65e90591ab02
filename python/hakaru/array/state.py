"""The state directory: the data that an array keeps besides its file, and the lock of its server.

    STATE/                0700
      lock                held (flock) by the process that serves; contains its process ID
      control.sock        0600; the control socket while the array is served
      state.json          changes made online; see `Online`
      reservations/       persistent reservations to keep (APTPL); written by the engine
      pools/NAME/         a pool's metadata and data (docs/concepts/thin-pool.md); written by the
                          engine

`state.json` is written to a temporary file, synced and renamed before an operator's request is
acknowledged, so that a restart finds every acknowledged change.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError

from hakaru.errors import EnvironmentError_
from hakaru.study.model import Part

LOCK, SOCKET, RECORD = "lock", "control.sock", "state.json"
RESERVATIONS, POOLS = "reservations", "pools"
RECORD_MAX_BYTES = 16 << 20


class OnlineGroup(Part):
    """A group that was added to a pool online."""

    pool: str
    name: str
    size_bytes: int
    placement: dict[str, int] | None = None


class OnlineLu(Part):
    """An LU that was created online: a new volume, a snapshot or a clone."""

    lun: int
    pool: str
    volume: str
    size_bytes: int
    block_bytes: int = 512
    quota_bytes: int | None = None
    read_only: bool = False


class Online(Part):
    """Changes made online, beyond the array file. Of snapshots without an LU, all but the block
    length is recorded only in their pool.
    """

    format: Literal[1] = 1
    lus: list[OnlineLu] = Field(default=[])
    sizes: dict[str, int] = Field(default={})
    """POOL/VOLUME of a declared LU → larger size in bytes that it was given online."""
    blocks: dict[str, int] = Field(default={})
    """POOL/VOLUME of a snapshot without an LU → block length of the LU that it was taken of."""
    groups: list[OnlineGroup] = Field(default=[])


@dataclass
class State:
    """An array's state directory, locked by this process until `release`."""

    directory: Path
    online: Online
    _lock: int

    @classmethod
    def acquire(cls, directory: Path) -> Self:
        """Create the directory if absent, lock it and read it. Refuses a directory that is served,
        with the process ID of the server.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise unusable_error(directory, e) from e
        lock = _lock(directory)
        try:
            # Remove the socket of a killed process. No other process can be listening, because this
            # one holds the lock.
            (directory / SOCKET).unlink(missing_ok=True)
            return cls(directory, read_record(directory), lock)
        except BaseException:
            os.close(lock)
            raise

    def keep(self, online: Online) -> None:
        """Record `online` for the next start."""
        # Imported here, because it imports pyarrow, which client commands do not need.
        from hakaru.store.files import write_json

        write_json(self.directory / RECORD, online.model_dump(mode="json"))
        self.online = online

    def release(self) -> None:
        """Unlock the directory for another process. Safe to call twice."""
        if self._lock >= 0:
            (self.directory / SOCKET).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def owner(directory: Path) -> int | None:
    """Return the ID of the process that serves the directory, or None."""
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise unusable_error(directory, e) from e
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _recorded_pid(directory)
    finally:
        os.close(lock)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory while the block runs. Refuses a directory that is served."""
    lock = _lock(directory)
    try:
        yield
    finally:
        os.close(lock)


def _lock(directory: Path) -> int:
    """Lock the directory and write this process's ID for other processes. The lock lasts until the
    returned descriptor is closed.
    """
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise unusable_error(directory, e) from e
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        os.close(lock)
        raise served_error(directory) from None
    except OSError as e:
        os.close(lock)
        raise unusable_error(directory, e) from e
    return lock


def served_error(directory: Path) -> EnvironmentError_:
    """Return the error for a directory that another process serves."""
    return EnvironmentError_(
        f"{directory} is served by process {_recorded_pid(directory) or 'unknown'}",
        "stop that process first (Ctrl-C or `kill`), or give this array a `state` directory of its own",
    )


def read_record(directory: Path) -> Online:
    """Read `state.json`; the state of a new array if there is none. Refuses a damaged or newer
    file, and repairs nothing.
    """
    path = directory / RECORD
    try:
        with path.open("rb") as file:
            raw = file.read(RECORD_MAX_BYTES + 1)
    except FileNotFoundError:
        return Online()
    except OSError as e:
        raise unusable_error(directory, e) from e
    try:
        return Online.model_validate_json(raw)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise EnvironmentError_(
            f"{path} is damaged or of another version: {place}: {first['msg']}",
            "restore it from a backup; pools and LU files are untouched",
        ) from e


def unusable_error(directory: Path, error: OSError) -> EnvironmentError_:
    """Return the error for a directory that cannot be used."""
    reason = error.strerror or str(error)
    return EnvironmentError_(
        f"state: directory {directory}: {reason}", "set `state` to a directory that you may write to"
    )


def _recorded_pid(directory: Path) -> int | None:
    try:
        return int((directory / LOCK).read_text())
    except (OSError, ValueError):
        return None
