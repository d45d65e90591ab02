"""`--help` of every command: full phrases, examples, and no empty defaults."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hakaru.cli import app, main

from tests.dialect import dialect_in

COMMANDS = [
    *((name,) for name in app if not name.startswith("-")),
    *((group, name) for group in ("array", "files") for name in app[group] if not name.startswith("-")),
]


def help_of(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main([*command, "--help"]) == 0
    shown: Any = capsys.readouterr()
    assert shown.err == ""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", shown.out)


def test_help_tests_cover_all_commands() -> None:
    assert {("run",), ("tune",), ("array", "create")} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_no_empty_default(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    shown = help_of(capsys, *command)
    assert not re.search(r"\[default: (False|None|\(.*?\)|)\]", shown)


@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_help_is_in_plain_english(capsys: pytest.CaptureFixture[str], command: tuple[str, ...]) -> None:
    assert dialect_in(help_of(capsys, *command)) == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_exit_codes_are_listed_once_for_all_commands(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert "Exit codes" not in help_of(capsys, *command)
    assert "Exit codes" in help_of(capsys)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_has_a_sentence_that_ends_with_a_full_stop(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    resolved = app
    for name in command:
        resolved = resolved[name]
    if resolved.default_command is None:
        return
    for argument in resolved.assemble_argument_collection():
        if argument.show:
            sentence = argument.parameter.help or ""
            assert re.fullmatch(r"[A-Z/`].*\.", sentence, re.DOTALL), f"{argument.name}: {sentence!r}"


@pytest.mark.parametrize("command", ["run", "plan", "report", "query", "tune", "analyse"])
def test_help_of_commands_with_many_options_gives_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert f"hakaru {command} " in help_of(capsys, command).partition("Example")[2]
