"""The steps of docs/guide/array.md work as written, except those that need root and a network
address.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from hakaru.array.load import load_array

from tests.array.serving import json_of, process, served

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "array.md").read_text()


def blocks(kind: str) -> list[str]:
    """Return the code blocks of a kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_commands_of_the_guide_work_in_order(tmp_path: Path) -> None:
    file = tmp_path / "array.yaml"
    file.write_text(blocks("yaml")[0].replace("127.0.0.1:3260", "127.0.0.1:0"))
    lines = [line.partition("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("hakaru ")]
    assert [command[1] for command in commands] == [
        "serve", "status", "grow", "snapshot", "clone", "status", "delete", "delete", "resize", "check",
    ]  # fmt: skip
    commands = [[str(file) if part == "array.yaml" else part for part in command] for command in commands]
    _, *online, check = commands
    with served(file) as array:
        for command in online:
            ran = process(*command)
            assert ran.returncode == 0 and ran.stdout, ran
        (pool,) = json_of("array", "status", file)["pools"]
        assert [volume["name"] for volume in pool["volumes"]] == ["lu-0"]
        assert [group["name"] for group in pool["groups"]] == ["g0", "g1"]
        assert pool["volumes"][0]["size_bytes"] == 2 << 40
        array.end()
    assert "clean" in process(*check).stdout


def test_guides_file_for_external_access_is_valid(tmp_path: Path) -> None:
    first, others = blocks("yaml")[:2]
    lines = [line for line in first.splitlines() if not line.startswith("portals:")]
    file = tmp_path / "array.yaml"
    file.write_text("\n".join(lines) + "\n" + others)
    assert load_array(file).file.allow_external
