"""Configurations of the files engine, and an engine that runs one of them to its end."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hakaru.engine.binary import find_engine
from hakaru.files.tree import TreeSpec

TREE = {"trees": 3, "depth": 4, "folders": 9, "targets": 200, "scale": "1/10000"}
MARKER = "hakaru-files.json"


def trees(**changes: Any) -> dict[str, Any]:
    return TreeSpec.model_validate(TREE | changes).config().model_dump()


def place(directory: Path) -> dict[str, Any]:
    """Return the destination of the trees in a directory."""
    return {"kind": "directory", "path": str(directory)}


def build(directory: Path, **changes: Any) -> dict[str, Any]:
    return {"engine": "files", "task": "build", "destination": place(directory), "trees": trees(**changes)}


def verify(directory: Path) -> dict[str, Any]:
    return {"engine": "files", "task": "verify", "destination": place(directory)}


def remove(directory: Path) -> dict[str, Any]:
    return {"engine": "files", "task": "remove", "destination": place(directory)}


def load(directory: Path, **settings: Any) -> dict[str, Any]:
    config = {"engine": "files", "task": "load", "destination": place(directory), "tools": 2, "seed": 3}
    return config | {"trees": trees(), "sample_interval_ms": 100} | settings


class Ended:
    """Events and exit code of an engine that ran to its end."""

    def __init__(self, config: dict[str, Any], inside: tuple[str, ...] = ()) -> None:
        orders = [{"type": "configure", "contract": 1, "config": config}, {"type": "start", "at_ns": 0}]
        process = subprocess.Popen(
            [*inside, find_engine(), "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdin and process.stdout and process.stderr
        with process.stdin, process.stdout, process.stderr:
            for order in orders:
                process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            self.events = [json.loads(line) for line in process.stdout]
        self.code = process.wait(60)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def values(self) -> dict[str, float]:
        (result,) = self.of("result")
        values: dict[str, float] = result["values"]
        return values

    @property
    def failure(self) -> str:
        """Message and hint of the fatal error."""
        fatal = [event for event in self.of("error") if event["fatal"]]
        assert len(fatal) == 1, self.events
        return f"{fatal[0]['message']} ({fatal[0]['hint']})"

    @property
    def complaints(self) -> list[str]:
        return [event["message"] for event in self.of("error") if not event["fatal"]]


def first_file(directory: Path, least_bytes: int = 1) -> Path:
    """Return the first target of at least this size."""
    files = sorted(path for path in directory.glob("t0*/**/f*") if path.stat().st_size >= least_bytes)
    return files[0]
