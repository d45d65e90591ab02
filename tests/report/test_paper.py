"""Reports on paper: place of every line of text, page breaks, margins, tags.

The snapshots `golden/pdf.LANGUAGE.json` hold each line of text with its page, left edge and height
on the page in points. They are written anew like those of `test_browser`.
"""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hakaru.report import paper
from hakaru.report.output import TEMPLATES
from hakaru.wording import LANGUAGES
from pypdf import PageObject, PdfReader

from tests.report.conftest import Reports
from tests.report.snapshots import compare, stable

A4 = (595, 842)
MARGIN = 51
"""Left and right margin in points: 18 mm."""
SCALE = 0.75
"""Points in a pixel. Drawings have a scale of their own."""
FOOTER = 60
"""Height of the bottom margin with the number of the page."""


@pytest.fixture(scope="module")
def reports(invented_reports: Reports) -> dict[str, Path]:
    """File name → path of HTML and PDF in both languages."""
    return invented_reports.paths


def read(path: Path) -> PdfReader:
    return PdfReader(io.BytesIO(path.read_bytes()))


def pieces_of(page: PageObject, *, drawings: bool) -> list[tuple[int, int, str]]:
    """Left edge, height and text of each piece of text of a page, with or without the texts of
    drawings.
    """
    pieces: list[tuple[int, int, str]] = []

    def visit(text: str, cm: list[float], tm: list[float], font: Any, size: float) -> None:
        if text.strip() and (drawings or abs(cm[0]) == SCALE):
            x, y = tm[4] * cm[0] + tm[5] * cm[2] + cm[4], tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            pieces.append((round(x), round(y), text))

    page.extract_text(visitor_text=visit)
    return pieces


def lines_of(page: PageObject) -> list[tuple[int, int, str]]:
    """Left edge, height and text of each line of a page, from top to bottom, without the texts of
    drawings. Pieces of text at one height are one line.
    """
    rows: dict[int, list[tuple[int, str]]] = {}
    for x, y, text in pieces_of(page, drawings=False):
        rows.setdefault(y, []).append((x, text))
    return [
        (min(x for x, _ in row), y, " ".join("".join(text for _, text in sorted(row)).split()))
        for y, row in sorted(rows.items(), reverse=True)
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_lines_of_the_pdf_have_their_order_and_place(reports: dict[str, Path], language: str) -> None:
    lines: list[list[Any]] = []
    for number, page in enumerate(read(reports[f"report.{language}.pdf"]).pages, 1):
        lines += [[f"page {number}", x, y, stable(text)[:70]] for x, y, text in lines_of(page)]
    assert len(lines) > 150
    compare(f"pdf.{language}", lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_of_the_pdf_is_half_empty_and_nothing_is_beyond_its_margins(
    reports: dict[str, Path], language: str
) -> None:
    pages = read(reports[f"report.{language}.pdf"]).pages
    for number, page in enumerate(pages, 1):
        lines = lines_of(page)
        assert all(MARGIN - 1 <= x < A4[0] - MARGIN for x, _, _ in lines), number
        lowest = min(y for _, y, _ in pieces_of(page, drawings=True) if y > FOOTER)
        if number < len(pages):
            assert lowest < A4[1] / 2, f"page {number} ends at {lowest} of {A4[1]} points"


def test_table_that_is_wider_than_the_page_is_set_in_smaller_print() -> None:
    rows = "".join(f"<tr>{''.join(f'<td>{row}.{i} of 1000000</td>' for i in range(11))}</tr>" for row in range(3))
    css = (TEMPLATES / "report.css").read_text()
    table = f'<table id="grid-1" class="numbers">{rows}</table>'
    html = f'<html lang="en"><head><title>t</title><style>{css}</style></head><body>{table}</body></html>'
    (page,) = PdfReader(io.BytesIO(paper.pdf(html))).pages
    lefts = sorted({x for x, _, text in pieces_of(page, drawings=True) if "1000000" in text})
    assert len(lefts) == 11
    # A column is as wide as its text, so the last one ends as far from its left edge as the others.
    assert lefts[-1] + max(b - a for a, b in pairwise(lefts)) <= A4[0] - MARGIN + 6


@pytest.mark.parametrize("language", LANGUAGES)
def test_pdf_is_tagged_with_language_title_and_texts_of_drawings(reports: dict[str, Path], language: str) -> None:
    reader = read(reports[f"report.{language}.pdf"])
    root: Any = reader.trailer["/Root"]
    assert root["/Lang"] == language
    assert root["/MarkInfo"]["/Marked"]
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    assert reader.metadata is not None and reader.metadata.title
    assert "pdfuaid" in root["/Metadata"].get_object().get_data().decode()
    kinds: dict[str, list[Any]] = {}
    waiting = [root["/StructTreeRoot"]]
    while waiting:
        node: Any = waiting.pop().get_object()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            if "/S" in node:
                kinds.setdefault(str(node["/S"]), []).append(node)
            if "/K" in node:
                waiting.append(node["/K"])
    assert {"/H1", "/H2", "/P", "/Table", "/TH", "/Figure", "/L"} <= set(kinds)
    assert all(len(str(figure.get("/Alt", ""))) > 10 for figure in kinds["/Figure"])
