"""docs/guide/array.md is done as it is written, but for what needs root and an address of one's
own.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from hakaru.array.load import load_array

from tests.array.serving import asked, done, served

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "array.md").read_text()


def blocks(kind: str) -> list[str]:
    """What stands in code blocks of a kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def test_commands_of_the_guide_work_in_their_order(tmp_path: Path) -> None:
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
            assert done(*command), command
        (pool,) = asked("array", "status", file)["pools"]
        assert [volume["name"] for volume in pool["volumes"]] == ["lu-0"]
        assert [group["name"] for group in pool["groups"]] == ["g0", "g1"]
        assert pool["volumes"][0]["size_bytes"] == 2 << 40
        array.end()
    assert "clean" in done(*check)


def test_file_for_others_is_an_array_file(tmp_path: Path) -> None:
    first, others = blocks("yaml")[:2]
    kept = [line for line in first.splitlines() if not line.startswith("portals:")]
    file = tmp_path / "array.yaml"
    file.write_text("\n".join(kept) + "\n" + others)
    assert load_array(file).file.allow_external
