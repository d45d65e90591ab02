"""Reports in Chromium: layout at three widths and on a dark screen, keyboard, tooltips,
accessibility, console, requests, size and time.

Snapshots in `golden/` hold the text of each visible block in order, with its left edge, width and
colours; `hakaru.report` brings its own fonts. To write them anew:
HAKARU_SNAPSHOTS=write python -m pytest tests/report/test_browser.py tests/report/test_paper.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hakaru.report import render
from hakaru.wording import LANGUAGES

from tests import axe
from tests.analysis.small_run import Pt, Rep, write_run
from tests.report.chromium import EXECUTABLE, PALE, Chromium
from tests.report.conftest import Reports
from tests.report.snapshots import compare, stable

FORMS: dict[str, dict[str, Any]] = {
    "1400": {"width": 1400},
    "800": {"width": 800},
    "390": {"width": 390},
    "dark": {"width": 1400, "dark": True},
}
POINTS_MAX_BYTES = 5_000_000

BLOCKS = """
[...document.querySelectorAll('h1,h2,h3,p,li,dt,dd,figcaption,legend,label,svg,th,td,pre')].filter(
  e => e.getClientRects().length
).map(e => {
  const box = e.getBoundingClientRect();
  const svg = e.tagName === 'svg';
  const text = (svg ? e.getAttribute('aria-label') : e.innerText).replace(/\\s+/g, ' ').trim();
  const look = getComputedStyle(e);
  const colours = svg ? '' : `${look.color} on ${look.backgroundColor}`.replaceAll(', ', ',');
  const shown = [...text].slice(0, 70).join('');
  return [e.tagName.toLowerCase(), Math.round(box.left), Math.round(box.width), shown, colours];
})
"""
OVERFLOW = """
[...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 1 && box.right > innerWidth + 1 && !e.closest('.scroll, .unseen') && e.checkVisibility();
}).map(e => e.outerHTML.slice(0, 120))
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_blocks_have_their_order_and_place(
    browser: Chromium, reports: dict[str, Path], language: str, form: str
) -> None:
    browser.open(reports[f"report.{language}.html"], **FORMS[form])
    lines = [[tag, left, width, stable(text), look] for tag, left, width, text, look in browser.evaluate(BLOCKS)]
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
    browser.open(reports[f"report.{language}.html"], **FORMS[form])
    browser.evaluate(axe.SCRIPT)
    assert browser.evaluate(axe.VIOLATIONS) == []


def test_report_of_200_points_is_small_and_loads_nothing(browser: Chromium, tmp_path: Path) -> None:
    patterns = [f"pattern-{i:02}" for i in range(10)]
    points = [Pt({"pattern": p, "vms": n}, [Rep(), Rep()]) for p in patterns for n in range(1, 21)]
    for page in render(write_run(tmp_path, points), ["html"], LANGUAGES):
        assert page.stat().st_size < POINTS_MAX_BYTES
        seconds = browser.open(page)
        print(f"{page.name}: {page.stat().st_size / 1e6:.2f} MB, opened in {seconds:.2f} s (goal: 2 s)")
        assert browser.problems == []
        assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
        assert browser.evaluate("document.querySelectorAll('#table tbody tr').length") >= 200
