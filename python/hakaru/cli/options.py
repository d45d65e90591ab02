"""Types of options that several commands share: names, help texts, converters and validators.

A converter gets the option's tokens and returns its value; it raises UsageError with the option and
what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token, validators

from hakaru.errors import UsageError
from hakaru.units import format_duration, format_rate, format_size, parse_duration, parse_rate, parse_size

REPETITIONS_MAX = 100
FORMATS = ("html", "pdf", "json")
LANGUAGES = ("en", "ja")

Levels = tuple[str, tuple[str, ...]]
"""A factor and its levels, as `--only` takes them."""


def _shown_default(value: Any) -> str | None:
    """Defaults as a user would type them; None, and so no default in `--help`, for flags and empty
    lists.
    """
    if value is None or value is False or value == ():
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


DEFAULTS = Parameter(negative=(), show_default=_shown_default)
"""Of every option of every command."""


def parse_only(_: Any, tokens: Sequence[Token]) -> tuple[Levels, ...]:
    """`--only vms=1,7` → `(("vms", ("1", "7")),)`."""
    only = [_parse_levels(token.value) for token in tokens]
    if len({factor for factor, _ in only}) < len(only):
        raise UsageError("--only names a factor twice", "list its levels together: --only vms=1,7")
    return tuple(only)


def _parse_levels(text: str) -> Levels:
    factor, separator, rest = text.partition("=")
    if not (factor and separator and rest):
        hint = "for example --only vms=1,7 --only pattern=random-32k"
        raise UsageError(f"--only {text}: write it as FACTOR=LEVEL,…", hint)
    levels = tuple(level.strip() for level in rest.split(","))
    other = next((level for level in levels if "=" in level), None)
    if other is not None:
        own = ",".join(level for level in levels if "=" not in level)
        raise UsageError(
            f"--only {text}: one --only holds the levels of one factor",
            f"repeat the option for each factor: --only {factor}={own} --only {other}",
        )
    return factor.strip(), levels


def _list_of(choices: Sequence[str], *, none: bool = False) -> Callable[[Any, Sequence[Token]], tuple[str, ...]]:
    """A converter of lists with commas of some of `choices`; `none`: or the word `none`, an empty
    list.
    """

    def parse(_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
        parts = [part.strip() for token in tokens for part in token.value.split(",") if part.strip()]
        if none and parts == ["none"]:
            return ()
        unknown = next((part for part in parts if part not in choices), None)
        if unknown is not None or not parts:
            option = tokens[0].keyword or ""
            also = ", or none" if none else ""
            hint = f"choose from {', '.join(choices)}{also}; several are separated by commas"
            raise UsageError(
                f"{option}: unknown value {unknown!r}" if unknown else f"{option}: the list is empty", hint
            )
        return tuple(dict.fromkeys(parts))

    return parse


def duration(at_least: int = 0, at_most: int | None = None) -> Parameter:
    """An option that takes a duration; its value is in nanoseconds, as the bounds are."""
    return _quantity("TIME", parse_duration, format_duration, at_least, at_most)


def rate(at_least: int = 0, at_most: int | None = None) -> Parameter:
    """An option that takes a rate; its value is in bits per second, as the bounds are."""
    return _quantity("RATE", parse_rate, format_rate, at_least, at_most)


def size(at_least: int = 0, at_most: int | None = None) -> Parameter:
    """An option or argument that takes a size; its value is in bytes, as the bounds are."""
    return _quantity("SIZE", parse_size, format_size, at_least, at_most)


def _quantity(
    metavar: str, parse: Callable[[object], int], show: Callable[[int], str], at_least: int, at_most: int | None
) -> Parameter:
    """A number with a unit. Errors give bounds with units, as the user writes them."""

    def convert(_: Any, tokens: Sequence[Token]) -> int:
        given = tokens[-1]
        name = given.keyword or metavar
        try:
            value = parse(given.value)
        except ValueError as error:
            raise UsageError(f"{name}: {error}", "`--help` shows an example") from None
        if value < at_least:
            raise UsageError(f"{name}: {given.value} is too little", f"choose at least {show(at_least)}")
        if at_most is not None and value > at_most:
            raise UsageError(f"{name}: {given.value} is too much", f"choose at most {show(at_most)}")
        return value

    return Parameter(
        converter=convert,
        n_tokens=1,
        metavar=metavar,
        show_default=lambda value: None if value is None else show(value),
    )


Quick = Annotated[bool, Parameter(help="Run the study's quick form: fewer points, shorter measurements.")]
Seed = Annotated[int | None, Parameter(metavar="N", help="Override the study's seed.")]
Repetitions = Annotated[
    int | None,
    Parameter(
        metavar="N",
        validator=validators.Number(gte=1, lte=REPETITIONS_MAX),
        help=f"Override the number of repetitions per point (1-{REPETITIONS_MAX}).",
    ),
]
Only = Annotated[
    tuple[Levels, ...],
    Parameter(
        converter=parse_only,
        n_tokens=1,
        consume_multiple=False,
        metavar="FACTOR=LEVEL,…",
        help="Keep only the points with these levels. Repeat the option for further factors.",
    ),
]
RunsFolder = Annotated[
    Path | None, Parameter(metavar="FOLDER", help="Folder that runs are kept in. Default: $HAKARU_RUNS, else ./runs.")
]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON on stdout.")]
JsonLines = Annotated[bool, Parameter(name="--json", help="Print events as JSON lines on stdout.")]
Quiet = Annotated[bool, Parameter(help="Show no progress on stderr.")]
Reports = Annotated[
    tuple[str, ...],
    Parameter(
        converter=_list_of(FORMATS, none=True),
        n_tokens=1,
        metavar="FORMAT,…",
        help="Formats of the report: html, pdf, json, or none.",
    ),
]
Formats = Annotated[
    tuple[str, ...],
    Parameter(
        name="--format",
        converter=_list_of(FORMATS),
        n_tokens=1,
        metavar="FORMAT,…",
        help="Formats of the report: html, pdf, json.",
    ),
]
Languages = Annotated[
    tuple[str, ...],
    Parameter(
        name="--lang",
        converter=_list_of(LANGUAGES),
        n_tokens=1,
        metavar="LANGUAGE,…",
        help="Languages of the report: en, ja.",
    ),
]
