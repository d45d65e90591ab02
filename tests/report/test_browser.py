"""Reports in Chromium: layout at three widths, on a dark screen and on paper, keyboard, tooltips,
console, requests, size and time.

Snapshots in `golden/` hold the text of each visible block in order, with its left edge and width.
Blocks may differ by a few pixels, because versions of Chromium round differently. To write them
anew: HAKARU_SNAPSHOTS=write python -m pytest tests/report/test_browser.py
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hakaru.report import render
from hakaru.wording import LANGUAGES
from pypdf import PdfReader

from tests.analysis.small_run import Pt, Rep, write_run
from tests.report.chromium import EXECUTABLE, Chromium
from tests.report.conftest import Reports

GOLDEN = Path(__file__).parent / "golden"
AXE = Path(__file__).parents[2] / "target" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
PIXELS = 4
FORMS: dict[str, dict[str, Any]] = {
    "1400": {"width": 1400},
    "800": {"width": 800},
    "390": {"width": 390},
    "dark": {"width": 1400, "dark": True},
}
POINTS_MAX_BYTES = 5_000_000
POINTS_MAX_SECONDS = 2.0

BLOCKS = """
[...document.querySelectorAll('h1,h2,h3,p,li,dt,dd,figcaption,legend,label,svg,th,td,pre')].filter(
  e => e.getClientRects().length
).map(e => {
  const box = e.getBoundingClientRect();
  const svg = e.tagName === 'svg';
  const text = (svg ? e.getAttribute('aria-label') : e.innerText).replace(/\\s+/g, ' ').trim();
  return [e.tagName.toLowerCase(), Math.round(box.left), Math.round(box.width), [...text].slice(0, 70).join('')];
})
"""
OVERFLOW = """
[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 1 && box.right > innerWidth + 1 && !e.closest('.scroll, .unseen') && e.checkVisibility();
}).map(e => e.outerHTML.slice(0, 120))
"""
PALE = """
(() => {
  const channel = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number);
    return .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  };
  const page = light(getComputedStyle(document.documentElement).backgroundColor);
  return [...document.querySelectorAll('figure > div svg text')].filter(
    e => e.getBoundingClientRect().width && !e.closest('.keep, .lab') && e.textContent.trim()
  ).filter(e => {
    const ink = light(getComputedStyle(e).fill);
    return (Math.max(ink, page) + .05) / (Math.min(ink, page) + .05) < 4.5;
  }).map(e => e.textContent + ' ' + getComputedStyle(e).fill);
})()
"""

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="Chromium is not installed (tools/system-packages)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as started:
        yield started


@pytest.fixture(scope="module")
def reports(invented_reports: Reports) -> dict[str, Path]:
    """File name → path of HTML and PDF in both languages."""
    return invented_reports.paths


def compare(name: str, lines: list[list[Any]]) -> None:
    """Compare with the snapshot: texts exactly, numbers within `PIXELS`."""
    path = GOLDEN / f"{name}.json"
    if os.environ.get("HAKARU_SNAPSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text("[\n" + ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n]\n")
    expected = json.loads(path.read_text())
    texts = [[part for part in line if isinstance(part, str)] for line in lines]
    assert texts == [[part for part in line if isinstance(part, str)] for line in expected]
    moved = [
        (line, old)
        for line, old in zip(lines, expected, strict=True)
        if any(abs(a - b) > PIXELS for a, b in zip(line, old, strict=True) if isinstance(a, int))
    ]
    assert moved == []


def stable(text: str) -> str:
    """A text without the parts that differ from run to run."""
    text = re.sub(r"(vm-sweep-20260101-000000-)[0-9a-f]{4}", r"\1xxxx", text)
    return re.sub(r"\b\d+\.\d+\.\d+\b", "V", text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_blocks_have_their_order_and_place(
    browser: Chromium, reports: dict[str, Path], language: str, form: str
) -> None:
    browser.open(reports[f"report.{language}.html"], **FORMS[form])
    lines = [[tag, left, width, stable(text)] for tag, left, width, text in browser.evaluate(BLOCKS)]
    assert len(lines) > 150
    compare(f"page.{language}.{form}", lines)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_wider_than_the_window_and_nothing_is_loaded(
    browser: Chromium, reports: dict[str, Path], language: str, form: str
) -> None:
    page = reports[f"report.{language}.html"]
    browser.open(page, **FORMS[form])
    assert browser.evaluate("document.documentElement.scrollWidth") <= FORMS[form]["width"]
    assert browser.evaluate(OVERFLOW) == []
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]


@pytest.mark.parametrize("form", ["1400", "dark"])
def test_texts_of_drawings_are_legible(browser: Chromium, reports: dict[str, Path], form: str) -> None:
    browser.open(reports["report.en.html"], **FORMS[form])
    assert browser.evaluate("document.querySelectorAll('figure svg text').length") > 100
    assert browser.evaluate(PALE) == []
    paper = browser.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == ("rgb(20, 25, 31)" if form == "dark" else "rgb(255, 255, 255)")


def test_tables_that_are_cut_can_be_scrolled_with_the_keyboard_and_say_so(
    browser: Chromium, reports: dict[str, Path]
) -> None:
    browser.open(reports["report.en.html"], width=390)
    cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    assert browser.evaluate(f"{cut}.length") >= 2
    assert browser.evaluate(f"{cut}.every(e => e.tabIndex === 0 && getComputedStyle(e).backgroundImage !== 'none')")
    # The caption is outside, so it is not cut.
    assert browser.evaluate("[...document.querySelectorAll('.caption')].every(e => !e.closest('.scroll'))")


def test_every_link_box_and_wide_table_is_reached_with_the_tabulator(
    browser: Chromium, reports: dict[str, Path]
) -> None:
    browser.open(reports["report.en.html"], width=1400)
    wanted = browser.evaluate(
        "[...document.querySelectorAll('a[href],input,[tabindex=\"0\"]')].filter(e => e.checkVisibility()).length"
    )
    browser.evaluate("window.seen = new Set(); addEventListener('focusin', e => seen.add(e.target)); 1")
    for _ in range(wanted):
        browser.press_tab()
    assert browser.evaluate("seen.size") == wanted > 40


def test_boxes_above_a_figure_hide_its_series(browser: Chromium, reports: dict[str, Path]) -> None:
    browser.open(reports["report.en.html"])
    figure = "document.querySelector('figure:has(fieldset)')"
    visible = f"[...{figure}.querySelectorAll('.wide .s0')].filter(e => getComputedStyle(e).display != 'none').length"
    others = f"[...{figure}.querySelectorAll('.wide .s1')].filter(e => getComputedStyle(e).display != 'none').length"
    shown = browser.evaluate(visible)
    before = browser.evaluate(others)
    assert shown > 2 and before > 2
    browser.evaluate(f"{figure}.querySelector('.t0').click()")
    assert browser.evaluate(visible) == 0
    assert browser.evaluate(others) == before


def test_marks_have_tooltips_where_the_pointer_finds_them(browser: Chromium, reports: dict[str, Path]) -> None:
    browser.open(reports["report.en.html"], height=20_000)
    found = browser.evaluate(
        """
        [...document.querySelectorAll('.wide svg title')].map(title => {
          const box = title.parentElement.getBoundingClientRect();
          const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
          return [hit === title.parentElement || !!hit?.querySelector('title'), title.textContent];
        })
        """
    )
    assert len(found) > 50
    assert [text for is_hit, text in found if not is_hit] == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_axe_finds_nothing(browser: Chromium, reports: dict[str, Path], language: str, form: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm install --prefix target/axe axe-core")
    browser.open(reports[f"report.{language}.html"], **FORMS[form])
    browser.evaluate(AXE.read_text() + ";1")
    found = browser.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.id, v.impact, v.nodes[0].html.slice(0, 150)]))"
    )
    assert found == []


@pytest.mark.alone
def test_report_of_200_points_is_small_and_opens_at_once(browser: Chromium, tmp_path: Path) -> None:
    patterns = [f"pattern-{i:02}" for i in range(10)]
    points = [Pt({"pattern": p, "vms": n}, [Rep(), Rep()]) for p in patterns for n in range(1, 21)]
    (page,) = render(write_run(tmp_path, points), ["html"], ["en"])
    assert page.stat().st_size < POINTS_MAX_BYTES
    seconds = min(browser.open(page) for _ in range(3))
    assert seconds < POINTS_MAX_SECONDS
    assert browser.problems == []
    assert browser.evaluate("document.querySelectorAll('#table tbody tr').length") >= 200


# --- PDF


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_of_the_pdf_have_their_headings_and_no_page_is_half_empty(
    reports: dict[str, Path], language: str
) -> None:
    pages = PdfReader(io.BytesIO(reports[f"report.{language}.pdf"].read_bytes())).pages
    lines: list[list[Any]] = []
    for number, page in enumerate(pages, 1):
        lowest = 842.0
        texts: list[str] = []

        def visit(text: str, cm: list[float], tm: list[float], font: Any, size: float) -> None:
            nonlocal lowest
            y = tm[5] * cm[3] + cm[5]
            if text.strip() and y > 60:  # above the footer
                lowest = min(lowest, y)

        texts = page.extract_text(visitor_text=visit).splitlines()
        heads = [stable(line.strip())[:60] for line in texts if re.match(r"(Figure|Table|図|表) \d+", line.strip())]
        lines.append([f"page {number}", *heads])
        if number < len(pages):
            assert lowest < 842 / 2, f"page {number} ends at {lowest:.0f} of 842 points"
    compare(f"pdf.{language}", lines)


@pytest.mark.parametrize("language", LANGUAGES)
def test_pdf_is_tagged_with_language_title_and_texts_of_drawings(reports: dict[str, Path], language: str) -> None:
    reader = PdfReader(io.BytesIO(reports[f"report.{language}.pdf"].read_bytes()))
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
