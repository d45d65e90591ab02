"""Every YAML block of the documentation is valid: complete files as `hakaru validate`, `--site` and
`hakaru array` read them, and parts of studies in the place that they have in a study.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from hakaru import kind
from hakaru.array.load import load_array
from hakaru.errors import UsageError
from hakaru.run.site_file import load_site
from hakaru.study import load
from hakaru.study.document import parse_document
from hakaru.study.explain import explain
from hakaru.study.load import faults_of
from hakaru.study.model import Study
from pydantic import ValidationError
from ruamel.yaml import YAML

from tests.docs.pages import Block, blocks

BLOCKS = list(blocks("yaml", "yml"))
SECRETS = ("host-1.secret", "array.secret", "tester.secret")
OMITTED = "…"
"""Stands for the parts that a page leaves out."""


@functools.cache
def form_of(block: Block) -> str:
    """Kind of file that a block describes."""
    data: Any = parse_document(block.text.encode(), "block").data
    first = block.text.partition("\n")[0]
    if first.startswith("#") and first.endswith((".yml", "storage.yml")) and "site" not in first:
        return "other program"
    if "id" in data and "format" in data:
        return "study"
    if "name" in data and "format" in data:
        return "site"
    if "target_name" in data:
        return "array"
    return "part of an array" if block.page.name.startswith("array") else "part of a study"


def of_form(form: str) -> list[Block]:
    return [block for block in BLOCKS if form_of(block) == form]


def faults_of_study(path: Path) -> list[str]:
    return [f"{fault.line}: {fault.message}" for fault in faults_of(str(path))[1]]


@pytest.mark.parametrize("block", of_form("study"), ids=str)
def test_studies_are_valid(block: Block, tmp_path: Path) -> None:
    if "kind: ping-pong" in block.text:
        pytest.skip("tests/test_guide_kind.py runs this study with the package of the guide")
    path = tmp_path / "study.yaml"
    path.write_text(block.text, encoding="utf-8")
    assert faults_of_study(path) == []
    assert load(str(path)).study.id


def with_secrets(folder: Path) -> None:
    for name in SECRETS:
        (folder / name).write_text("twelve bytes at least\n")
        (folder / name).chmod(0o600)


@pytest.mark.parametrize("block", of_form("site"), ids=str)
def test_sites_are_valid(block: Block, tmp_path: Path) -> None:
    with_secrets(tmp_path)
    path = tmp_path / "site.yaml"
    path.write_text(block.text, encoding="utf-8")
    assert load_site(path).name


def merged(base: Any, part: Any) -> Any:
    """`base` with the values of `part`, mapping by mapping."""
    if isinstance(base, dict) and isinstance(part, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in part.items()}}
    return part


@pytest.mark.parametrize("page", sorted({block.page for block in of_form("array")}), ids=lambda page: page.name)
def test_arrays_and_their_parts_are_valid(page: Path, tmp_path: Path) -> None:
    with_secrets(tmp_path)
    path = tmp_path / "array.yaml"
    base: Any = {}
    found = [block for block in BLOCKS if block.page == page and form_of(block).endswith("array")]
    for block in found:
        data: Any = parse_document(block.text.encode(), str(block)).data
        base = data if form_of(block) == "array" else merged(base, data)
        with path.open("w", encoding="utf-8") as file:
            YAML(typ="safe", pure=True).dump(base, file)
        assert load_array(path)
    assert found


def without_omitted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_omitted(part) for key, part in value.items() if key != OMITTED}
    return [without_omitted(part) for part in value if part != OMITTED] if isinstance(value, list) else value


@pytest.mark.parametrize("block", of_form("part of a study"), ids=str)
def test_parts_of_studies_are_valid(block: Block) -> None:
    part: Any = parse_document(block.text.encode(), str(block)).data
    template = kind.named("vms").template("en")
    assert template is not None
    whole: Any = parse_document(template.read_bytes(), "template").data
    if OMITTED in block.text:
        part = without_omitted(part)
    load_of_part = part.get("load")
    shortened = OMITTED in block.text
    if isinstance(load_of_part, dict) and "kind" not in load_of_part:
        part["load"] = merged(whole["load"], load_of_part)
    data = {**whole, **part}
    try:
        Study.model_validate(data)
    except ValidationError as e:
        messages = [x.message for x in explain(data, Study, e) if x.path and x.path[0] in part]
        # A required field may be among those that the page leaves out.
        assert [text for text in messages if not (shortened and "missing" in text)] == []


def test_every_form_is_checked_and_mistakes_are_found(tmp_path: Path) -> None:
    forms = [form_of(block) for block in BLOCKS]
    assert {form: forms.count(form) > 0 for form in forms} and len(BLOCKS) > 40
    assert forms.count("study") >= 6 and forms.count("site") >= 5 and forms.count("part of a study") >= 20
    block = next(block for block in of_form("study") if "ping-pong" not in block.text)
    path = tmp_path / "study.yaml"
    path.write_text(block.text.replace("origin: ", "orign: "), encoding="utf-8")
    with pytest.raises(UsageError, match="orign"):
        load(str(path))
