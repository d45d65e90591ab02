"""From a name or a path to a `Study`; every error says file:line:column, the field, what is wrong and what would do.

Called by the command line. A study is looked up by its id in `./studies`, then among those that come with hakaru;
anything with a slash or ending in .yaml is a path. Tables are read from the study's own folder, else from hakaru's
`reference/`, by name only: a study cannot name a file outside.
"""

from __future__ import annotations

import csv
import difflib
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from hakaru.errors import UsageError
from hakaru.study.consistency import problems
from hakaru.study.document import Document, dotted, parse_document
from hakaru.study.model import Study

SHOWN_MAX = 8  # further errors of one file are only counted
TABLE_ROWS_MAX = 10_000
Path_ = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Loaded:
    """A study with the bytes it was read from and the published tables it names."""

    study: Study
    path: Path
    source: bytes
    tables: dict[str, list[dict[str, float]]]


def shipped(folder: str) -> Path:
    """`studies` or `reference` as they come with hakaru: at the root of a checkout, else inside the package."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parents[1]
    # `shipped/` holds links to those files, which a wheel takes as files.
    return checkout / folder if (checkout / "pyproject.toml").is_file() else package / "shipped" / folder


def study_paths() -> dict[str, Path]:
    """Id → study.yaml of every study that can be named without a path; those in `./studies` win."""
    found: dict[str, Path] = {}
    for folder in (shipped("studies"), Path("studies")):
        for path in sorted(folder.glob("*/study.yaml")):
            found[path.parent.name] = path
    return found


def find_study(name: str) -> Path:
    """The file of the study `name`: an id, a folder or a file."""
    given = Path(name)
    if given.is_dir() and (given / "study.yaml").is_file():
        return given / "study.yaml"
    if "/" in name or given.suffix in (".yaml", ".yml"):
        return given
    known = study_paths()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "`hakaru studies` lists them; a path to a study.yaml will do too"
    raise UsageError(f"no study named {name!r}", hint)


def load(name: str) -> Loaded:
    """The study `name` (an id or a path), checked, with its tables."""
    path = find_study(name)
    raw = _read(path)
    document = parse_document(raw, str(path))
    study = validate(document, Study)
    found = problems(study)
    if found:
        place, message, hint = found[0]
        raise document.error(document.place_of(place), f"{dotted(place)}: {message}", hint)
    tables = {
        r.table: _table(document, path.parent, r.table, ("reference", i, "table"))
        for i, r in enumerate(study.reference)
    }
    for i, reference in enumerate(study.reference):
        columns = set(tables[reference.table][0])
        for column in (reference.over, *reference.metrics.values()):
            if column not in columns:
                hint = f"its columns are {', '.join(sorted(columns))}"
                where = document.place_of(("reference", i))
                raise document.error(where, f"reference[{i}]: {reference.table} has no column {column!r}", hint)
    return Loaded(study, path, raw, tables)


def validate(
    document: Document, model: type[Model], schema_hint: str = "`hakaru schema` prints what may stand there"
) -> Model:
    """`document` as a `model`, or a `UsageError` that lists what is wrong, each with its place."""
    try:
        return model.model_validate(document.data)
    except ValidationError as e:
        lines, hint = [], ""
        # A misspelt field is missing as well: the misspelling says more.
        errors = sorted(e.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden")
        for error in errors[:SHOWN_MAX]:
            line, its_hint = _explain(document, model, error)
            lines.append(line)
            hint = hint or its_hint
        if e.error_count() > SHOWN_MAX:
            lines.append(f"… and {e.error_count() - SHOWN_MAX} more")
        raise UsageError("\n".join(lines), hint or schema_hint) from e


def _explain(document: Document, model: type[BaseModel], error: ErrorDetails) -> tuple[str, str]:
    """One line with the place, and a hint."""
    path = _path_in(document.data, error["loc"])
    unknown = error["type"] == "extra_forbidden"
    place = document.place_of(path, key=unknown)
    if unknown:
        known = _known_keys(model.model_json_schema(), path[:-1], document.data)
        near = difflib.get_close_matches(str(path[-1]), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        what = f"{dotted(path)}: unknown field"
    elif error["type"] == "missing":
        missing = error["loc"][-1]
        what, hint = f"{dotted((*path, missing))}: missing", f"add `{missing}:` here"
    else:
        message = error["msg"].removeprefix("Value error, ")
        given = error["input"]
        shown = (
            f" (found {given!r})" if isinstance(given, str | int | float | bool) and repr(given) not in message else ""
        )
        what, hint = f"{dotted(path)}: {message[:1].lower()}{message[1:]}{shown[:80]}", ""
    return f"{document.name}:{place.line}:{place.column}: {what}", hint


def _path_in(data: Any, loc: tuple[int | str, ...]) -> Path_:
    """`loc` without what pydantic adds to name a member of a union, and without a missing field's name."""
    path: list[str | int] = []
    for part in loc:
        inside = part in data if isinstance(data, dict) else isinstance(data, list) and part in range(len(data))
        if inside:
            path.append(part)
            data = data[part]
    return tuple(path)


def _known_keys(schema: dict[str, Any], path: Path_, data: Any) -> list[str]:
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


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read((1 << 20) + 1)
    except OSError as e:
        raise UsageError(f"{path}: {e.strerror}", "`hakaru studies` lists the studies that are there") from e


def _table(document: Document, folder: Path, name: str, path: Path_) -> list[dict[str, float]]:
    """Rows of NAME.csv: a header, then numbers."""
    for candidate_folder in (folder.resolve(), shipped("reference").resolve()):
        candidate = candidate_folder / f"{name}.csv"
        if candidate.is_file() and candidate.resolve().parent == candidate_folder:
            break
    else:
        hint = f"put {name}.csv into {folder}"
        raise document.error(document.place_of(path), f"{dotted(path)}: no table {name!r}", hint)
    try:
        reader = csv.DictReader(io.StringIO(_read(candidate).decode()), strict=True)
        rows = [{k: float(v) for k, v in row.items()} for row in reader]
        if not all(math.isfinite(v) for row in rows for v in row.values()):
            raise ValueError("a value is not finite")
    except (ValueError, TypeError, csv.Error) as e:
        message = f"{candidate}: not a table of numbers: {e}"
        raise document.error(
            document.place_of(path), message, "a header line, then numbers, separated by commas"
        ) from e
    if not 0 < len(rows) <= TABLE_ROWS_MAX:
        raise document.error(document.place_of(path), f"{candidate}: {len(rows)} rows", f"1 to {TABLE_ROWS_MAX} rows")
    return rows
