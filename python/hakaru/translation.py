"""Texts of commands in the language of the terminal.

The source of hakaru contains its errors, hints and other texts of commands in English only, and
JSON, logs and run folders keep them so. Just before such a text is printed, `shown` translates it:
the text is matched against the English templates of a catalogue (`locale/terminal.ja.po`, and one
of each kind of study), and its values are put into the Japanese template.

    msgid "host {0} cannot reach array {1}"
    msgstr "ホスト {0} からストレージ {1} に届かない"

A value may be a text itself and is translated in the same way. Texts from elsewhere (kernel,
engine, YAML) match no template and stay English inside the Japanese sentence. A test collects the
templates of all texts from the source, so none can be forgotten (tests/test_translation.py).

Called by commands, never by code that stores or exchanges texts.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakaru import kind
from hakaru.errors import HakaruError
from hakaru.wording import LOCALE, fill, join, language_of_locale, read_catalogue

CATALOGUE = "terminal.ja.po"
FOREIGN = "foreign.ja.po"
"""Texts of libraries and of the C library that are worth translating."""

LABELS = {"error": "エラー：", "hint": "ヒント："}

_PLACE = re.compile(r"(\S+:\d+:\d+: )(.+)")
_PREFIX = re.compile(r"([^\s'`]+): (.+)")
_FOUND = re.compile(r"(.+) \(found (.+)\)")
_QUANTITY = re.compile(r"[-+\d.,]+ ?[^\s,:]*")
_SEPARATORS = (("; ", "。"), (", ", "、"), (" and ", " と "), (" or ", " か "))
"""Separators of a list of texts, in English and Japanese. All but the first only separate a list if
every part of it is a known text.
"""


def shown(text: str) -> str:
    """The text of a command in the language of the locale."""
    return text if language_of_locale() == "en" else japanese(text)


def label(name: str) -> str:
    """`error: ` or `hint: `, which begin a line, in the language of the locale."""
    return f"{name}: " if language_of_locale() == "en" else LABELS[name]


def japanese(text: str) -> str:
    """An English text in Japanese, as far as the catalogue knows it."""
    whole = _matched(text) if "\n" in text else None
    return whole if whole is not None else "\n".join(map(_line, text.split("\n")))


@dataclass(frozen=True)
class Template:
    """An English text with fields, and its Japanese form."""

    literals: tuple[str, ...]
    """Text before, between and after the fields."""
    fields: tuple[str, ...]
    form: str

    @classmethod
    def of(cls, english: str, form: str) -> Template:
        """Parse a message of the catalogue. `{0}` is a field, `{{` a brace."""
        literals, fields = [""], []
        for literal, field, _, _ in string.Formatter().parse(english):
            literals[-1] += literal
            if field is not None:
                fields.append(field)
                literals.append("")
        return cls(tuple(literals), tuple(fields), form)

    @property
    def is_word(self) -> bool:
        """Whether it is a single word, which as a value could also be a name."""
        return not self.fields and " " not in self.literals[0]

    @property
    def checked(self) -> int:
        """Number of values that may not be an unknown sentence, because a single word distinguishes
        the template: the first of `{0} exists`, and both of `{0} to {1}`.
        """
        literal = " ".join(self.literals)
        words = re.findall("[A-Za-z]+", literal)
        if len(words) != 1 or ":" in self.literals[0] or "(" in literal:
            return 0
        return len(self.fields) if len("".join(words)) <= 3 else 1

    def parses(self, text: str) -> list[list[str]]:
        """The values of a text of this form: with the shortest value at each field, and with the
        shortest one at the last field, if they differ. Empty if the text has another form.

        If text follows the last field, a short last value is the usual one and comes first:
        `{1}, {2} left` of `vms 7, pattern random-32k, 0:12 left`.
        """
        first, last = self.literals[0], self.literals[-1]
        if not self.fields:
            return [[]] if text == first else []
        if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
            return []
        inner = text[len(first) : len(text) - len(last)]
        between = self.literals[1:-1]
        found = [_split(inner, between)]
        if between and between[-1] and between[-1] in inner:
            before, _, value = inner.rpartition(between[-1])
            rest = _split(before, between[:-1])
            found.insert(0 if last else 1, None if rest is None else [*rest, value])
        return list({tuple(values): values for values in found if values is not None}.values())


def _split(text: str, separators: Sequence[str]) -> list[str] | None:
    """The text at its first separators, in order; None if one is missing. Nothing is before an
    empty separator.
    """
    values = []
    for separator in separators:
        value, found, text = text.partition(separator) if separator else ("", " ", text)
        if not found:
            return None
        values.append(value)
    return [*values, text]


@functools.cache
def templates() -> tuple[Template, ...]:
    """All templates, the most specific first: those with the most literal text."""
    try:
        of_kinds = dict.fromkeys(each.folder / "locale" / CATALOGUE for each in kind.registered().values())
    except HakaruError:  # a kind that cannot be loaded, which is the error to print
        of_kinds = {}
    known: dict[str, str] = {}
    for path in (LOCALE / CATALOGUE, LOCALE / FOREIGN, *of_kinds):
        known |= _messages(path)
    found = (Template.of(english, form) for english, form in known.items())
    return tuple(sorted(found, key=lambda each: -sum(map(len, each.literals))))


def _messages(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    return {english: forms[0] for english, forms in read_catalogue(path, "ja").items()}


def _line(line: str) -> str:
    """A line, without the place in a file or the indentation that it begins with."""
    if place := _PLACE.fullmatch(line):
        return place[1] + _text(place[2])
    whole = _matched(line) if line.startswith(" ") else None
    text = line.lstrip(" ")
    return whole if whole is not None else line[: len(line) - len(text)] + _text(text)


def _text(text: str, *, is_value: bool = False) -> str:
    """A text, or its parts if it is only put together from texts."""
    if not text or _is_quoted(text):
        return text
    if found := _FOUND.fullmatch(text):
        if (whole := _matched(text, containing=" (found ")) is not None:
            return whole
        if (fault := _known(found[1])) is not None:
            value = found[2] if _is_quoted(found[2]) else _known(found[2]) or found[2]
            return f"{fault}（指定：{value}）"
    if (whole := _known(text, is_value=is_value)) is not None:
        return whole
    for separator, japanese_separator in _SEPARATORS:
        parts = text.split(separator)
        if len(parts) == 1:
            continue
        translated = [_text(part, is_value=True) for part in parts]
        names = is_value and separator in (" and ", " or ")
        known = [
            part != form or _is_quoted(part) or (names and " " not in part) or _matched(part) is not None
            for part, form in zip(parts, translated, strict=True)
        ]
        if all(known) or (separator == "; " and any(known)):
            between = "、" if is_value and separator == "; " else japanese_separator
            return functools.reduce(lambda left, right: join(join(left, between), right), translated)
    before, separator, after = text.partition(": ")
    if separator and (translated_after := _text(after, is_value=True)) != after:
        return f"{_text(before, is_value=True)}：{translated_after}"
    return text


def _known(text: str, *, is_value: bool = False) -> str | None:
    """A text of the catalogue, perhaps after the name of a place (`lab.hosts: `), or several with
    `; ` between them. None for other texts.
    """
    if (whole := _matched(text, is_value=is_value, begins=True)) is not None:
        return whole
    # A template that begins with a value would take a place, or another text, for part of it.
    if (prefix := _PREFIX.fullmatch(text)) and (rest := _known(prefix[2])) is not None:
        return f"{prefix[1]}：{rest}"
    texts = [_matched(part) for part in text.split("; ")]
    if len(texts) > 1 and None not in texts:
        return ("、" if is_value else "。").join(part for part in texts if part is not None)
    return _matched(text, is_value=is_value)


@functools.lru_cache(maxsize=4096)
def _matched(text: str, *, is_value: bool = False, begins: bool = False, containing: str = "") -> str | None:
    """The text by the most specific template that it matches; None if it matches none. `begins`:
    only templates that do not begin with a value. `containing`: only those with this text.
    """
    for template in _candidates(text):
        if (template.is_word and is_value) or (begins and not template.literals[0]):
            continue
        if not any(containing in literal for literal in template.literals):
            continue
        readings = [values for values in template.parses(text) if not _cuts_code(template, values)]
        filled = [(_filled(template, values), values) for values in readings]
        if template.checked:
            filled = [each for each in filled if _are_known(each[1][: template.checked])]
        if filled:
            # Of two ways to read a text, the one whose values are known texts.
            return max(filled, key=lambda each: _translated(each[1]))[0]
    return None


def _candidates(text: str) -> Iterator[Template]:
    """Templates of which every part is in the text. Only a template of several lines matches
    several lines.
    """
    lines = "\n" in text
    for template in templates():
        spans_lines = any("\n" in literal for literal in template.literals)
        if (spans_lines or not lines) and all(literal in text for literal in template.literals):
            yield template


def _are_known(values: list[str]) -> bool:
    """Whether values are names, quantities or known texts, not unknown sentences. All but the first
    may be lists.
    """
    if not values:
        return True
    lists = [[values[0]], *(value.split(", ") for value in values[1:])]
    return all(all(map(_is_name, names)) or _text(value) != value for names, value in zip(lists, values, strict=True))


def _is_name(text: str) -> bool:
    return _is_quoted(text) or not re.search("[ ,]", text) or _QUANTITY.fullmatch(text) is not None


def _translated(values: list[str]) -> int:
    return sum(_text(value, is_value=True) != value for value in values)


def _filled(template: Template, values: list[str]) -> str:
    """The Japanese form with its values. Values in backticks are code."""
    texts = {}
    for i, (field, value) in enumerate(zip(template.fields, values, strict=True)):
        is_code = _is_code(template, i) or template.literals[i].endswith(("=", "--"))
        texts[field] = value if is_code else _text(value, is_value=True)
    return fill(template.form, texts)


def _is_code(template: Template, i: int) -> bool:
    """Whether a field is in backticks."""
    return "".join(template.literals[: i + 1]).count("`") % 2 == 1


def _cuts_code(template: Template, values: list[str]) -> bool:
    """Whether a value in backticks ends inside of other code: `` 2 ms` or `2 s ``."""
    return any("`" in value and _is_code(template, i) for i, value in enumerate(values))


def _is_quoted(text: str) -> bool:
    """Whether a text is a single name in quotes, or code."""
    if text.startswith("{") and text.endswith("}"):
        return True
    return len(text) > 1 and text[0] in "'\"`" and text[-1] == text[0] and text[0] not in text[1:-1]
