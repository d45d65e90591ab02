"""Loading of an `ArrayFile`. Every error has file:line:column, the field, the fault and a remedy.

Called by `hakaru array …`. The file is written by the operator: unlike a study it may name any path
and address.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakaru.array.consistency import problems
from hakaru.array.model import ArrayFile
from hakaru.errors import HakaruError
from hakaru.study.document import Document, dotted, read_document
from hakaru.study.load import validate
from hakaru.study.schema import lower_schema

# A field such as `lus[3].store.path: …` at the start of a message, or after the engine's name.
FIELD = re.compile(r"(?:^|: )((?:lus|pools|state|tape_library)(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)*): ")
SCHEMA_HINT = "`hakaru schema array` prints the valid fields and values"


@dataclass(frozen=True)
class Loaded:
    """An array file and its path."""

    file: ArrayFile
    path: Path
    document: Document

    @property
    def state(self) -> Path:
        """The state directory, absolute."""
        default = f"{self.path.stem}.state"
        return self.resolve(self.file.state or default)

    def resolve(self, text: str) -> Path:
        """Make a path in the file absolute. Relative paths start at the file's folder."""
        return self.path.resolve().parent / text

    def located(self, error: HakaruError) -> HakaruError:
        """Add the place of the field that `error` names. An error without a field is returned
        unchanged.
        """
        field = FIELD.search(error.message)
        if field is None:
            return error
        steps = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", field.group(1))]
        place = self.document.error(self.document.place_of(tuple(steps)), error.message[field.start(1) :])
        return type(error)(place.message, error.hint)


def load_array(path: Path, metrics: str | None = None) -> Loaded:
    """Load and check an array file. `metrics` overrides the field of the file."""
    document = read_document(path)
    if metrics is not None and isinstance(document.data, dict):
        document.data["metrics"] = metrics
    file = validate(document, ArrayFile, SCHEMA_HINT)
    faults = problems(file)
    if faults:
        place, message, hint = faults[0]
        raise document.error(document.place_of(place), f"{dotted(place)}: {message}", hint)
    return Loaded(file, path, document)


def array_schema() -> dict[str, Any]:
    """JSON Schema (draft-07) of array files, for editors. `schema/array.schema.json` is a copy."""
    return lower_schema(ArrayFile.model_json_schema(), "hakaru array")
