#!/usr/bin/env python3
"""Writes the generated pages docs/reference/{fields,caveats,sql}.md. `--check` reports whether they
are up to date.

The texts are those of the code: models of `lab` and `load`, the closed list of caveats, the views
of `hakaru query`. Beside this script, `fields.yaml` has examples of fields, and `caveats.yaml` what
to do about each caveat.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
from hakaru.caveats import CAVEATS
from hakaru.lab.model import LabSpec
from hakaru.store.query import KEYS, VIEWS
from hakaru.store.tables import HISTOGRAMS, SAMPLES
from hakaru.store.tcp import TCP
from hakaru.study.any_load import load_models
from hakaru.units import format_duration, format_rate, format_size
from hakaru.wording import catalogue
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
REFERENCE = ROOT / "docs/reference"

QUANTITIES = {
    "32 KiB": ("size", format_size),
    "1 Gbit/s": ("rate", format_rate),
    "30 s": ("duration", format_duration),
}
"""First example of a quantity in the schema → its name, and how its default is written."""


def read_yaml(name: str) -> Any:
    """Contents of a file beside this script."""
    return YAML(typ="safe", pure=True).load(HERE / name)


def models() -> Iterator[tuple[str, type[BaseModel]]]:
    """Places in a study and their models, of `lab` and of `load` of every kind that hakaru has. A
    model that is used at several places has the first one.
    """
    seen: set[type[BaseModel]] = set()
    kinds = {name: model for name, model in load_models().items() if model.__module__.startswith("hakaru.kinds.")}
    for place, model in [("lab", LabSpec), *((f"load ({name})", model) for name, model in sorted(kinds.items()))]:
        yield from _reachable(place, model, seen)


def _reachable(place: str, model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[tuple[str, type[BaseModel]]]:
    # The contract of the engine describes models of arrays.
    if model in seen or model.__module__.startswith("hakaru.engine.contract"):
        return
    seen.add(model)
    yield place, model
    for name, field in model.model_fields.items():
        for step, part in _parts(field.annotation):
            yield from _reachable(f"{place}.{field.alias or name}{step}", part, seen)


def _parts(annotation: Any, step: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Models in an annotation, and how they are reached: `.NAME` in a mapping, `[]` in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield step, annotation
        return
    origin = getattr(annotation, "__origin__", None)
    inner = ".NAME" if origin is dict else "[]" if origin in (list, tuple) else ""
    for argument in get_args(annotation):
        yield from _parts(argument, step + inner)


def fields_page() -> str:
    """docs/reference/fields.md."""
    examples = read_yaml("fields.yaml")
    parts = [
        "# All fields of a lab and of a load\n\n"
        "Generated from the models that check a study, by `tools/docs/pages.py`. A test checks every example.\n"
        "[Labs](lab.md) and [studies](studies.md) explain how the fields belong together. `hakaru validate`\n"
        "reports mistakes with their place and a correction. Sizes, rates and durations are text with a unit.\n"
        "*required*: the field has no default.\n"
    ]
    for place, model in models():
        known = examples[model.__name__]
        parts.append(f"\n## `{place}`\n\n{_summary(model)}\n\n{HEAD}")
        properties = model.model_json_schema(mode="validation")
        for name, field in model.model_fields.items():
            written = field.alias or name
            schema = properties["properties"][written]
            text = (field.description or known.get("text", {}).get(written, "")).strip()
            text = text[:1].upper() + text[1:] if not text.startswith(("null", "default:")) else text
            cells = (
                f"`{written}`",
                _value(schema),
                _default(field, schema),
                _sentence(text),
                f"`{written}: {flow(known[written])}`",
            )
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


def _summary(model: type[BaseModel]) -> str:
    """First paragraph of a model's description."""
    return " ".join((model.__doc__ or "").partition("\n\n")[0].split())


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "`")) else f"{text}."


def _value(schema: dict[str, Any]) -> str:
    """The values that a field accepts, in words."""
    if "anyOf" in schema or "oneOf" in schema:
        options = [_value(option) for option in schema.get("anyOf") or schema["oneOf"] if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(options))
    if "$ref" in schema:
        return "mapping"
    if "const" in schema:
        return f"`{_plain(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_plain(value)}`" for value in dict.fromkeys(map(str, schema["enum"])))
    quantity = QUANTITIES.get((schema.get("examples") or [""])[0])
    if quantity:
        return quantity[0]
    kinds = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
    if schema.get("type") in ("integer", "number"):
        return kinds[schema["type"]] + _bounds(schema)
    if schema.get("type") == "array":
        return "list" if "$ref" in str(schema.get("items")) else f"list of {_value(schema.get('items', {}))}"
    return kinds.get(schema.get("type", ""), "mapping")


