"""Commands that describe the command line itself: `completion`, `man`. Both read the same
definitions as `--help`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

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
        print("\n".join(manual(app)))
        return 0


def manual(app: App) -> Iterator[str]:
    """Lines of the manual page of an application, in the macros of man(7)."""
    version = str(app.version)
    yield f'.TH HAKARU 1 "" "hakaru {version}" "User Commands"'
    yield from (".SH NAME", r"hakaru \- verification lab for virtualised servers on IP storage networks")
    yield from (".SH SYNOPSIS", ".B hakaru", r".I COMMAND \fR[\fIOPTIONS\fR]")
    yield from (".SH DESCRIPTION", _roff(app.help))
    yield ".SH COMMANDS"
    for path, command in commands(app):
        yield from _command(path, command)
    yield ".SH EXIT STATUS"
    for item in re.findall(r"([0-9/]+) ([^;.]+)", _plain(app.help_epilogue).partition(":")[2]):
        yield from (".TP", f".B {_roff(item[0])}", _roff(item[1]))
    yield ".SH ENVIRONMENT"
    yield from (".TP", ".B HAKARU_RUNS", "Folder of the runs. Default: ./runs.")
    yield from (".TP", ".B NO_COLOR", "If set, progress is printed as plain lines.")


def commands(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command with its words, such as `("array", "create")`, in the order of `--help`."""
    for name in app:
        if not name.startswith("-"):
            yield (*path, name), app[name]
            yield from commands(app[name], (*path, name))


def _command(path: tuple[str, ...], command: App) -> Iterator[str]:
    yield f".SS {_roff(' '.join(('hakaru', *path)))}"
    yield _roff(command.help)
    if command.default_command is not None:
        for argument in command.assemble_argument_collection():
            if argument.show:
                names = ", ".join(name for name in argument.names if not name.startswith(NEGATED))
                yield from (".TP", f".B {_roff(names)}", _roff(argument.parameter.help))
    examples = re.sub(r"^Examples?: ", "", _plain(command.help_epilogue))
    if examples:
        yield ".PP"
        yield "Examples:" if "; hakaru" in examples else "Example:"
        for example in examples.split("; "):
            yield from (".PP", f".RS\n{_roff(example)}\n.RE")


def _plain(text: Any) -> str:
    """A text of the help on one line."""
    return " ".join(str(text or "").split())


def _roff(text: Any) -> str:
    """A text of the help as a line of roff, in which no character is a command."""
    escaped = _plain(text).replace("\\", r"\e").replace("-", r"\-").replace("`", "")
    escaped = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
