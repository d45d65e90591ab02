"""A small study of packets, as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LAB: dict[str, Any] = {"hosts": ["generator"], "device": {"name": "device", "forwards": "bridge"}}


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
        "variables": {"frame": {"sets": ["load.frame"]}},
        "factors": [{"frame": [64]}],
        "measure": {"repetitions": 1, "sample_interval": "100 ms"},
    }
    load = {"kind": "packets", **parts.pop("load", {})}
    if "frame" in load:
        study["factors"] = [{"frame": [load["frame"]]}]
    return study | parts | {"load": load}


def written(folder: Path, **parts: Any) -> Path:
    """The study as a file; YAML includes JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "study.yaml"
    path.write_text(json.dumps(fields(**parts)))
    return path
