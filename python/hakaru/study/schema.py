"""JSON Schema of study files for editors, in draft-07, the version that the YAML language server
reads.

`hakaru schema` prints it. A test checks that the copy `schema/study.schema.json` is up to date.
"""

from __future__ import annotations

import re
from typing import Any

from hakaru.study.model import Study

DRAFT = "http://json-schema.org/draft-07/schema#"


def study_schema() -> dict[str, Any]:
    """The schema of a study file."""
    return lower_schema(Study.model_json_schema(), "hakaru study")


def lower_schema(schema: dict[str, Any], title: str) -> dict[str, Any]:
    """A model's schema as draft-07, called `title`."""
    lowered: dict[str, Any] = unwrap_descriptions(_lower(schema))
    return {"$schema": DRAFT, "title": title} | {k: v for k, v in lowered.items() if k != "title"}


def _lower(node: Any) -> Any:
    """Convert 2020-12, as pydantic emits it, to draft-07: rename `$defs`, and wrap each `$ref` that
    has siblings, because draft-07 ignores these.
    """
    if isinstance(node, list):
        return [_lower(item) for item in node]
    if not isinstance(node, dict):
        return node
    lowered = {}
    for key, value in node.items():
        if key == "$ref":
            value = value.replace("#/$defs/", "#/definitions/")
        elif key == "discriminator":  # OpenAPI's, not JSON Schema's; `oneOf` with `const` is equivalent
            continue
        elif key in ("properties", "$defs", "patternProperties"):
            value = {name: _lower(part) for name, part in value.items()}
        elif key not in ("default", "const", "enum", "examples"):
            value = _lower(value)
        lowered["definitions" if key == "$defs" else key] = value
    if "$ref" in lowered and len(lowered) > 1:
        reference = lowered.pop("$ref")
        lowered = {"allOf": [{"$ref": reference}], **lowered}
    return lowered


def unwrap_descriptions(node: Any) -> Any:
    """Remove the line breaks of the source from a schema's descriptions: one line per paragraph.
    List items keep lines of their own.
    """
    if isinstance(node, list):
        return [unwrap_descriptions(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: re.sub(r"(?<!\n)\n(?![\n*-])", " ", value)
        if key == "description" and isinstance(value, str)
        else unwrap_descriptions(value)
        for key, value in node.items()
    }
