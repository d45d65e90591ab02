"""The captures of a repetition: pcapng files that watches wrote, moved to the run directory.

A watch writes parts (`NODE-00001.pcapng`, …) and deletes the oldest. A single part becomes
`capture/POINT-R-NODE.pcapng`. Several parts keep their numbers; if the first number is not 1, the
earlier parts were deleted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hakaru.store.files import environment_error, sync_directory

SUFFIX = ".pcapng"


def capture_parts(file: Path) -> list[Path]:
    """Return the parts of the capture that a watch wrote to `file`, in order."""
    numbered = re.compile(re.escape(file.stem) + r"-(\d{5,})" + re.escape(file.suffix))
    parts = [(int(match[1]), path) for path in file.parent.iterdir() if (match := numbered.fullmatch(path.name))]
    return [path for _, path in sorted(parts)]


def keep_captures(folder: Path, stem: str, files: Mapping[str, Path]) -> list[Path]:
    """Move captures (node → the configured file of its watch) to `folder`. Returns the moved
    files.
    """
    kept: list[Path] = []
    try:
        folder.mkdir(exist_ok=True)
        for node, file in files.items():
            parts = capture_parts(file)
            for part in parts:
                number = part.stem.removeprefix(file.stem) if len(parts) > 1 else ""
                kept.append(folder / f"{stem}-{node}{number}{SUFFIX}")
                _sync(part)
                part.rename(kept[-1])
        sync_directory(folder)
    except OSError as e:
        raise environment_error(folder, "cannot keep captures in", e) from e
    return kept


def _sync(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
