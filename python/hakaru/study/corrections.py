"""Corrections of values of the wrong type: what a field needs, and the value as it should be
written. Pure.

needed_values({"list_type"})             "a list"
correction({"list_type"}, "1-8", …)      "write a list: `[1, 2, …, 8]`"
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

NEEDED = {
    "list_type": "a list",
    "tuple_type": "a list",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "text",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "dict_type": "fields",
}
"""Type of an error of pydantic → the value that the field needs."""

_NUMBERS = ("a number", "a whole number")
_RANGE = re.compile(r"\s*(\d+)\s*(?:-|\.\.+|to)\s*(\d+)\s*")
_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*[^\d\s].*")


def needed_values(types: Collection[str]) -> str | None:
    """The values that a field accepts, joined by "or"; None if a type is not a matter of the form
    of the value.
    """
    if not types or any(each not in NEEDED for each in types):
        return None
    return " or ".join(dict.fromkeys(NEEDED[each] for each in types))


def correction(types: Collection[str], value: Any, path: Sequence[str | int]) -> str:
    """A hint with the value in the form that the field needs; empty if there is no obvious one."""
    if value is None:
        return "the key has no value: write one, or leave the key out"
    needed = [NEEDED[each] for each in types if each in NEEDED]
    name = str(path[-1]) if path else ""
    if any(each in _NUMBERS for each in needed):
        if isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
            return f"write the number without a unit: `{match[1]}`"
        if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
            return f"write the number without quotes: `{value}`"
        if isinstance(value, float) and name.endswith("percent") and 0 < value <= 1:
            return f"write percent: `{100 * value:g}`"
        if isinstance(value, float) and math.isfinite(value):
            return f"write a whole number, for example `{round(value)}`"
    if "a list" in needed and not isinstance(value, dict):
        return f"write a list: `[{_items(value)}]`"
    if "`true` or `false`" in needed and str(value).lower() in ("yes", "no", "on", "off", "1", "0"):
        return f"write `{'true' if str(value).lower() in ('yes', 'on', '1') else 'false'}`"
    if "text" in needed and isinstance(value, int | float):
        return f'write it as text: `"{value}"`'
    return ""


def _items(value: Any) -> str:
    """The items that a value seems to mean: `1-8` is a range, `a-b` are two names."""
    text = str(value)
    if match := _RANGE.fullmatch(text):
        first, last = int(match[1]), int(match[2])
        if last - first <= 3:
            return ", ".join(str(number) for number in range(first, last + 1)) or text
        return f"{first}, {first + 1}, …, {last}"
    parts = [part for part in re.split(r"[\s,;]+|-(?=[a-z])", text) if part]
    return ", ".join(parts)
