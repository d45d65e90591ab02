"""The schema for editors is up to date, uses draft-07 and agrees with the loader."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis.report_model import report_schema
from hakaru.array.load import array_schema
from hakaru.study import study_paths, study_schema
from hakaru.study.document import parse_document

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(study_schema())


def test_checked_in_schema_is_up_to_date() -> None:
    checked_in = json.loads((ROOT / "schema" / "study.schema.json").read_text())
    assert checked_in == study_schema(), "run `make schema`"


def test_schema_is_valid_draft_07_without_later_keywords() -> None:
    schema = study_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    text = json.dumps(schema)
    assert not [word for word in ("$defs", "prefixItems", "unevaluated", "$dynamicRef") if word in text]


@pytest.mark.parametrize("name", sorted(study_paths()))
def test_shipped_studies_satisfy_the_schema(validator: jsonschema.Draft7Validator, name: str) -> None:
    validator.validate(parse_document(study_paths()[name].read_bytes(), name).data)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(extra=1),
        lambda d: d["lab"].update(host=1),
        lambda d: d["measure"].update(repetitions=0),
        lambda d: d["load"]["patterns"]["random-32k"]["load"].update(kind="close"),
        lambda d: d.pop("question"),
    ],
)
def test_schema_refuses_invalid_studies(validator: jsonschema.Draft7Validator, change: Any) -> None:
    data = copy.deepcopy(parse_document(study_paths()["vm-sweep"].read_bytes(), "s").data)
    change(data)
    assert not validator.is_valid(data)


@pytest.mark.parametrize("make", [study_schema, array_schema, report_schema], ids=["study", "array", "report"])
def test_descriptions_do_not_break_lines_inside_a_paragraph(make: Callable[[], dict[str, Any]]) -> None:
    def descriptions(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (value for key, value in node.items() if key == "description" and isinstance(value, str))
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from descriptions(child)

    assert not [text for text in descriptions(make()) if re.search(r"[^\n]\n[^\n*-]", text)]
