"""`hakaru array export` and `hakaru array import`: have the engine copy between a tape cartridge
that no array uses and a file in the format of SIMH.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hakaru.engine.binary import find_engine
from hakaru.errors import error_of_exit_code


def export_tape(cartridge: Path, tap: Path) -> dict[str, Any]:
    """Write the contents of a cartridge to a new file. Return `blocks`, `bytes`, `filemarks`.

    Raises EnvironmentError_ if the cartridge is in use, damaged or absent, or the file exists.
    """
    return _copied("export-tape", cartridge, tap)


def import_tape(tap: Path, cartridge: Path, capacity: int | None) -> dict[str, Any]:
    """Create a cartridge of `capacity` bytes, by default as many as needed, with the contents of a
    file. Return `blocks`, `bytes`, `filemarks`.

    Raises UsageError if the cartridge's name is no barcode or the contents do not fit, and
    EnvironmentError_ if the cartridge exists, or the file is damaged or absent.
    """
    options = [] if capacity is None else [f"--capacity={capacity}"]
    return _copied("import-tape", *options, tap, cartridge)


def _copied(verb: str, *arguments: str | Path) -> dict[str, Any]:
    options = [text for text in arguments if isinstance(text, str)]
    paths = [str(path) for path in arguments if isinstance(path, Path)]
    command = [str(find_engine()), verb, *options, "--", *paths]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        message, _, hint = ended.stderr.removeprefix("error: ").partition("\nhint: ")
        raise error_of_exit_code(ended.returncode, message.strip(), hint.strip())
    figures: dict[str, Any] = json.loads(ended.stdout)
    return figures
