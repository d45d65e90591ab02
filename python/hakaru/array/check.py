"""`hakaru array check`: has the engine check every pool of a stopped array. Changes and repairs
nothing.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hakaru.array.configure import pool_directory
from hakaru.array.load import Loaded
from hakaru.array.render import printable
from hakaru.array.state import locked, owner
from hakaru.engine.binary import find_engine
from hakaru.errors import EnvironmentError_
from hakaru.output import print_text

# Time limit: a check of a full pool of 256 TiB reads some GiB of metadata.
CHECK_S = 3600.0


def check_pools(loaded: Loaded) -> list[dict[str, Any]]:
    """Return `pool`, `directory`, `clean` and the report of the engine's checker for each pool.

    Raises `EnvironmentError_` if the array is served, because a pool that changes during the check
    cannot be judged.
    """
    if not loaded.file.pools:
        return []
    serving = owner(loaded.state)
    if serving is not None:
        raise EnvironmentError_(
            f"the array is served by process {serving}, and its pools are in use",
            "stop the array first",
        )
    with locked(loaded.state):
        absent = [pool.name for pool in loaded.file.pools if not Path(pool_directory(loaded, pool)).is_dir()]
        if absent:
            raise EnvironmentError_(f"pool {absent[0]} does not exist yet", "the first `hakaru array serve` creates it")
        return [_check(pool.name, Path(pool_directory(loaded, pool))) for pool in loaded.file.pools]


def _check(name: str, directory: Path) -> dict[str, Any]:
    command = [str(find_engine()), "check", str(directory)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CHECK_S, check=False, stdin=subprocess.DEVNULL
    )
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        # The pool is too damaged to be checked, or cannot be read. Other pools are still checked.
        messages = [line.removeprefix("error: ") for line in done.stderr.splitlines() if line.startswith("error: ")]
        fault = messages[0] if messages else f"the checker ended with exit status {done.returncode}"
        report = {"findings": [{"object": "pool", "fault": fault}]}
    return {**report, "pool": name, "directory": str(directory), "clean": done.returncode == 0}


def print_findings(checked: list[dict[str, Any]]) -> None:
    """Print a line for each pool, and one for each of its faults."""
    if not checked:
        print_text("this array has no pools")
    for checked_pool in checked:
        print_text(
            f"{checked_pool['pool']}: {'clean' if checked_pool['clean'] else 'damaged'} ({checked_pool['directory']})"
        )
        for finding in checked_pool.get("findings", []):
            print(printable(f"  {finding['object']}: {finding['fault']}"))
