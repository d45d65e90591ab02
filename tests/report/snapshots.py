"""Snapshots in `golden/`: one line for each block of a page, with texts, and numbers in pixels or
points.

Numbers may differ by a few, because versions of browsers round differently. The variable
HAKARU_SNAPSHOTS=write writes them anew.
"""

from __future__ import annotations

import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from hakaru import __version__

GOLDEN = Path(__file__).parent / "golden"
TOLERANCE = 4


def compare(name: str, lines: list[list[Any]]) -> None:
    """Compare with the snapshot: texts exactly, numbers within `TOLERANCE`."""
    path = GOLDEN / f"{name}.json"
    if os.environ.get("HAKARU_SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text("[\n" + ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n]\n")
    expected = json.loads(path.read_text())
    texts = [[part for part in line if isinstance(part, str)] for line in lines]
    assert texts == [[part for part in line if isinstance(part, str)] for line in expected]
    moved = [
        (line, old)
        for line, old in zip(lines, expected, strict=True)
        if any(abs(a - b) > TOLERANCE for a, b in zip(line, old, strict=True) if isinstance(a, int))
    ]
    assert moved == []


def stable(text: str) -> str:
    """A text without the parts that differ from run to run."""
    text = re.sub(r"(vm-sweep-20260101-000000-)[0-9a-f]{4}", r"\1xxxx", text)
    for version in (__version__, platform.python_version()):
        text = text.replace(version, "V")
    return text
