"""Location of the engine's program."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from hakaru.errors import EnvironmentError_

NAME = "hakaru-engine"
VARIABLE = "HAKARU_ENGINE"


def find_engine() -> Path:
    """The program: `$HAKARU_ENGINE`, else beside this Python, else on PATH, else the release build
    of this checkout.

    Raises EnvironmentError_ that says how to get one.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not _runnable(Path(named)):
            raise EnvironmentError_(
                f"${VARIABLE} names {named}, which is no program", f"unset it, or let it name {NAME}"
            )
        return Path(named)
    for candidate in _candidates():
        if _runnable(candidate):
            return candidate
    raise EnvironmentError_(
        f"{NAME} is not installed",
        f"`pip install .` installs it; in a checkout `cargo build --release -p {NAME}` builds it; "
        f"or let ${VARIABLE} name it",
    )


def _candidates() -> list[Path]:
    # Not resolved: a virtual environment's Python is a link, and the program is beside the link.
    candidates = [Path(sys.executable).parent / NAME]
    on_path = shutil.which(NAME)
    if on_path is not None:
        candidates.append(Path(on_path))
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "Cargo.toml").is_file():
        # Never a debug build: it is slow enough to be the limit that is measured.
        candidates.append(checkout / "target" / "release" / NAME)
    return candidates


def _runnable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
