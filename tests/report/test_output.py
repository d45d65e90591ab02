"""Complete reports: all formats have the same numbers, refer to no other file, and never use text
of a study as markup.
"""

from __future__ import annotations

import io
import json
import logging
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hakaru import kind
from hakaru.analysis import sentences
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.report import figure, render
from hakaru.report.output import bound, phrases, prose
from hakaru.wording import LANGUAGES, number
from markupsafe import Markup
from PIL import Image
from pypdf import PdfReader
from weasyprint import HTML

from tests.analysis.small_run import Pt, Rep, write_run
from tests.report.conftest import Listener, Reports

HOSTILE = '<script>alert(\'x\')</script>" onload="x" \u202egnp.exe {{ 7*7 }} {count} \x07\x1b[31m &amp;'


class Page(HTMLParser):
    """Text, tags and references of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.handlers: list[str] = []
        self._hidden = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._hidden += tag == "style"
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "srcset", "data", "poster"):
                self.references.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text.append(data)


@pytest.fixture(scope="module")
def rendered(invented_reports: Reports) -> dict[str, Path]:
    """Return file name → path for every format and language of one run."""
    return invented_reports.paths


def sentences_of(finding: dict[str, Any], language: str) -> list[str]:
    """Return the sentences of a finding without the name of its points, which stands before the
    first one.
    """
    text: str = finding["text" if language == "en" else f"text_{language}"]
    return sentences.split(language, text.removeprefix(sentences.in_series(language, finding["where"], "", True)))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def pdf_text(raw: bytes) -> str:
    return squeezed("".join(page.extract_text() for page in PdfReader(io.BytesIO(raw)).pages))


def test_every_format_and_language_is_written(rendered: dict[str, Path]) -> None:
    assert set(rendered) == {"report.json", "report.en.html", "report.en.pdf", "report.ja.html", "report.ja.pdf"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_html_and_pdf_show_the_numbers_of_the_json(rendered: dict[str, Path], language: str) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    html = squeezed("".join(Page(rendered[f"report.{language}.html"].read_text()).text))
    pdf = pdf_text(rendered[f"report.{language}.pdf"].read_bytes())
    shown = ("iops", "read_iops", "write_iops", "mb_per_s", "latency_ms_mean", "latency_ms_p99", "latency_ms_max")
    for point in summary["points"]:
        row = [number(point["metrics"][name]["mean"], language) for name in shown]
        interval = [number(point["metrics"]["iops"][end], language) for end in ("low", "high")]
        for text in (*row, "–".join(interval)):
            assert squeezed(text) in html
            assert squeezed(text) in pdf
    found = [sentence for finding in summary["findings"] for sentence in sentences_of(finding, language)]
    assert len(found) >= 10
    for sentence in found:
        assert squeezed(sentence) in html
        assert squeezed(sentence) in pdf


def test_both_languages_have_the_same_numbers(rendered: dict[str, Path]) -> None:
    numbers = []
    for language in LANGUAGES:
        html = rendered[f"report.{language}.html"].read_text()
        cells = re.findall(r"<t[dh][^>]*>(?:<b>)?([0-9][0-9,.]*)<", html)
        numbers.append(cells)
    assert len(numbers[0]) > 60
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_html_refers_to_nothing_outside_itself(rendered: dict[str, Path], language: str) -> None:
    html = rendered[f"report.{language}.html"].read_text()
    page = Page(html)
    assert all(r.startswith(("#", "data:")) for r in page.references), page.references
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & page.tags
    assert "@import" not in html
    assert all(url.startswith(("data:", "#")) for url in re.findall(r"url\(['\"]?([^)'\"]+)", html))
    assert f'<html lang="{language}">' in html


@pytest.mark.parametrize("language", LANGUAGES)
def test_pdf_has_numbered_a4_pages_and_only_our_fonts(rendered: dict[str, Path], language: str) -> None:
    reader = PdfReader(rendered[f"report.{language}.pdf"])
    assert len(reader.pages) >= 4
    assert [round(float(v)) for v in reader.pages[0].mediabox[2:]] == [595, 842]
    assert f"2 / {len(reader.pages)}" in reader.pages[1].extract_text()
    fonts = {str(f["/BaseFont"]) for page in reader.pages for f in page["/Resources"].get("/Font", {}).values()}
    assert fonts
    assert all("Hakaru" in name for name in fonts), fonts


def test_no_glyph_is_missing_on_paper(invented_reports: Reports) -> None:
    complaints = invented_reports.complaints
    assert not [c for c in complaints if "notdef" in c or "font" in c.lower()], complaints


def test_complaints_about_pages_on_paper_are_kept() -> None:
    logger, listener = logging.getLogger("weasyprint"), Listener()
    logger.addHandler(listener)
    HTML(string="<p style='colour: red'>text</p>").write_pdf()
    logger.removeHandler(listener)
    assert any("colour" in message for message in listener.messages)


def hostile_run(folder: Path) -> Path:
    reference = {
        "kind": "table",
        "publication": "p",
        "table": "t",
        "note": {"en": HOSTILE, "ja": HOSTILE},
        "where": {},
        "over": "vms",
        "metrics": {"iops": "iops"},
        "rows": [{"vms": 1.0, "iops": 1000.0}, {"vms": 2.0, "iops": 2000.0}],
    }
    check = {"from": HOSTILE, "to": HOSTILE, "asked_bits_per_s": 1e9, "measured_bits_per_s": 1e9}
    text = {"en": HOSTILE, "ja": HOSTILE}
    more: dict[str, Any] = {"title": text, "question": text, "expectation": text, "reference": [reference]}
    more["publications"] = {"p": {"title": text, "source": HOSTILE}}
    more |= {"lab_backend": HOSTILE, "lab_checks": [check], "machine_hostname": HOSTILE, "run_command": [HOSTILE]}
    points = [Pt({"mode": HOSTILE, "vms": n}, [Rep(), Rep(status="failed", error=HOSTILE)]) for n in (1, 2)]
    return write_run(folder, points, **more)


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_from_a_study_is_never_markup(tmp_path: Path, language: str) -> None:
    (path,) = render(hostile_run(tmp_path), ["html"], [language])
    html = path.read_text()
    page = Page(html)
    assert "script" not in page.tags
    assert page.handlers == []
    assert "alert('x')" in "".join(page.text)
    assert "{{ 7*7 }}" in html
    assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e]", html)


def test_report_mentions_points_without_a_result(tmp_path: Path) -> None:
    failed = Rep(status="failed", error="gone")
    run = write_run(tmp_path, [Pt({"vms": 1}, [failed]), Pt({"vms": 2}, [Rep(), Rep()]), Pt({"vms": 4}, [])])
    (path,) = render(run, ["html"], ["en"])
    text = "".join(Page(path.read_text()).text)
    assert "No repetition has a result" in text
    assert "Some points are invalid" in text
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("reps", [[], [Rep(status="failed", error="gone")]], ids=["none", "failed"])
def test_run_without_results_has_a_report_in_every_format(tmp_path: Path, reps: list[Rep]) -> None:
    html, pdf = render(write_run(tmp_path, [Pt({"vms": 1}, reps)]), ["html", "pdf"], ["ja"])
    assert "結果の得られた" in html.read_text()
    assert len(PdfReader(pdf).pages) >= 2


def test_single_figures_can_be_drawn(invented_run: Path, tmp_path: Path) -> None:
    image = Image.open(figure(invented_run, "iops", tmp_path / "iops.png"))
    assert image.width > 800
    assert len(image.convert("L").getcolors() or []) > 10
    assert figure(invented_run, "latency", tmp_path / "latency.svg", language="ja").read_text().startswith("<svg")


def test_impossible_figure_or_report_is_a_clear_error(invented_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no figure 'pie'"):
        figure(invented_run, "pie", tmp_path / "pie.png")
    with pytest.raises(UsageError, match="unknown type of figure"):
        figure(invented_run, "iops", tmp_path / "iops.gif")
    with pytest.raises(UsageError, match="unknown report format 'docx'"):
        render(invented_run, ["docx"], ["en"])
    with pytest.raises(UsageError, match="unknown report language 'fr'"):
        render(invented_run, ["html"], ["fr"])
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentError_, match="file"):
        render(invented_run, ["json"], ["en"], tmp_path / "file" / "x")


def test_numbers_stay_with_their_units() -> None:
    sentence = "At most 90 %, 12 KiB of 3 MB/s, 40 ms: 5 sessions, 2 Gbit/s"
    assert bound(sentence) == "At most 90\u00a0%, 12\u00a0KiB of 3\u00a0MB/s, 40\u00a0ms: 5 sessions, 2\u00a0Gbit/s"


def test_names_in_backticks_are_shown_as_code_and_everything_else_is_escaped() -> None:
    assert prose("`a<b` and `mount -o sync`: 5 s") == Markup(
        "<code>a&lt;b</code> and <code>mount -o sync</code>: 5\u00a0s"
    )
    assert prose("a ` alone") == "a ` alone"


def test_command_to_run_again_has_every_option_of_the_run() -> None:
    run = {
        "study": "vm-sweep",
        "quick": True,
        "seed": 7,
        "options": {"quick": True, "seed": 7, "repetitions": 5, "only": {"pattern": ["random-32k"], "vms": ["1", "4"]}},
        "site": {"name": "here"},
        "command": ["hakaru", "run", "vm-sweep", "--site", "my site.yaml"],
    }
    again = kind.named("vms").report.redo(run)
    assert again == (
        "hakaru run vm-sweep --quick --seed 7 --repetitions 5 --only pattern=random-32k --only vms=1,4 "
        "--site 'my site.yaml'"
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_cover_names_the_origin_of_the_numbers(rendered: dict[str, Path], language: str) -> None:
    cover = rendered[f"report.{language}.html"].read_text().split("</header>")[0]
    words = {
        "en": ("<b>simulated</b>", "quick form", "2 × 3 s", "2 repetitions of 3 s"),
        "ja": ("<b>シミュレーション</b>", "短縮版", "3 s × 2 回", "3 s を 2 回"),
    }
    badge = bound(re.search(r'<p class="badge simulated".*?</p>', cover)[0])  # type: ignore[index]
    assert all(bound(word) in badge for word in words[language])


def test_tables_can_be_read_and_scrolled_without_a_mouse(rendered: dict[str, Path]) -> None:
    html = rendered["report.en.html"].read_text()
    headings = re.findall(r"<th(?=[ >])[^>]*>", html)
    assert len(headings) > 50
    assert all("scope=" in heading for heading in headings)
    assert all('tabindex="0"' in region for region in re.findall(r'<div class="scroll[^>]*>', html))


def test_japanese_report_has_no_english_sentence_outside_of_names(rendered: dict[str, Path]) -> None:
    shown = "".join(Page(rendered["report.ja.html"].read_text()).text)
    sentences = [line for line in shown.splitlines() if re.search(r"\b(the|of|is|was|with|and)\b", line)]
    assert sentences == []


def test_japanese_headings_break_between_phrases() -> None:
    heading = "1 GbE パス 1 本のストレージを VM で共有できるか"
    parts = re.findall(r'<span class="phrase">(.*?)</span>', str(phrases(heading)))
    assert parts == ["1 GbE パス 1 本の", "ストレージを", "VM で", "共有できるか"]
    assert Markup(phrases(heading)).striptags() == heading
    assert "<script>" not in phrases("<script>は")
