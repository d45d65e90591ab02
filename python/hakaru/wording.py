"""Sentences and numbers in English and Japanese, from one pair of catalogues (`locale/en.po`,
`locale/ja.po`), and from those of each kind of study.

Used by analysis (findings, caveats) and report. Message ids are dotted names; a test holds that
both catalogues have every id, with the same placeholders. Placeholders are filled with `str.format`
*fields only*: what is filled in is never itself read as a template.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from babel.messages.pofile import read_po
from babel.numbers import format_decimal

from hakaru import kind

LANGUAGES = ("en", "ja")
LOCALE = Path(__file__).parent / "locale"
MISSING = "–"


@functools.cache
def catalogue(language: str) -> dict[str, tuple[str, ...]]:
    """Message id → its text, or its texts by plural form (singular first)."""
    folders = [LOCALE, *(each.folder / "locale" for each in kind.registered().values())]
    files = [folder / f"{language}.po" for folder in folders]
    found: dict[str, tuple[str, ...]] = {}
    for file in files:
        if file == files[0] or file.is_file():
            found |= _read(file, language)
    return found


def _read(path: Path, language: str) -> dict[str, tuple[str, ...]]:
    with path.open("rb") as file:
        read = read_po(file, locale=language)
    found: dict[str, tuple[str, ...]] = {}
    for message in read:
        if message.id:
            key = message.id if isinstance(message.id, str) else message.id[0]
            found[key] = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
    return found


def say(language: str, message: str, values: Mapping[str, Any] | None = None) -> str:
    """The message in `language`. Numbers among `values` are written with `number`; `count` chooses
    the plural form.
    """
    forms = catalogue(language)[message]
    given = dict(values or {})
    form = forms[0] if len(forms) == 1 or given.get("count") == 1 else forms[1]
    shown = {k: number(v, language) if isinstance(v, (int, float)) else v for k, v in given.items()}
    return form.format_map(shown)


def language_of_locale() -> str:
    """The language of messages: `ja` where LC_ALL, LC_MESSAGES or LANG asks for Japanese, otherwise
    `en`.
    """
    locale = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return "ja" if locale.lower().startswith("ja") else "en"


def has(message: str) -> bool:
    """Whether the catalogues have this id."""
    return message in catalogue("en")


def number(value: float | None, language: str = "en") -> str:
    """A number with at most three significant digits behind the point's place: 2 316, 47.2, 0.0312;
    `–` for none.

    Whole numbers below a million keep every digit, so counts stay exact.
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e6):
        return format_decimal(value, "#,##0", locale=language)
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else max(2, 2 - math.floor(math.log10(size)))
    return format_decimal(value, "#,##0." + "0" * decimals if decimals else "#,##0", locale=language)


def tenths(value: float | None, language: str = "en") -> str:
    """A percentage: always one decimal, so that columns of them line up; `–` for none."""
    if value is None or not math.isfinite(value):
        return MISSING
    return format_decimal(value, "#,##0.0", locale=language)


def percent(value: float | None) -> str:
    """A whole percentage with its sign, for the terminal; `–` for none."""
    return MISSING if value is None else f"{value:.0f} %"
