"""Variables: names for changes of the study itself, so that any factor can be varied.

    variables:
      case:                                             # levels with names
        unthrottled: {}
        throttled: {lab.links.kvm-1.send_rate: 1 Gbit/s}
      buffer: {sets: [lab.links.vtl.queue]}             # levels are values for these places

The study at a point is the written study with the changes of the point's levels (`apply`),
validated like any study. Pure. A place is a dotted path; numbers in it are indexes of lists, from
0.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Discriminator, Field, StringConstraints, Tag

from hakaru.study.part import Level, LevelText, Part, level_text
from hakaru.suggest import did_you_mean

Problem = tuple[tuple[str | int, ...], str, str]
"""Place in the study file, message, hint."""

CHANGEABLE = ("lab", "array", "arrays", "load")
"""Parts of a study that a variable may change. Times and repetitions are the same at all points."""

Place = Annotated[str, StringConstraints(pattern=r"^[^\s.]+(\.[^\s.]+)+$", max_length=200)]
Changes = dict[Place, Any]


class Sets(Part):
    """A variable whose levels are values for some places of the study."""

    sets: list[Place] = Field(min_length=1, max_length=100, description="places that are set to the level")


NamedLevels = Annotated[dict[LevelText, Changes], Field(min_length=1, max_length=1000)]


def _kind(written: Any) -> str:
    if isinstance(written, Sets):
        return "sets"
    return "sets" if isinstance(written, dict) and "sets" in written else "levels"


Variable = Annotated[
    Annotated[Sets, Tag("sets")] | Annotated[NamedLevels, Tag("levels")],
    Discriminator(_kind),
]


@dataclass(frozen=True)
class Change:
    """A value for a place of the study, and the variable and level that require it (both empty for
    the quick form).
    """

    place: str
    value: Any
    variable: str = ""
    level: Level = ""

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the place."""
        return tuple(self.place.split("."))


class LevelError(ValueError):
    """A variable lacks the level of a point."""

    def __init__(self, variable: str, level: Level, levels: Iterable[str]) -> None:
        super().__init__(f"{variable}={level_text(level)} is not a level; {variable} has {', '.join(levels)}")


class PlaceError(ValueError):
    """A change of a place that does not exist or may not be changed."""

    def __init__(self, change: Change, message: str, hint: str) -> None:
        super().__init__(message)
        self.change, self.message, self.hint = change, message, hint


def value_at(value: Any, place: str) -> Any:
    """The value at a place (`a.b.0`) inside nested dicts and lists; None if there is none."""
    for key in place.split("."):
        if isinstance(value, list):
            value = value[int(key)] if key.isdigit() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def changes_of(variables: Mapping[str, Sets | dict[str, Changes]], factors: Mapping[str, Level]) -> list[Change]:
    """Return the changes of a point's levels, in the order of its factors. A factor that is no
    variable changes nothing.

    Raises LevelError for a level that its variable lacks.
    """
    changes: list[Change] = []
    for name, level in factors.items():
        variable = variables.get(name)
        if isinstance(variable, Sets):
            changes += [Change(place, level, name, level) for place in variable.sets]
        elif variable is not None:
            if level_text(level) not in variable:
                raise LevelError(name, level, variable)
            changes += [Change(p, value, name, level) for p, value in variable[level_text(level)].items()]
    return changes


KnownKeys = Callable[[tuple[str | int, ...], Any], list[str]]
"""(path, study) → the fields that are valid at the path; empty if any name is valid."""


def apply(written: Mapping[str, Any], changes: Iterable[Change], known: KnownKeys) -> dict[str, Any]:
    """Return a written study with changes. Raises PlaceError.

    Values are not checked; the caller validates the result.
    """
    changed = dict(written)
    own: set[str] = set()  # parts that are copies; the others are shared with `written`
    for change in changes:
        part = change.path[0]
        if part not in CHANGEABLE:
            hint = f"a variable can change only {', '.join(CHANGEABLE)}"
            raise PlaceError(change, f"{part!r} cannot be varied", hint)
        if part in changed and part not in own:
            changed[part] = copy.deepcopy(changed[part])
            own.add(part)
        _set(changed, change, known)
    return changed


def _set(study: dict[str, Any], change: Change, known: KnownKeys) -> None:
    node: Any = study
    path: list[str | int] = []
    for i, part in enumerate(change.path):
        parent = ".".join(change.path[:i]) or "the study"
        last = i == len(change.path) - 1
        if isinstance(node, list):
            if not part.isdigit() or int(part) >= len(node):
                raise PlaceError(change, f"no {part!r} in {parent}", f"use an index from 0 to {len(node) - 1}")
            key: str | int = int(part)
        elif isinstance(node, dict):
            key = part
            if part not in node:
                _check_known(change, part, parent, node, known(tuple(path), study))
            if node.get(part) is None and not last:
                node[part] = {}
        else:
            raise PlaceError(change, f"{parent} has no parts", f"change {parent} itself")
        if last:
            node[key] = copy.deepcopy(change.value)
        else:
            node = node[key]
            path.append(key)


def _check_known(change: Change, part: str, parent: str, node: dict[str, Any], fields: list[str]) -> None:
    # A timing model accepts any of its parameters, which only the engine knows.
    if part not in fields and "model" not in change.path:
        raise PlaceError(change, f"no {part!r} in {parent}", did_you_mean(part, {*node, *fields}))
