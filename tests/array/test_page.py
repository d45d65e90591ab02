"""docs/reference/array.md lists every setting with its default and every command, and nothing that
does not exist.
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


TAPE = (model.TapeDrive, model.Cartridge, model.TapeTimes)


def rows(after: str) -> dict[str, str]:
    """Return the first table after the text `after`: name → default."""
    text = PAGE[PAGE.index(after) :]
    table = re.search(r"\n\|.*?\n\n", text, re.DOTALL)
    assert table
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.group().strip().splitlines()[2:]]
    return {row[0].strip("`"): row[1].strip("`") for row in cells}


def default(model_class: type[BaseModel], name: str) -> str | None:
    """Return a default as the page writes it; None if the page describes it in words."""
    field = model_class.model_fields[name]
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


def test_page_lists_every_setting_with_its_default() -> None:
    for model_class, after in (
        (model.ArrayFile, "## Settings"),
        (model.Lu, "An LU, under `lus`"),
        (model.Pool, "A pool, under `pools`"),
        (model.Cap, "A cap, under `caps`"),
        (model.TapeLibrary, "A tape library, under `tape_library`"),
        (model.Access, "Under `access`"),
    ):
        listed = rows(after)
        assert list(listed) == list(model_class.model_fields) or set(listed) == set(model_class.model_fields), after
        for name, documented in listed.items():
            expected = default(model_class, name)
            assert expected in (None, documented), f"{after}: {name} defaults to {expected}, not {documented}"


def test_page_names_the_settings_of_stores_groups_users_and_rules() -> None:
    for model_class in (
        *get_args(get_args(model.Store)[0]),
        model.Group,
        model.ChapUser,
        model.Rule,
        model.LuAccess,
        *TAPE,
    ):
        for name in model_class.model_fields:
            assert re.search(rf"[`{{ ]{name}[`:,}}]", PAGE), f"{model_class.__name__}.{name}"


def test_page_lists_every_command_and_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
