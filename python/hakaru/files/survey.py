"""Survey of an existing directory by the engine's `survey`, and a description of trees like it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hakaru.engine.binary import find_engine
from hakaru.errors import UsageError, error_of_exit_code

DEPTH_MAX, FOLDERS_MAX, TARGETS_MAX = 64, 65_536, 1_000_000


def survey(directory: Path, files_max: int) -> dict[str, Any]:
    """Count the files below a directory by size and depth, without reading their contents.

    Raises EnvironmentError_ for a directory that cannot be read.
    """
    command = [str(find_engine()), "survey", f"--files-max={files_max}", "--", str(directory)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        message, _, hint = ended.stderr.removeprefix("error: ").partition("\nhint: ")
        raise error_of_exit_code(ended.returncode, message.strip(), hint.strip())
    counted: dict[str, Any] = json.loads(ended.stdout)
    return counted


def tree_of(counted: dict[str, Any]) -> dict[str, Any]:
    """A description of one tree like the directory, as `tree:` of a study: depth, folders, number
    and sizes of the files, and their levels.

    Raises UsageError for a directory without files.
    """
    if not counted["files"]:
        raise UsageError("the directory has no files", "choose a directory with files")
    depth = min(counted["depth"], DEPTH_MAX)
    weights = [float(weight) for weight in counted["placement"]["weights"][:depth]]
    folders = min(counted["folders"], FOLDERS_MAX) if depth > 1 else 1
    return {
        "trees": 1,
        "depth": depth,
        "folders": max(folders, depth),
        "targets": min(counted["files"], TARGETS_MAX),
        "placement": weights,
        "sizes": {
            "table": [
                {"up_to": row["up_to_bytes"], "count": float(row["count"])} for row in counted["sizes"]["classes"]
            ]
        },
        "total": "drawn",
    }


def shortened(counted: dict[str, Any]) -> list[str]:
    """Sentences about the parts that a tree like the directory lacks, because a tree is limited."""
    limits = {"depth": ("levels", DEPTH_MAX), "folders": ("folders", FOLDERS_MAX), "files": ("files", TARGETS_MAX)}
    return [
        f"the tree has {most:,} {what}, and the directory has {counted[name]:,}"
        for name, (what, most) in limits.items()
        if counted[name] > most
    ]


def yaml_of(tree: dict[str, Any], about: list[str]) -> str:
    """The description as YAML, after comments."""
    lines = [f"# {line}" for line in about]
    lines.append("tree:")
    for name, value in tree.items():
        if name == "sizes":
            lines += ["  sizes:", "    table:"]
            lines += [f"      - {{up_to: {row['up_to']}, count: {row['count']:g}}}" for row in value["table"]]
        elif isinstance(value, list):
            lines.append(f"  {name}: [{', '.join(f'{number:g}' for number in value)}]")
        else:
            lines.append(f"  {name}: {value}")
    return "\n".join(lines) + "\n"
