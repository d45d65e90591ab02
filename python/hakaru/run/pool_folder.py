"""Directory of the pools of a study: a file system in memory, in the mount namespace of the
sandbox. Nothing of it remains after the sandbox, however that ends, and the disk of this machine is
not measured with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hakaru import system_calls
from hakaru.errors import EnvironmentError_

FOLDER = "/dev/shm"
"""Directory in the sandbox. It exists on every machine and keeps no file of hakaru."""

# By default a tmpfs takes half of the memory, and a pool may be larger. The size of the pool is the
# limit, and the plan has checked it against the memory.
_UNLIMITED = "size=0"


@contextlib.contextmanager
def mounted(folder: str) -> Iterator[None]:
    """Hide a directory by an empty file system in memory, for the sandbox alone. Raises
    EnvironmentError_ if that is impossible.
    """
    try:
        system_calls.mount("tmpfs", folder, "tmpfs", system_calls.MS_NOSUID | system_calls.MS_NODEV, _UNLIMITED)
    except OSError as error:
        raise EnvironmentError_(
            f"no file system in memory for the pool at {folder}: {error.strerror}",
            f"the directory {folder} must exist: `sudo mkdir {folder}`",
        ) from None
    try:
        yield
    finally:
        # Detached, because an engine that is being killed may still have files open.
        system_calls.umount2(folder, system_calls.MNT_DETACH)
