"""Loading of a `Study` by name or path. Every error has file:line:column, the field, the fault and
a remedy.

Called by the command line. A study is looked up by its ID in `./studies`, then among those that
come with hakaru. A name with a slash or ending in .yaml is a path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hakaru.errors import UsageError
from hakaru.study.consistency import problems
from hakaru.study.document import Document, dotted, parse_document
from hakaru.study.explain import explain
from hakaru.study.model import Study
from hakaru.study.part import Text
from hakaru.study.references import TableReference
from hakaru.study.tables import Row, read_tables
from hakaru.suggest import did_you_mean

CORRECTING = ("did you mean", "should be", "such as", "for example", "; write", "input should be", "use one of")
"""Words of messages that contain a valid value."""
SHOWN_MAX = 8  # further errors of one file are only counted
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Loaded:
    """A study, the bytes of its file, and the published tables that it names."""

    study: Study
    path: Path
    source: bytes
    tables: dict[str, list[Row]]

    @property
    def reference_rows(self) -> list[list[Row]]:
        """Rows of the table of each reference, in the order of the study; empty for other
        references.
        """
        references = self.study.reference
        return [self.tables[r.table] if isinstance(r, TableReference) else [] for r in references]


def shipped(folder: str) -> Path:
    """A folder that comes with hakaru (such as `studies`): at the root of a checkout, else inside
    the package.
    """
    package = Path(__file__).resolve().parents[1]
    checkout = package.parents[1]
    # `shipped/` holds symbolic links to these folders, which a wheel includes as files.
    return checkout / folder if (checkout / "pyproject.toml").is_file() else package / "shipped" / folder


def study_paths() -> dict[str, Path]:
    """ID → study.yaml of every study that can be named without a path. Those in `./studies` take
    precedence.
    """
    paths: dict[str, Path] = {}
    for folder in (shipped("studies"), Path("studies")):
        for path in sorted(folder.glob("*/study.yaml")):
            paths[path.parent.name] = path
    return paths


def find_study(name: str) -> Path:
    """The file of the study `name`: an ID, a folder or a file."""
    given = Path(name)
    if given.is_dir() and (given / "study.yaml").is_file():
        return given / "study.yaml"
    if "/" in name or given.suffix in (".yaml", ".yml"):
        return given
    known = study_paths()
    if name in known:
        return known[name]
    otherwise = "`hakaru studies` lists the names; a path to a study.yaml is also accepted"
    raise UsageError(f"no study named {name!r}", did_you_mean(name, known, otherwise))


def load(name: str) -> Loaded:
    """Load and check the study `name` (an ID or a path), with its tables. Raises UsageError."""
    path = find_study(name)
    raw = _read(path)
    document = parse_document(raw, str(path))
    study = validate(document, Study)
    faults = problems(study)
    if faults:
        place, message, hint = faults[0]
        raise document.error(document.place_of(place), f"{dotted(place)}: {message}", hint)
    tables = read_tables(document, study.reference, (path.parent, shipped("reference")))
    return Loaded(study, path, raw, tables)


@dataclass(frozen=True)
class Fault:
    """One fault of a study file, with its place (counted from 1)."""

    line: int
    column: int
    message: str
    hint: str


def faults_of(name: str) -> tuple[Path, list[Fault]]:
    """The file of the study `name`, and all of its faults that need no lab to be found; empty if
    `load` accepts it.

    Faults of its shape hide those between fields, which hide those of its tables. Raises UsageError
    for a file that cannot be read or is not YAML.
    """
    path = find_study(name)
    document = parse_document(_read(path), str(path))
    try:
        study = Study.model_validate(document.data)
    except ValidationError as e:
        each = explain(document.data, Study, e)
        found = [(document.place_of(x.path, key=x.at_key), x.message, x.hint) for x in each]
        return path, [Fault(place.line, place.column, message, hint) for place, message, hint in found]
    faults = [(document.place_of(place), f"{dotted(place)}: {text}", hint) for place, text, hint in problems(study)]
    if not faults:
        load(name)
    return path, [Fault(place.line, place.column, message, hint) for place, message, hint in faults]


def title_of(path: Path) -> Text:
    """The title of the study in a file. Nothing else is checked, so that listing studies is
    quick.
    """
    document = parse_document(_read(path), str(path))
    written = document.data if isinstance(document.data, dict) else {}
    titled = {name: value for name, value in written.items() if name == "title"}
    return validate(replace(document, data=titled), _Titled).title


class _Titled(BaseModel):
    title: Text


def validate(
    document: Document, model: type[Model], schema_hint: str = "`hakaru schema` prints the valid fields and values"
) -> Model:
    """Validate `document` as a `model`. Raises a `UsageError` that lists every fault with its
    place.
    """
    try:
        return model.model_validate(document.data)
    except ValidationError as e:
        lines, hint = [], ""
        faults = list(explain(document.data, model, e))
        for explained in faults[:SHOWN_MAX]:
            place = document.place_of(explained.path, key=explained.at_key)
            lines.append(f"{document.name}:{place.line}:{place.column}: {explained.message}")
            hint = hint or explained.hint
        if len(faults) > SHOWN_MAX:
            lines.append(f"… and {len(faults) - SHOWN_MAX} more")
        # A message that contains its correction needs no further hint.
        corrected = any(words in lines[0] for words in CORRECTING)
        raise UsageError("\n".join(lines), hint or ("" if corrected else schema_hint)) from e


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read((1 << 20) + 1)
    except OSError as e:
        raise UsageError(
            f"{path}: {e.strerror}", "check the path; `hakaru studies` lists the studies that come with hakaru"
        ) from e
