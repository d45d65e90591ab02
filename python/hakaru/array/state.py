"""The state directory: what an array keeps beside its file, and who serves it.

    STATE/                0700
      lock                held (flock) by the process that serves; its process id
      control.sock        0600; the control socket while it is served
      state.json          what was made online; see `Online`
      reservations/       persistent reservations that initiators asked to be kept (APTPL), the
                          engine's
      pools/NAME/         a pool's metadata and data, the engine's (docs/concepts/thin-pool.md)

`state.json` is written whole, synced and renamed before an operator gets the answer that something
was done, so that a restart finds everything that was acknowledged.
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
    """A group that a pool was grown by."""

    pool: str
    name: str
    size_bytes: int
    placement: dict[str, int] | None = None


class OnlineLu(Part):
    """An LU that was made online: a new volume, a snapshot or a clone."""

    lun: int
    pool: str
    volume: str
    size_bytes: int
    block_bytes: int = 512
    quota_bytes: int | None = None
    read_only: bool = False


class Online(Part):
    """Changes made online, beyond the array file. The pool itself keeps snapshots that no LU
    shows.
    """

    format: Literal[1] = 1
    lus: list[OnlineLu] = Field(default=[])
    sizes: dict[str, int] = Field(default={})
    """POOL/VOLUME of a declared LU → bytes that it was grown to."""
    groups: list[OnlineGroup] = Field(default=[])


@dataclass
class State:
    """An array's state directory, held by this process until `release`."""

    directory: Path
    online: Online
    _lock: int

    @classmethod
    def acquire(cls, directory: Path) -> Self:
        """Make the directory if absent, lock it and read it. Refuses one that is served, with the
        owner's pid.
        """
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as e:
            raise unusable(directory, e) from e
        lock = _hold(directory)
        try:
            # A socket that a killed process left behind; no other process can be listening while we
            # hold the lock.
            (directory / SOCKET).unlink(missing_ok=True)
            return cls(directory, read_record(directory), lock)
        except BaseException:
            os.close(lock)
            raise

    def keep(self, online: Online) -> None:
        """Make `online` what a restart finds."""
        # Comes with pyarrow, which a command that only asks has no use for.
        from hakaru.store.files import write_json

        write_json(self.directory / RECORD, online.model_dump(mode="json"))
        self.online = online

    def release(self) -> None:
        """Let another process serve it. Safe to call twice."""
        if self._lock >= 0:
            (self.directory / SOCKET).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1


def owner(directory: Path) -> int | None:
    """Process that serves the directory, or None."""
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise unusable(directory, e) from e
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _recorded_pid(directory)
    finally:
        os.close(lock)


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """No process serves the directory while the block runs; refused if one does."""
    lock = _hold(directory)
    try:
        yield
    finally:
        os.close(lock)


def _hold(directory: Path) -> int:
    """The lock, taken for as long as the descriptor lives, with our process id for a process that
    comes second.
    """
    try:
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as e:
        raise unusable(directory, e) from e
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        os.close(lock)
        raise served(directory) from None
    except OSError as e:
        os.close(lock)
        raise unusable(directory, e) from e
    return lock


def served(directory: Path) -> EnvironmentError_:
    """The error of a second process."""
    return EnvironmentError_(
        f"{directory} is served by process {_recorded_pid(directory) or 'unknown'}",
        "stop that one first (Ctrl-C, or `kill` it), or give this array a `state` directory of its own",
    )


def read_record(directory: Path) -> Online:
    """`state.json`; what a new array has where there is none. Refuses a damaged or newer one, and
    never repairs.
    """
    path = directory / RECORD
    try:
        with path.open("rb") as file:
            raw = file.read(RECORD_MAX_BYTES + 1)
    except FileNotFoundError:
        return Online()
    except OSError as e:
        raise unusable(directory, e) from e
    try:
        return Online.model_validate_json(raw)
    except ValidationError as e:
        first = e.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise EnvironmentError_(
            f"{path} is damaged or of another version: {place}: {first['msg']}",
            "restore it from a backup; pools and LU files are untouched",
        ) from e


def unusable(directory: Path, error: OSError) -> EnvironmentError_:
    """The directory cannot be used."""
    reason = error.strerror or str(error)
    return EnvironmentError_(
        f"state: directory {directory}: {reason}", "let `state` name a directory that you may write"
    )


def _recorded_pid(directory: Path) -> int | None:
    try:
        return int((directory / LOCK).read_text())
    except (OSError, ValueError):
        return None
