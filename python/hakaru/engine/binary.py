"""Search for the engine's program."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from hakaru.errors import EnvironmentError_

NAME = "hakaru-engine"
VARIABLE = "HAKARU_ENGINE"


def find_engine() -> Path:
    """Return the program: `$HAKARU_ENGINE`, else the one beside this Python, else on PATH, else the
    release build of this checkout.

    Raises EnvironmentError_ with installation hints if there is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not _runnable(Path(named)):
            raise EnvironmentError_(
                f"${VARIABLE} names {named}, which is not a program", f"unset it, or set it to the path of {NAME}"
            )
        return Path(named)
    for candidate in _candidates():
        if _runnable(candidate):
            return candidate
    raise EnvironmentError_(
        f"{NAME} is not installed",
        f"`pip install .` installs it; in a checkout `cargo build --release -p {NAME}` builds it; "
        f"or set ${VARIABLE} to its path",
    )


def _candidates() -> list[Path]:
    # The path is not resolved, because a virtual environment's Python is a symbolic link, and the
    # program is beside the link.
    candidates = [Path(sys.executable).parent / NAME]
    on_path = shutil.which(NAME)
    if on_path is not None:
        candidates.append(Path(on_path))
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "Cargo.toml").is_file():
        # Never a debug build, which is so slow that it would be the bottleneck.
        candidates.append(checkout / "target" / "release" / NAME)
    return candidates


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
