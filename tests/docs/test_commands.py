"""Every `hakaru` command line of the documentation names a command and options that exist."""

from __future__ import annotations

import functools
import re

import pytest
from hakaru.cli import app
from hakaru.cli.shells import commands

from tests.docs.pages import FENCED, PAGES, ROOT

COMMANDS = dict(commands(app))
INLINE = re.compile(r"`(?:\.venv/bin/)?hakaru ([a-z][^`\n]*)`")
LINE = re.compile(r"^(?:\.venv/bin/)?hakaru ([a-z].*)$", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)")


def command_lines() -> list[tuple[str, str]]:
    """`(page, arguments)` of every command line, in blocks of code and in sentences."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in FENCED.finditer(text) if block[2] == "sh" for line in LINE.findall(block[3])]
        for line in [*lines, *INLINE.findall(FENCED.sub("", text))]:
            found.append((str(page.relative_to(ROOT)), line.partition(" #")[0].split(";")[0].split(" | ")[0]))
    return found


LINES = command_lines()


def path_of(arguments: str) -> tuple[str, ...]:
    """The longest command with which the arguments begin; empty if there is none."""
    words = arguments.split()
    paths = [tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in COMMANDS]
    return paths[0] if paths else ()


@functools.cache
def options_of(path: tuple[str, ...]) -> frozenset[str]:
    """The options of a command."""
    own = COMMANDS[path]
    # A group such as `hakaru array` has commands only.
    collection = own.assemble_argument_collection() if own.default_command else ()
    return frozenset(("--help", "--version", *(name for argument in collection for name in argument.names)))


@pytest.mark.parametrize(("page", "arguments"), LINES)
def test_commands_and_options_exist(page: str, arguments: str) -> None:
    path = path_of(arguments)
    assert path, f"{page}: there is no such command"
    assert [option for option in OPTION.findall(arguments) if option not in options_of(path)] == [], page


def test_many_commands_are_found() -> None:
    assert len(LINES) > 100
    chief = {"run", "plan", "init", "compare", "query", "tune", "analyse", "web", "doctor"}
    assert chief <= {path_of(arguments)[0] for _, arguments in LINES}
