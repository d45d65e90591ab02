"""Catalogues use the term of the glossary for each concept, in plain English and plain Japanese."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from tests.dialect import dialect_in

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
CATALOGUES = sorted((ROOT / "python" / "hakaru").rglob("locale/*.po"))
"""`en.po` and `ja.po`, and `terminal.ja.po` with the English texts as ids."""


def rows(columns: int) -> list[list[str]]:
    """Return the cells of the glossary tables with this many columns, without headings."""
    table_rows = []
    for line in GLOSSARY.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == columns and not set(cells[0]) <= {"-"}:
            table_rows.append(cells)
    return [cells for cells in table_rows if cells[0] not in ("English", "Use")]


def messages(path: Path) -> dict[str, str]:
    """Return message id → text; plural forms are joined."""
    with path.open("rb") as file:
        catalogue = read_po(file, locale=path.stem.rpartition(".")[2])
    return {
        str(m.id if isinstance(m.id, str) else m.id[0]): m.string if isinstance(m.string, str) else "\n".join(m.string)
        for m in catalogue
        if m.id
    }


@functools.cache
def catalogues(language: str) -> list[tuple[str, str]]:
    """Return `(where, text)` for every message of a language, without names of placeholders."""
    texts = [
        (f"{path.relative_to(ROOT)}: {message}", re.sub(r"{[a-z_0-9]+}", "{}", text))
        for path in CATALOGUES
        if path.stem.rpartition(".")[2] == language
        for message, text in messages(path).items()
    ]
    assert len(texts) > 500
    return texts


@functools.cache
def study_texts() -> list[tuple[str, str]]:
    """Return `(where, line)` for every Japanese line of the bundled studies and of the guides."""
    return [
        (f"{path.relative_to(ROOT)}:{n}", line)
        for path in sorted([*(ROOT / "studies").glob("*/*"), *(ROOT / "docs").rglob("*.ja.md")])
        if path.name in ("README.md", "study.yaml") or path.name.endswith(".ja.md")
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if JAPANESE.search(line)
    ]


REJECTED = [(cells[1], variant) for cells in rows(4) for variant in cells[2].split("、")]


@pytest.mark.parametrize(("term", "variant"), REJECTED)
def test_japanese_texts_use_one_term_per_concept(term: str, variant: str) -> None:
    used = [where for where, text in catalogues("ja") + study_texts() if variant in text]
    assert not used, f"write {term}"


@pytest.mark.parametrize(("term", "variants"), rows(2))
def test_english_catalogues_use_one_term_per_concept(term: str, variants: str) -> None:
    words = re.compile("|".join(rf"\b{variant}\b" for variant in variants.split(", ")), re.IGNORECASE)
    used = [where for where, text in catalogues("en") if words.search(text)]
    assert not used, f"write {term}"


def test_glossary_has_one_row_per_concept_and_rejects_no_own_term() -> None:
    terms = [cells[1] for cells in rows(4)]
    assert len(REJECTED) > 50
    assert len(terms) == len(set(terms))
    assert not {term for term in terms if any(term == variant for _, variant in REJECTED)}


@pytest.mark.parametrize("language", ["en", "ja"])
def test_catalogues_are_free_of_dialect(language: str) -> None:
    dialect = [(where, words) for where, text in catalogues(language) if (words := dialect_in(text))]
    assert not dialect


def test_japanese_is_written_in_plain_form() -> None:
    polite = [where for where, text in catalogues("ja") if re.search(r"(です|ます|ください)(。|$)", text)]
    assert not polite


def test_japanese_sentences_have_full_width_brackets_and_colons() -> None:
    half = re.compile(
        r"[\u3040-\u30ff\u4e00-\u9fff][(:]|[(][\u3040-\u30ff\u4e00-\u9fff]|[):;][\u3040-\u30ff\u4e00-\u9fff]"
    )
    used = [where for where, text in catalogues("ja") if half.search(text)]
    assert not used


def test_dialect_is_recognised() -> None:
    assert dialect_in("Whoever reads this")
    assert dialect_in("It is told since then")
    assert not dialect_in("seconds since the start of the measurement")


def test_every_study_explains_itself_in_japanese() -> None:
    assert {where.split("/")[1] for where, _ in study_texts() if "README" in where} == {
        folder.name for folder in (ROOT / "studies").iterdir() if folder.is_dir()
    }
