"""Directory of the pool that a chain is on: a file system in memory, in the mount namespace of the
sandbox. Nothing of it remains after the sandbox, however that ends, and the disk of this machine is
not measured with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hakaru import system_calls
from hakaru.errors import EnvironmentError_


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """Mount a file system in memory at a directory, which is created if it is missing. Raises
    EnvironmentError_ if one of the two is impossible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        system_calls.mount("tmpfs", str(folder), "tmpfs", system_calls.MS_NOSUID | system_calls.MS_NODEV)
    except OSError as error:
        raise EnvironmentError_(
            f"no file system in memory for the pool at {folder}: {error.strerror}",
            "name a directory that you may write to in HAKARU_FILES",
        ) from None
    try:
        yield
    finally:
        # Detached, because an engine that is being killed may still have files open.
        system_calls.umount2(str(folder), system_calls.MNT_DETACH)
        with contextlib.suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()