def _bounds(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    words = [
        f"{_number(low)} to {_number(high)}" if low is not None and high is not None else "",
        f"from {_number(low)}" if low is not None and high is None else "",
        f"over {_number(above)}" if above is not None else "",
        f"up to {_number(high)}" if high is not None and low is None else "",
        f"below {_number(below)}" if below is not None else "",
    ]
    return ", ".join(["", *(word for word in words if word)])


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:g}"


def _default(field: FieldInfo, schema: dict[str, Any]) -> str:
    if field.is_required():
        return "*required*"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, BaseModel) or value in ((), {}, []):
        return "–"
    options = [schema, *schema.get("anyOf", ())]
    quantity = next(
        (QUANTITIES[e[0]] for option in options if (e := option.get("examples")) and e[0] in QUANTITIES), None
    )
    return f"`{quantity[1](value) if quantity and isinstance(value, int) else _plain(value)}`"


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def flow(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    text = _plain(value)
    return f'"{text}"' if isinstance(value, str) and re.fullmatch(r"[\d.:]+", text) and text.count(".") < 2 else text


HEAD = "| field | value | default | meaning | example |\n|---|---|---|---|---|\n"
SEVERITIES = {
    "invalid": "The number must not be used. The point is struck through, and the run ends with exit code 5.",
    "warning": "The number may mislead.",
    "note": "Keep it in mind when you read the number.",
}


def caveats_page() -> str:
    """docs/reference/caveats.md."""
    advice = read_yaml("caveats.yaml")
    parts = [
        "# Caveats, and what to do about them\n\n"
        "A caveat is a condition that limits what a number means. It is printed beside the number. Words in\n"
        "braces stand for values of the run. [When a number can be trusted](../methodology/checks.md) has the\n"
        "limits of the checks that are computed from a run.\n"
    ]
    for severity, meaning in SEVERITIES.items():
        parts.append(f"\n## {severity.capitalize()}\n\n{meaning}\n")
        for name in sorted(name for name, own in CAVEATS.items() if own.severity == severity):
            text = catalogue("en")[f"caveat.{name}"][-1]  # plural
            parts.append(f"\n### {name}\n\n> {text}\n\n{advice[name].strip()}\n")
    return "".join(parts)


SQL_VIEWS = {
    "runs": "One row per run of the folder.",
    "points": "Points of every run. `factors` is JSON text: `factors->>'vms'` is a level as text.",
    "repetitions": "Repetitions that have ended. `turn`: place in the order of measurement; times in ns of "
    "`CLOCK_MONOTONIC`.",
    "metrics": "Results of analysed runs (`summary.json`): mean and confidence interval of every metric and point.",
    "samples": "Counters of every engine, about once per `sample_interval`: [their names](metrics.md).",
    "histograms": "HDR histograms of response times, as encoded by HdrHistogram (base64).",
    "tcp": "Series of every TCP connection, where a study has `watch: {tcp_interval: …}`: [columns](watch.md).",
}


def views() -> dict[str, list[tuple[str, pa.DataType]]]:
    """Name → columns of every view, in the order of the page."""
    own = {name: list(columns.items()) for name, columns in VIEWS.items()}
    files = {"samples": SAMPLES, "histograms": HISTOGRAMS, "tcp": TCP}
    return own | {name: [*KEYS, *((field.name, field.type) for field in schema)] for name, schema in files.items()}


def sql_type(of: pa.DataType) -> str:
    """The type of a column in SQL."""
    if pa.types.is_dictionary(of) or pa.types.is_string(of):
        return "text"
    if pa.types.is_boolean(of):
        return "boolean"
    return "double" if pa.types.is_floating(of) else "integer"


SQL_EXAMPLES = (HERE / "sql.md").read_text(encoding="utf-8")


def sql_page() -> str:
    """docs/reference/sql.md."""
    parts = [SQL_EXAMPLES.strip() + "\n\n## Views\n"]
    for name, columns in views().items():
        parts.append(f"\n### {name}\n\n{SQL_VIEWS[name]}\n\n| column | type |\n|---|---|\n")
        parts += [f"| `{column}` | {sql_type(of)} |\n" for column, of in columns]
    return "".join(parts)


def expected_files() -> dict[Path, str]:
    """File → the text that it should have."""
    return {
        REFERENCE / "fields.md": fields_page(),
        REFERENCE / "caveats.md": caveats_page(),
        REFERENCE / "sql.md": sql_page(),
    }


def main() -> int:
    """Write the files, or with `--check` list those that are not up to date. Exit code 1 if any are
    not.
    """
    stale = [file for file, text in expected_files().items() if not file.exists() or file.read_text() != text]
    for file in stale:
        if "--check" in sys.argv[1:]:
            print(f"{file.relative_to(ROOT)} is not up to date: run tools/docs/pages.py", file=sys.stderr)
        else:
            file.write_text(expected_files()[file], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
