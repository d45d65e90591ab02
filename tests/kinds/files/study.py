"""A small study of files, as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LAB: dict[str, Any] = {"hosts": ["client"], "array": "server"}
TREE: dict[str, Any] = {"trees": 4, "depth": 5, "folders": 9, "targets": 250, "scale": "1/1000"}


def fields(**parts: Any) -> dict[str, Any]:
    """A study with these parts instead of its own; `load` is merged."""
    study: dict[str, Any] = {
        "format": 1,
        "id": "small",
        "title": "small",
        "question": "How many?",
        "expectation": "Some.",
        "origin": "measured",
        "lab": LAB,
        "factors": [{"tools": [1, 2]}],
        "measure": {"repetitions": 1, "sample_interval": "100 ms"},
    }
    load = {"kind": "files", "tree": TREE, "tools": 1, "to": {"directory": "small"}, **parts.pop("load", {})}
    return study | parts | {"load": load}


def written(folder: Path, **parts: Any) -> Path:
    """The study as a file; YAML includes JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(json.dumps(fields(**parts)))
    return path
