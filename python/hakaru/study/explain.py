"""What pydantic found wrong with a study, in words: which part, what, and what would do. Pure.

Called by `load` for files and by `consistency` for points, whose study is made and not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hakaru.study.document import Path_, dotted
from hakaru.suggest import did_you_mean


@dataclass(frozen=True)
class Explained:
    """One error. `at_key`: it is about the field's name, not its value."""

    path: Path_
    at_key: bool
    what: str
    hint: str


def explain(data: Any, model: type[BaseModel], error: ValidationError) -> Iterator[Explained]:
    """Every error of `data` as a `model`, misspelt fields first: a misspelt field is missing as well, and says more."""
    errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    return (_explain(data, model, one) for one in errors)


def _explain(data: Any, model: type[BaseModel], error: ErrorDetails) -> Explained:
    path = _path_in(data, error["loc"])
    if error["type"] == "extra_forbidden":
        known = known_keys(model.model_json_schema(), path[:-1], data)
        return Explained(path, True, f"{dotted(path)}: unknown field", did_you_mean(str(path[-1]), known))
    if error["type"] == "missing":
        missing = error["loc"][-1]
        return Explained(path, False, f"{dotted((*path, missing))}: missing", f"add `{missing}:` here")
    message = error["msg"].removeprefix("Value error, ")
    given = error["input"]
    shown = f" (found {given!r})" if isinstance(given, str | int | float | bool) and repr(given) not in message else ""
    return Explained(path, False, f"{dotted(path)}: {message[:1].lower()}{message[1:]}{shown[:80]}", "")


def _path_in(data: Any, loc: tuple[int | str, ...]) -> Path_:
    """`loc` without what pydantic adds to name a member of a union, and without a missing field's name."""
    path: list[str | int] = []
    for part in loc:
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if inside:
            path.append(part)
            data = data[part]
    return tuple(path)


def known_keys(schema: dict[str, Any], path: Path_, data: Any) -> list[str]:
    """Fields that the schema knows at `path`; of a union, those of the member whose `kind` the data has."""
    definitions = schema.get("$defs", {})
    members = [schema]
    for part in (*path, None):
        members = _resolve(members, definitions)
        if isinstance(data, dict) and "kind" in data:
            chosen = [m for m in members if m.get("properties", {}).get("kind", {}).get("const") == data["kind"]]
            members = chosen or members
        if part is None:
            break
        data = data[part]
        following = []
        for member in members:
            if isinstance(part, int):
                following.append(member.get("items", {}))
            elif part in member.get("properties", {}):
                following.append(member["properties"][part])
            elif isinstance(member.get("additionalProperties"), dict):
                following.append(member["additionalProperties"])
            else:
                following.extend(member.get("patternProperties", {}).values())
        members = following
    return sorted({key for member in members for key in member.get("properties", {})})


def _resolve(members: list[dict[str, Any]], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """References and unions replaced by what they stand for."""
    resolved: list[dict[str, Any]] = []
    open_ = list(members)
    while open_:
        member = open_.pop(0)
        if "$ref" in member:
            open_.append(definitions[member["$ref"].rpartition("/")[2]])
        elif "anyOf" in member or "oneOf" in member:
            open_.extend(member.get("anyOf", []) + member.get("oneOf", []))
        else:
            resolved.append(member)
    return resolved
