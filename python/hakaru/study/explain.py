"""Explanations of pydantic's errors: the part of the study, the fault, and a valid value. Pure.

Called by `load` for files and by `consistency` for points, whose study does not come from a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hakaru.study.corrections import NEEDED, correction, needed_values
from hakaru.study.document import Path_, dotted
from hakaru.suggest import did_you_mean
from hakaru.units import format_as


@dataclass(frozen=True)
class Explained:
    """One error. `at_key` is true if it concerns the field's name, not its value."""

    path: Path_
    at_key: bool
    message: str
    hint: str


def explain(data: Any, model: type[BaseModel], error: ValidationError) -> Iterator[Explained]:
    """Explain every error of `data` as a `model`. Misspelt fields come first, because each also
    causes a less helpful error about a missing field.
    """
    errors = sorted(error.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden")
    types: dict[Path_, list[str]] = {}
    for details in errors:
        types.setdefault(_path_in(data, details["loc"]), []).append(details["type"])
    unnamed = _unnamed(model, data, errors)
    yield from (_without_name(path, value_at(data, path)) for path in unnamed)
    misspelt: set[Path_] = set()
    shown: set[Path_] = set()
    for details in errors:
        path = _path_in(data, details["loc"])
        if any(path[: len(parent)] == parent for parent in unnamed):
            continue
        if details["type"] == "missing" and (*path, details["loc"][-1]) in misspelt:
            continue
        explained = _explain(data, model, details, types[path])
        if details["type"] == "extra_forbidden":
            meant = re.fullmatch(r"did you mean '(.+)'\?", explained.hint)
            misspelt |= {(*path[:-1], meant[1])} if meant else set()
        elif details["type"] in NEEDED:
            # Members of a union that do not fit the value: one error names them all.
            if path in shown:
                continue
            shown.add(path)
        yield explained


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _unnamed(model: type[BaseModel], data: Any, errors: Sequence[ErrorDetails]) -> list[Path_]:
    """Mappings from names to parts of the study that hold the fields of a single part instead."""
    found: list[Path_] = []
    for error in errors:
        path = _path_in(data, error["loc"])
        if error["type"] == "model_type" and len(path) > 1 and path[:-1] not in found:
            known = known_keys(_schema(model), path, data)
            if path[-1] in known and set(value_at(data, path[:-1])) <= set(known):
                found.append(path[:-1])
    return found


def _without_name(path: Path_, fields: dict[str, Any]) -> Explained:
    named = str(path[-1])
    singular = f", or `{named.removesuffix('s')}:` if there is only one" if named.endswith("s") else ""
    hint = f"write `{named}: {{NAME: {{{next(iter(fields))}: …}}}}`{singular}"
    return Explained(path, True, f"{dotted(path)}: these fields need a name above them", hint)


def _explain(data: Any, model: type[BaseModel], error: ErrorDetails, types: Sequence[str]) -> Explained:
    path = _path_in(data, error["loc"])
    if error["type"] == "extra_forbidden":
        known = known_keys(_schema(model), path[:-1], data)
        return Explained(path, True, f"{dotted(path)}: unknown field", did_you_mean(str(path[-1]), known))
    if error["type"] == "missing":
        missing = error["loc"][-1]
        return Explained(path, False, f"{dotted((*path, missing))}: missing", f"add `{missing}:` here")
    hint = str(error.get("ctx", {}).get("hint", ""))
    value = value_at(data, path)
    limit = _limit(error, value if isinstance(value, str) else _example_of(model, path, data))
    if limit is not None:
        return Explained(path, False, f"{dotted(path)}: {limit} (found {value!r})", "")
    if error["type"] == "model_type" and path:
        example, known = _example(model, path, data)
        needs = f"{dotted(path)}: needs fields, for example {example} (found {str(value)[:80]!r})"
        return Explained(path, False, needs, f"valid here: {', '.join(known)}")
    if error["type"] == "string_pattern_mismatch" and error["ctx"]["pattern"] in _PATTERNS:
        return Explained(path, False, f"{dotted(path)}: invalid name {value!r}", _PATTERNS[error["ctx"]["pattern"]])
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return _of_union(path, error, value)
    needed = needed_values([each for each in types if each in NEEDED]) if error["type"] in NEEDED else None
    if needed is not None:
        found = "nothing" if value is None else repr(value)[:60]
        shown = f"{dotted(path)}: should be {needed} (found {found})"
        return Explained(path, False, shown, correction(types, value, path))
    if error["type"] == "literal_error" and isinstance(value, str):
        hint = hint or did_you_mean(value, re.findall(r"'([^']+)'", error["ctx"]["expected"]), "")
    message = error["msg"].removeprefix("Value error, ")
    found = f" (found {value!r})" if isinstance(value, str | int | float | bool) and repr(value) not in message else ""
    return Explained(path, False, f"{dotted(path)}: {uncapitalised(message)}{found[:80]}", hint)


def _of_union(path: Path_, error: ErrorDetails, value: Any) -> Explained:
    """The error of a part whose `kind` is missing or unknown."""
    field = str(error["ctx"]["discriminator"]).strip("'")
    if error["type"] == "union_tag_not_found":
        return Explained(path, False, f"{dotted((*path, field))}: missing", f"add `{field}:` here")
    known = re.findall(r"'([^']+)'", str(error["ctx"]["expected_tags"]))
    tag = str(error["ctx"]["tag"])
    inside = (*path, field) if isinstance(value, dict) and field in value else path
    return Explained(inside, False, f"{dotted((*path, field))}: there is no {tag!r} here", did_you_mean(tag, known))


def _path_in(data: Any, loc: tuple[int | str, ...]) -> Path_:
    """`loc` without the names that pydantic adds for members of a union, and without the name of a
    missing field.
    """
    path: list[str | int] = []
    for part in loc:
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if inside:
            path.append(part)
            data = data[part]
    return tuple(path)


def uncapitalised(message: str) -> str:
    """`Input should …` → `input should …`, to follow a colon; an abbreviation such as `VMs` keeps
    its capitals.
    """
    return message[:1].lower() + message[1:] if message[1:2].islower() or message[1:2] == " " else message


def value_at(data: Any, path: Path_) -> Any:
    """The part of `data` at `path`."""
    for part in path:
        data = data[part]
    return data


_PATTERNS = {
    r"^(iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)[a-z0-9.:-]+$": "write a name such as `iqn.2026-01.example:array`",
    "^[a-z0-9][a-z0-9-]*$": "use lower-case letters, digits and hyphens, and begin with a letter or digit",
}
"""Regular expression of a field → the hint that describes it."""

_LIMITS = {
    "greater_than": ("gt", "should be more than {bound}"),
    "greater_than_equal": ("ge", "should be at least {bound}"),
    "less_than": ("lt", "should be less than {bound}"),
    "less_than_equal": ("le", "should be at most {bound}"),
    "multiple_of": ("multiple_of", "should be a multiple of {bound}"),
}
"""Type of an error → key of its bound, and the phrase for it."""


def _limit(error: ErrorDetails, written: str | None) -> str | None:
    """The violated bound; None for other errors. `written`: a value of the field with the kind of
    unit in which the bound is shown; None: a field without units.
    """
    if error["type"] not in _LIMITS:
        return None
    name, phrase = _LIMITS[error["type"]]
    bound = error["ctx"][name]
    bound_text = format_as(written, int(bound)) if written is not None else None
    return phrase.format(bound=bound_text or f"{bound:g}")


def _example_of(model: type[BaseModel], path: Path_, data: Any) -> str | None:
    """A value of the field with its unit; None for a field without units. `0` needs no unit."""
    members = _members(_schema(model), path, data)
    return next((each for member in members for each in member.get("examples", ()) if isinstance(each, str)), None)


def _example(model: type[BaseModel], path: Path_, data: Any) -> tuple[str, list[str]]:
    """`{percent: 1}` for a value where fields are needed, and the names of all fields."""
    schema = _schema(model)
    members = _members(schema, path, data)
    fields = {key: value for member in members for key, value in member.get("properties", {}).items()}
    needed = [key for member in members for key in member.get("required", ())] or list(fields)[:1]
    written = value_at(data, path)
    return f"{{{', '.join(f'{key}: {_value(fields[key], schema, written)}' for key in needed)}}}", sorted(fields)


def _value(field: dict[str, Any], schema: dict[str, Any], written: Any) -> str:
    """An example of a field's value: the value as written if it may be meant for this field."""
    members = _resolve([field], schema.get("$defs", {}))
    examples = [str(example) for member in members for example in member.get("examples", ())]
    if isinstance(written, str):
        # `1 ms` is a duration like the example `30 s`, and `2 %` a number of percent.
        fitting = [written for example in examples if _same_quantity(example, written)]
        is_number = any(member.get("type") in ("number", "integer") for member in members)
        percent = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", written) if is_number else None
        examples = [*fitting, *([percent[1]] if percent else []), *examples]
    return next(iter(examples), "1" if any(member.get("type") in ("number", "integer") for member in members) else "…")


def _same_quantity(example: str, written: str) -> bool:
    """Whether two texts are quantities of the same kind, such as durations."""
    shown = format_as(example, 0), format_as(written, 0)
    return None not in shown and shown[0] == shown[1]


def known_keys(schema: dict[str, Any], path: Path_, data: Any) -> list[str]:
    """Fields of the schema at `path`; of a union, those of the member whose `kind` matches."""
    return sorted({key for member in _members(schema, path, data) for key in member.get("properties", {})})


def _members(schema: dict[str, Any], path: Path_, data: Any) -> list[dict[str, Any]]:
    """The schema at `path`; of a union, every member that may apply."""
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
    return members


def _resolve(members: list[dict[str, Any]], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """References and unions, replaced by the schemas they refer to."""
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
