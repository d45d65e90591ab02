"""The generated pages are up to date, and what they show works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.caveats import CAVEATS
from hakaru.store.query import VIEWS, query
from pydantic import BaseModel

from tests.docs.pages import ROOT, blocks, tool
from tests.fixtures.make_run import make_run

PAGES = tool("pages")
EXAMPLES: dict[str, dict[str, Any]] = PAGES.read_yaml("fields.yaml")
MODELS: list[tuple[str, type[BaseModel]]] = list(PAGES.models())
FIELDS = [(model, field.alias or name) for _, model in MODELS for name, field in model.model_fields.items()]


def test_pages_are_up_to_date() -> None:
    script = str(ROOT / "tools/docs/pages.py")
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_model_of_lab_and_load_is_found_once() -> None:
    names = [model.__name__ for _, model in MODELS]
    assert len(names) == len(set(names)) and set(names) == set(EXAMPLES)
    assert {"LabSpec", "LinkSpec", "VmsLoad", "CopyLoad", "FilesLoad", "PacketsLoad", "Iscsi", "SambaSettings"} <= set(
        names
    )


@pytest.mark.parametrize(("model", "name"), FIELDS, ids=[f"{model.__name__}.{name}" for model, name in FIELDS])
def test_every_field_has_a_description_and_an_example_that_is_valid_and_not_its_default(
    model: type[BaseModel], name: str
) -> None:
    known = EXAMPLES[model.__name__]
    field = next(field for own, field in model.model_fields.items() if (field.alias or own) == name)
    attribute = next(own for own, each in model.model_fields.items() if each is field)
    assert field.description or known["text"][name]
    assert not (field.description and known.get("text", {}).get(name)), "the model describes it already"
    built = model.model_validate(known["base"] | {name: known[name]})
    if not field.is_required() and name != "kind":
        default = field.get_default(call_default_factory=True, validated_data={})
        assert getattr(built, attribute) != default, "the example shows nothing"


def test_examples_have_no_field_that_does_not_exist() -> None:
    fields = {
        model.__name__: {field.alias or name for name, field in model.model_fields.items()} for _, model in MODELS
    }
    extra = {name: set(known) - fields[name] - {"base", "text"} for name, known in EXAMPLES.items()}
    assert not any(extra.values())
    assert not any(set(known.get("text", {})) - fields[name] for name, known in EXAMPLES.items())


def test_an_example_on_the_page_is_the_value_that_was_checked() -> None:
    from ruamel.yaml import YAML

    for known in EXAMPLES.values():
        for name, value in known.items():
            if name not in ("base", "text"):
                assert YAML(typ="safe", pure=True).load(f"{name}: {PAGES.flow(value)}") == {name: value}


def test_every_caveat_says_what_to_do() -> None:
    advice: dict[str, str] = PAGES.read_yaml("caveats.yaml")
    assert set(advice) == set(CAVEATS)
    assert all(len(text.split()) >= 5 for text in advice.values())
    page = (ROOT / "docs/reference/caveats.md").read_text()
    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == set(CAVEATS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    summarise(make_run(folder))
    return folder


SQL = [block for block in blocks("sql") if block.page.name == "sql.md"]


@pytest.mark.parametrize("block", SQL, ids=str)
def test_examples_of_sql_give_rows(block: Any, runs: Path) -> None:
    answer = query(block.text, runs)
    # No repetition of this run has failed.
    assert bool(answer.rows) == ("status <> 'done'" not in block.text)


def test_the_page_of_views_has_the_columns_of_the_views(runs: Path) -> None:
    assert len(SQL) >= 5
    listed = PAGES.views()
    for view, columns in listed.items():
        # A view that does not exist, or has other columns, fails here.
        assert [name for name, _ in columns] == query(f"select * from {view} limit 0", runs).columns
    assert set(VIEWS) < set(listed) and set(PAGES.SQL_VIEWS) == set(listed)
