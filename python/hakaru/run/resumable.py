"""Whether a run may be continued: by the same hakaru, on the same machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hakaru import __version__
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.run.machine import describe_machine
from hakaru.store import RunReader

MACHINE = "machine.json"
_FACTS = {"cpu_model": "processor", "cpus": "number of processors", "architecture": "architecture", "kernel": "kernel"}
"""Facts in machine.json that every number of a run depends on → their names."""


def check_resumable(directory: Path, run: dict[str, Any]) -> None:
    """Check that a run is not finished, and that new repetitions can be compared with those that it
    has. Raises UsageError.
    """
    reader = RunReader(directory)
    failed = any(record["status"] == "failed" for record in reader.repetitions())
    if run["status"] == "done" and not failed:
        raise UsageError(f"{directory.name} is finished", f"`hakaru report {directory.name}` writes its report again")
    if run["versions"]["hakaru"] != __version__ or run["versions"]["contract"] != contract.CONTRACT_VERSION:
        raise UsageError(
            f"{directory.name} was started by hakaru {run['versions']['hakaru']}, this is {__version__}",
            "results from different versions cannot be mixed in one run; start a new one",
        )
    # A run that was killed at once has no description of the machine, and no repetition.
    if not (directory / MACHINE).exists():
        return
    before, now = reader.read(MACHINE), describe_machine()
    for fact, name in _FACTS.items():
        if before.get(fact) != now[fact]:
            raise UsageError(
                f"{directory.name} was measured on another machine: {name} {before.get(fact)} there, {now[fact]} here",
                "results from different machines cannot be mixed in one run; start a new one",
            )
