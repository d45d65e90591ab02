"""Types of options that several commands share: names, help texts, converters and validators.

A converter gets the option's tokens and returns its value. It raises UsageError with the option and
a valid form.
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
    """Return a default as a user would type it. Returns None, which omits it from `--help`, for
    flags and empty lists.
    """
    if value is None or value is False or value == ():
        return None
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


DEFAULTS = Parameter(negative=(), show_default=_shown_default)
"""Settings of every option of every command."""


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
    """Return a converter of comma-separated lists of `choices`. With `none`, the word `none` is an
    empty list.
    """

    def parse(_: Any, tokens: Sequence[Token]) -> tuple[str, ...]:
        parts = [part.strip() for token in tokens for part in token.value.split(",") if part.strip()]
        if none and parts == ["none"]:
            return ()
        unknown = next((part for part in parts if part not in choices), None)
        if unknown is not None or not parts:
            option = tokens[0].keyword or ""
            also = ", or none" if none else ""
            hint = f"choose from {', '.join(choices)}{also}; separate several with commas"
            raise UsageError(
                f"{option}: unknown value {unknown!r}" if unknown else f"{option}: the list is empty", hint
            )
        return tuple(dict.fromkeys(parts))

    return parse


def duration(at_least: int = 0, at_most: int | None = None) -> Parameter:
    """An option that takes a duration. Its value and the bounds are in nanoseconds."""
    return _quantity("TIME", parse_duration, format_duration, at_least, at_most)


def rate(at_least: int = 0, at_most: int | None = None) -> Parameter:
    """An option that takes a rate. Its value and the bounds are in bits per second."""
    return _quantity("RATE", parse_rate, format_rate, at_least, at_most)


def size(at_least: int = 0, at_most: int | None = None) -> Parameter:
    """An option or argument that takes a size. Its value and the bounds are in bytes."""
    return _quantity("SIZE", parse_size, format_size, at_least, at_most)


def _quantity(
    metavar: str, parse: Callable[[object], int], show: Callable[[int], str], at_least: int, at_most: int | None
) -> Parameter:
    """An option that takes a number with a unit. Errors show the bounds with units."""

    def convert(_: Any, tokens: Sequence[Token]) -> int:
        token = tokens[-1]
        name = token.keyword or metavar
        try:
            value = parse(token.value)
        except ValueError as error:
            raise UsageError(f"{name}: {error}", "`--help` shows an example") from None
        if value < at_least:
            raise UsageError(f"{name}: {token.value} is too small", f"choose at least {show(at_least)}")
        if at_most is not None and value > at_most:
            raise UsageError(f"{name}: {token.value} is too large", f"choose at most {show(at_most)}")
        return value

    return Parameter(
        converter=convert,
        n_tokens=1,
        metavar=metavar,
        show_default=lambda value: None if value is None else show(value),
    )


Quick = Annotated[bool, Parameter(help="Run the study's quick form: fewer points, shorter measurements.")]
SEED = validators.Number(gte=0, lt=1 << 63)
"""Bounds of a seed, as in study files and tree files."""
Seed = Annotated[int | None, Parameter(metavar="N", validator=SEED, help="Override the study's seed.")]
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
        help="Run only points with these levels. Repeat the option for further factors.",
    ),
]
RunsFolder = Annotated[
    Path | None, Parameter(metavar="FOLDER", help="Folder of the runs. Default: $HAKARU_RUNS, else ./runs.")
]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON on stdout.")]
JsonLines = Annotated[bool, Parameter(name="--json", help="Print events as JSON lines on stdout.")]
Quiet = Annotated[bool, Parameter(help="Print no progress on stderr.")]
_OR_DEFAULT = "Default: html, and pdf if Pango is installed."
Reports = Annotated[
    tuple[str, ...],
    Parameter(
        converter=_list_of(FORMATS, none=True),
        n_tokens=1,
        metavar="FORMAT,…",
        help="Formats of the report: html, pdf, json, or none.",
    ),
]
ReportsOrDefault = Annotated[
    tuple[str, ...] | None,
    Parameter(
        converter=_list_of(FORMATS, none=True),
        n_tokens=1,
        metavar="FORMAT,…",
        help=f"Formats of the report: html, pdf, json, or none. {_OR_DEFAULT}",
    ),
]
FormatsOrDefault = Annotated[
    tuple[str, ...] | None,
    Parameter(
        name="--format",
        converter=_list_of(FORMATS),
        n_tokens=1,
        metavar="FORMAT,…",
        help=f"Formats of the report: html, pdf, json. {_OR_DEFAULT}",
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
