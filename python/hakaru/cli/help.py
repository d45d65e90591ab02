"""`--help` in Japanese. The definitions of commands and options contain English texts only. They
are translated when they are printed, by the catalogue `locale/help.ja.po`.
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from cyclopts import App
from cyclopts.help import ColumnSpec, DefaultFormatter, HelpEntry, HelpPanel
from cyclopts.help.inline_text import InlineText
from cyclopts.help.specs import get_default_command_columns, get_default_parameter_columns
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group
from rich.containers import Lines
from rich.text import Text

from hakaru.wording import LOCALE, language_of_locale, read_catalogue

CATALOGUE = LOCALE / "help.ja.po"
OF_CYCLOPTS = ("Commands", "Arguments", "Options", "Display this message and exit.", "Display application version.")
"""Texts that the library adds to ours."""
OF_MANUAL = (
    "verification lab for virtualised servers on IP storage networks",
    "User Commands",
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "COMMANDS",
    "EXIT STATUS",
    "ENVIRONMENT",
    "COMMAND",
    "OPTIONS",
    "Folder of the runs. Default: ./runs.",
    "If set, progress is printed as plain lines.",
)
"""Texts that the manual page adds."""
EXAMPLES = {"Examples: ": "例：", "Example: ": "例："}

_UNIT = re.compile(r"[（［]*(?:[!-~]+|[^!-~])[、。，．：；）］〜ーっゃゅょァィゥェォッャュョ]*\s?")
"""A part of a line that is not broken: a Latin word, or a Japanese letter, with the brackets before
it and the characters that may not begin a line, such as small letters and the long sound mark.
"""


@contextmanager
def localised(app: App) -> Iterator[None]:
    """Let `--help` of the application and of its commands be in the language of the locale for the
    length of a block.
    """
    if language_of_locale() != "ja":
        yield
        return
    epilogues = [(command, epilogue) for command in commands(app) if (epilogue := command.help_epilogue)]
    app.help_formatter = JapaneseHelp()
    for command, epilogue in epilogues:
        command.help_epilogue = Epilogue(epilogue)
    try:
        yield
    finally:
        app.help_formatter = None
        for command, epilogue in epilogues:
            command.help_epilogue = epilogue


def in_language(text: str, language: str) -> str:
    """A text of the help in a language, on one line."""
    paragraphs = _paragraphs(text)
    return " ".join(map(_japanese, paragraphs) if language == "ja" else paragraphs)


def commands(app: App) -> Iterator[App]:
    """The application and every command, with those below it."""
    yield app
    for name in app:
        if not name.startswith("-"):
            yield from commands(app[name])


def texts(app: App) -> Iterator[str]:
    """Every text of `--help` that needs a translation."""
    yield from (*OF_CYCLOPTS, *OF_MANUAL)
    for command in commands(app):
        yield from _paragraphs(command.help)
        if command.default_command is not None:
            for argument in command.assemble_argument_collection():
                if argument.show:
                    yield from _paragraphs(argument.parameter.help or "")
        epilogue = _joined(command.help_epilogue or "")
        if epilogue and not epilogue.startswith(tuple(EXAMPLES)):
            yield epilogue


class JapaneseHelp(DefaultFormatter):
    """Prints the help of a command in Japanese."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one panel: commands, arguments or options."""
        shape = get_default_command_columns if panel.format == "command" else get_default_parameter_columns

        def columns(console: Console, options: ConsoleOptions, entries: list[HelpEntry]) -> tuple[ColumnSpec, ...]:
            *others, last = shape(console, options, entries)
            return (*others, last.copy(renderer=_description))

        formatter = DefaultFormatter(column_specs=columns)
        formatter(console, options, panel.copy(title=_japanese(str(panel.title))))

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the line that shows the syntax."""
        if usage:
            console.print("使い方：" + str(usage).removeprefix("Usage: "), markup=False, highlight=False)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Print what the command does."""
        for paragraph in _paragraphs(_source(description)):
            console.print(Group(JapaneseText(_japanese(paragraph)), ""))


def _description(entry: HelpEntry) -> Any:
    """The meaning of an option, with its choices, its default and whether it is required."""
    facts = [
        f"［選択肢：{'、'.join(entry.choices)}］" if entry.choices else "",
        f"［既定値：{entry.default}］" if entry.default is not None else "",
        "［必須］" if entry.required else "",
    ]
    paragraphs = " ".join(map(_japanese, _paragraphs(_source(entry.description))))
    return JapaneseText(" ".join(filter(None, [paragraphs, *facts])).replace("`", ""))


class JapaneseText(Text):
    """Text whose lines break between Japanese letters. `Text` breaks lines at spaces only."""

    def wrap(self, console: Console, width: int, **_: Any) -> Lines:
        """The text as lines of at most `width` cells, unless a word is longer."""
        return Lines(map(Text, _wrapped(self.plain, width)))


def units(text: str) -> list[str]:
    """The parts of a text between which a line may break."""
    return _UNIT.findall(text)


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for unit in units(text):
        if lines[-1] and cell_len(lines[-1] + unit.rstrip()) > width:
            lines.append("")
        lines[-1] += unit
    return [line.rstrip() for line in lines]


def _source(description: Any) -> str:
    """The text of a description, as it is written in the source."""
    # Only `--help` in Japanese needs this module, which takes long to import.
    from rich.markdown import Markdown

    if isinstance(description, InlineText):
        description = description.primary_renderable
    return description.markup if isinstance(description, Markdown) else str(description or "")


class Epilogue(str):
    """The text below the options, in Japanese. It has its line breaks, because it is printed as
    Markdown.
    """

    source: str
    """The English text."""

    def __new__(cls, source: str) -> Self:
        """The translation of a text for the width of the terminal."""
        text = _japanese(_joined(source))
        for english, japanese in EXAMPLES.items():
            if text.startswith(english):
                text = japanese + text.removeprefix(english)
        epilogue = super().__new__(cls, "  \n".join(_wrapped(text, shutil.get_terminal_size().columns)))
        epilogue.source = source
        return epilogue


def epilogue_of(command: App) -> str:
    """The text below the options of a command, in English on one line, in any locale."""
    epilogue = command.help_epilogue
    return _joined(epilogue.source if isinstance(epilogue, Epilogue) else str(epilogue or ""))


def _paragraphs(text: str) -> list[str]:
    return [joined for part in text.split("\n\n") if (joined := _joined(part))]


def _joined(text: str) -> str:
    return " ".join(text.split())


def _japanese(text: str) -> str:
    return _catalogue().get(text, (text,))[0]


@functools.cache
def _catalogue() -> dict[str, tuple[str, ...]]:
    return read_catalogue(CATALOGUE, "ja")
