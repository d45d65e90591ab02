"""docs/reference/array.md lists every setting with its default, every command, and nothing that is
not there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hakaru.array import model
from hakaru.cli import main
from hakaru.cli.array import app
from hakaru.units import format_duration, format_size
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "array.md").read_text()


def rows(after: str) -> dict[str, str]:
    """First table after a line that begins so: name → default."""
    text = PAGE[PAGE.index(after) :]
    table = re.search(r"\n\|.*?\n\n", text, re.DOTALL)
    assert table
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.group().strip().splitlines()[2:]]
    return {row[0].strip("`"): row[1].strip("`") for row in cells}


def default(of: type[BaseModel], name: str) -> str | None:
    """As the page writes it; None where words say it."""
    field = of.model_fields[name]
    if field.is_required():
        return "needed"
    value = field.default
    assert value is not PydanticUndefined
    kind = str(field.annotation) + str(field.metadata)
    if "parse_size" in kind and isinstance(value, int):
        return format_size(value)
    if "parse_duration" in kind:
        return format_duration(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    return f"[{', '.join(value)}]" if isinstance(value, list) and value else None


def test_every_setting_is_there_with_its_default() -> None:
    for of, after in (
        (model.ArrayFile, "## Settings"),
        (model.Lu, "An LU, under `lus`"),
        (model.Pool, "A pool, under `pools`"),
        (model.Access, "Under `access`"),
    ):
        found = rows(after)
        assert list(found) == list(of.model_fields) or set(found) == set(of.model_fields), after
        for name, said in found.items():
            expected = default(of, name)
            assert expected in (None, said), f"{after}: {name} defaults to {expected}, the page says {said}"


def test_every_store_group_user_and_rule_has_its_settings_named() -> None:
    for of in (*get_args(get_args(model.Store)[0]), model.Group, model.ChapUser, model.Rule, model.LuAccess):
        for name in of.model_fields:
            assert re.search(rf"[`{{ ]{name}[`:,}}]", PAGE), f"{of.__name__}.{name}"


def test_every_command_and_option_is_there(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    listed = set(re.findall(r"^\| `hakaru array ([a-z]+) ", PAGE, re.MULTILINE))
    commands: dict[str, Any] = {name: app[name] for name in app if not name.startswith("-")}
    assert listed == set(commands)
    for name in commands:
        line = next(line for line in PAGE.splitlines() if line.startswith(f"| `hakaru array {name} "))
        assert main(["array", name, "--help"]) == 0
        options = set(re.findall(r"--[a-z]+", capsys.readouterr().out))
        assert "--json" in options
        for option in options - {"--help", "--json", "--version"}:
            assert option in line, f"{option} of {name} is not on the page"
