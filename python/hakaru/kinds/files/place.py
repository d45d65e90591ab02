"""The folder in which the trees of studies are built."""

from __future__ import annotations

import os
from pathlib import Path

from hakaru.kinds.files.load import FilesLoad

VARIABLE = "HAKARU_FILES"


def scratch_folder() -> Path:
    """The folder for trees: $HAKARU_FILES, else `hakaru/files` in the cache folder of this user.

    A study names directories below it and cannot leave it, because a study file is data.
    """
    own = os.environ.get(VARIABLE)
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakaru" / "files"


def directory_of(load: FilesLoad) -> Path:
    """The directory of a load."""
    return scratch_folder() / load.to.directory
