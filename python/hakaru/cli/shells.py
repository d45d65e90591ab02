"""Commands that describe the command line itself: `completion`, `man`. Both read the same
definitions as `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from hakaru.cli.help import EXAMPLES, epilogue_of, in_language, units
from hakaru.wording import language_of_locale

COMPLETION_EXAMPLES = """\
Examples: hakaru completion bash > ~/.local/share/bash-completion/completions/hakaru;
hakaru completion zsh > ~/.zfunc/_hakaru;
hakaru completion fish > ~/.config/fish/completions/hakaru.fish"""
MAN_EXAMPLES = "Example: hakaru man > ~/.local/share/man/man1/hakaru.1"

NEGATED = ("--no-", "--empty-")
"""Beginnings of the negated options that cyclopts lists, although hakaru switches them off."""


def register(app: App) -> None:
    """Add the commands to an application, which they describe."""

    @app.command(help_epilogue=COMPLETION_EXAMPLES)
    def completion(
        shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(name="SHELL", help="The shell: bash, zsh or fish.")],
        /,
    ) -> int:
        """Print a script that completes commands and options in a shell."""
        # `shell` is the name of a shell; none is run.
        options: dict[str, Any] = {"prog_name": "hakaru", "shell": shell}
        print(app.generate_completion(**options), end="")
        return 0

    @app.command(help_epilogue=MAN_EXAMPLES)
    def man() -> int:
        """Print the manual page, as groff source."""
        print("\n".join(manual(app, language_of_locale())))
        return 0


def manual(app: App, language: str = "en") -> Iterator[str]:
    """Lines of the manual page of an application, in the macros of man(7)."""

    def say(text: str) -> str:
        return _roff(in_language(text, language))

    version = str(app.version)
    yield f'.TH HAKARU 1 "" "hakaru {version}" "{say("User Commands")}"'
    about = "verification lab for virtualised servers on IP storage networks"
    if language == "ja":
        yield ".ad l"  # Japanese has no spaces to adjust
    yield from (f".SH {say('NAME')}", rf"hakaru \- {say(about)}")
    yield from (f".SH {say('SYNOPSIS')}", ".B hakaru", rf".I {say('COMMAND')} \fR[\fI{say('OPTIONS')}\fR]")
    yield from (f".SH {say('DESCRIPTION')}", say(str(app.help)))
    yield f".SH {say('COMMANDS')}"
    for path, command in commands(app):
        yield from _command(path, command, language)
    yield f".SH {say('EXIT STATUS')}"
    codes = re.split("[:：]", in_language(epilogue_of(app), language), maxsplit=1)[-1]
    for code, meaning in re.findall(r"([0-9/]+) ([^;.、。]+)", codes):
        yield from (".TP", f".B {_roff(code)}", _roff(meaning))
    yield f".SH {say('ENVIRONMENT')}"
    yield from (".TP", ".B HAKARU_RUNS", say("Folder of the runs. Default: ./runs."))
    yield from (".TP", ".B NO_COLOR", say("If set, progress is printed as plain lines."))


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command with its words, such as `("array", "create")`, in the order of `--help`."""
    for name in app:
        if not name.startswith("-"):
            yield (*path, name), app[name]
            yield from commands(app[name], (*path, name))


def _command(path: tuple[str, ...], command: App, language: str) -> Iterator[str]:
    yield f".SS {_roff(' '.join(('hakaru', *path)))}"
    yield _roff(in_language(str(command.help), language))
    if command.default_command is not None:
        for argument in command.assemble_argument_collection():
            if argument.show:
                names = ", ".join(name for name in argument.names if not name.startswith(NEGATED))
                meaning = in_language(argument.parameter.help or "", language)
                yield from (".TP", f".B {_roff(names)}", _roff(meaning))
    examples = re.sub(r"^Examples?: ", "", epilogue_of(command))
    if examples:
        title = "Examples: " if "; hakaru" in examples else "Example: "
        yield ".PP"
        yield _roff(EXAMPLES[title] if language == "ja" else title)
        for example in examples.split("; "):
            yield from (".PP", f".RS\n{_roff(example)}\n.RE")


def _plain(text: Any) -> str:
    """A text of the help on one line."""
    return " ".join(str(text or "").split())


def _roff(text: Any) -> str:
    """A text of the help as a line of roff, in which no character is a command."""
    plain = _plain(text)
    if not plain.isascii():
        # groff breaks lines at spaces only, and at `\:`.
        escaped = "".join(_escaped(unit) + ("" if unit.endswith(" ") else r"\:") for unit in units(plain))
        escaped = escaped.removesuffix(r"\:")
    else:
        escaped = _escaped(plain)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("`", "")
    return "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in escaped)
