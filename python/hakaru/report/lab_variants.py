"""Changes of the lab between the points of a study, for the report: the drawing shows only the lab
as the study defines it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hakaru.report.sweep import factor_title
from hakaru.study import Study
from hakaru.study.variables import Sets
from hakaru.wording import say

PREFIXES = ("lab.", "array.", "arrays.")
UNSEEN = ("target_name",)
"""Fields of an array that the drawing does not show either."""


def rows(study: Study, language: str) -> list[tuple[str, str]]:
    """Name of the variable and level, and what the level changes in the lab. A variable that sets
    places to its levels has one row, with the levels that the study uses.
    """
    separator = say(language, "list.separator")
    shown = []
    for name, variable in study.variables.items():
        title = factor_title(name, language)
        if isinstance(variable, Sets):
            places = [_short(place) for place in variable.sets if place.startswith(PREFIXES)]
            levels = dict.fromkeys(str(level) for block in study.factors for level in block.levels().get(name, []))
            if places and levels:
                shown.append((title, f"{separator.join(places)}: {separator.join(levels)}"))
            continue
        for level, changes in variable.items():
            if words := separator.join(_changes(changes)):
                shown.append((f"{title} {level}", words))
    return shown


def _changes(changes: Mapping[str, Any]) -> Iterator[str]:
    for place, value in changes.items():
        if place.startswith(PREFIXES):
            yield f"{_short(place)}: {_value(value)}"


def _short(place: str) -> str:
    return place.removeprefix("lab.").removeprefix("arrays.")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value(each)}" for key, each in value.items() if key not in UNSEEN)
    if isinstance(value, list):
        return "; ".join(map(_value, value))
    return str(value)
