"""Sentences and numbers in English and Japanese, from one pair of catalogues (`locale/en.po`,
`locale/ja.po`), and from those of each kind of study.

Used by analysis (findings, caveats) and report. Message ids are dotted names. A test checks that
both catalogues have every id, with the same placeholders. Only plain `str.format` fields are filled
in; a value is never interpreted as a template.

Japanese text has one space between Japanese and Latin letters or digits, and none between Japanese
letters (docs/reference/glossary.md). A message cannot know the script of a value, so `join` sets
the space where a value is filled in.
"""

from __future__ import annotations

import functools
import math
import os
import re
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.pofile import read_po
from babel.numbers import NumberPattern, format_decimal, parse_pattern

from hakaru import kind
from hakaru.errors import EnvironmentError_

LANGUAGES = ("en", "ja")
LOCALE = Path(__file__).parent / "locale"
MISSING = "–"

JAPANESE = "[\u3041-\u3096\u30a1-\u30fa\u30fc\u3005\u3400-\u9fff]"
_LATIN = "[0-9A-Za-zµ%]"
_ENDS_JAPANESE, _BEGINS_JAPANESE = re.compile(f"{JAPANESE}$"), re.compile(JAPANESE)
_ENDS_LATIN, _BEGINS_LATIN = re.compile(f"{_LATIN}$"), re.compile(_LATIN)


@functools.cache
def catalogue(language: str) -> dict[str, tuple[str, ...]]:
    """Message id → its text, or its plural forms (singular first), of hakaru and of every kind.
    Raises EnvironmentError_ as `merged` does.
    """
    common = LOCALE / f"{language}.po"
    of_kinds = dict.fromkeys(each.folder / "locale" / f"{language}.po" for each in kind.registered().values())
    return merged([common, *(path for path in of_kinds if path.is_file())], language)


def merged(paths: Iterable[Path], language: str) -> dict[str, tuple[str, ...]]:
    """The messages of all catalogues. Raises EnvironmentError_ if two of them define the same id,
    because a report would then show the text of another package.
    """
    messages: dict[str, tuple[str, ...]] = {}
    origins: dict[str, Path] = {}
    for path in paths:
        for message, forms in read_catalogue(path, language).items():
            if message in messages:
                raise EnvironmentError_(
                    f"{path}: message {message!r} is already defined in {origins[message]}",
                    "begin the ids of a package's messages with its own name, or uninstall one of the packages",
                )
            messages[message], origins[message] = forms, path
    return messages


def read_catalogue(path: Path, language: str) -> dict[str, tuple[str, ...]]:
    """Message id → its text, or its plural forms, of one file."""
    with path.open("rb") as file:
        entries = read_po(file, locale=language)
    messages: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        if entry.id:
            key = entry.id if isinstance(entry.id, str) else entry.id[0]
            messages[key] = (entry.string,) if isinstance(entry.string, str) else tuple(entry.string or ())
    return messages


def say(language: str, message: str, values: Mapping[str, Any] | None = None) -> str:
    """The message in `language`. Numbers among `values` are formatted with `number`, unknown ones
    (None) as `–`; `count` selects the plural form.
    """
    forms = catalogue(language)[message]
    arguments = dict(values or {})
    form = forms[0] if len(forms) == 1 or arguments.get("count") == 1 else forms[1]
    shown = {k: number(v, language) if v is None or isinstance(v, (int, float)) else v for k, v in arguments.items()}
    return form.format_map(shown) if language == "en" else fill(form, shown)


def fill(form: str, values: Mapping[str, Any]) -> str:
    """`form.format_map(values)`, with Japanese spacing around each value."""
    filled = ""
    for text, name, _, _ in string.Formatter().parse(form):
        filled = join(filled, text)
        if name is not None:
            filled = join(filled, str(values[name]))
    return filled


def join(left: str, right: str) -> str:
    """Two parts of a Japanese sentence joined, with one space between Japanese and Latin letters:
    `IOPS は`, `使用率は`.
    """
    if _ENDS_JAPANESE.search(left.rstrip(" ")) and _BEGINS_JAPANESE.match(right.lstrip(" ")):
        return left.rstrip(" ") + right.lstrip(" ")
    mixed = (_ENDS_JAPANESE.search(left) and _BEGINS_LATIN.match(right)) or (
        _ENDS_LATIN.search(left) and _BEGINS_JAPANESE.match(right)
    )
    return f"{left} {right}" if mixed else left + right


def with_note(language: str, text: str, note: str) -> str:
    """`text (note)`, with the brackets of the language."""
    return f"{text} ({note})" if language == "en" else f"{text}（{note}）"


def language_of_locale() -> str:
    """The language of messages: `ja` if LC_ALL, LC_MESSAGES or LANG selects Japanese, otherwise
    `en`.
    """
    locale = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return "ja" if locale.lower().startswith("ja") else "en"


def has(message: str) -> bool:
    """Whether the catalogues have this id."""
    return message in catalogue("en")


@functools.cache
def _locale(language: str) -> Locale:
    return Locale.parse(language)


@functools.cache
def _pattern(written: str) -> NumberPattern:
    return parse_pattern(written)


def _formatted(value: float, pattern: str, language: str) -> str:
    # Babel would parse both again for every number, which takes longer than the number itself.
    return format_decimal(value, _pattern(pattern), locale=_locale(language))


def number(value: float | None, language: str = "en") -> str:
    """A number to three significant digits, with all digits before the decimal point: 2,316, 47.2,
    0.0312; `–` for None, NaN and infinities.

    Whole numbers below a million keep every digit, so counts stay exact.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e6):
        return _formatted(value, "#,##0", language)
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else max(2, 2 - math.floor(math.log10(size)))
    return _formatted(value, "#,##0." + "0" * decimals if decimals else "#,##0", language)


def tenths(value: float | None, language: str = "en") -> str:
    """A number with one decimal, so that columns of percentages line up; `–` for None, NaN and
    infinities.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return _formatted(value, "#,##0.0", language)


def percent(value: float | None) -> str:
    """A percentage without decimals and with `%`, for the terminal; `–` for None."""
    return MISSING if value is None else f"{value:.0f} %"
