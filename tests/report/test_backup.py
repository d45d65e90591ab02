"""Reports of backups have the numbers of the JSON in both languages and figures that can be drawn.
Texts of studies are never markup.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.run_data import RunData
from hakaru.kinds.copy import figures as backup_figures
from hakaru.kinds.copy import parts as backup
from hakaru.lab.plan import LabPlan
from hakaru.lab.plan.limits import Backend
from hakaru.report import charts, figure, render
from hakaru.report.charts import NARROW, WIDE, Bar, Cell
from hakaru.wording import LANGUAGES, number
from PIL import Image
from pypdf import PdfReader

from tests.analysis.small_backup import (
    PUBLICATIONS,
    PUBLISHED,
    PUBLISHED_VMS,
    SLOW,
    Copy,
    Pt,
    published_shape,
    write_run,
)
from tests.report.test_output import HOSTILE, Page, pdf_text, sentences_of, squeezed


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run with the cases of the publication."""
    references = [PUBLISHED, *PUBLISHED_VMS]
    return published_shape(tmp_path_factory.mktemp("runs"), (32, 512), (1, 8), references)


@pytest.fixture(scope="module")
def rendered(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return file name → path. The PDF is only in Japanese, which uses more of the fonts."""
    out = tmp_path_factory.mktemp("report")
    summary = summarise(run)
    paths = render(run, ["html", "json"], ["en"], out, summary=summary)
    return {p.name: p for p in [*paths, *render(run, ["html", "pdf"], ["ja"], out, summary=summary)]}


def texts(rendered: dict[str, Path], language: str) -> list[str]:
    """Return the text of the HTML, and of the PDF if there is one."""
    shown = [squeezed("".join(Page(rendered[f"report.{language}.html"].read_text()).text))]
    return shown + ([pdf_text(rendered["report.ja.pdf"].read_bytes())] if language == "ja" else [])


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_shows_the_numbers_of_the_json(rendered: dict[str, Path], language: str) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    for text in texts(rendered, language):
        for point in summary["points"]:
            for name in ("mib_per_s", "timeouts", "dropped_frames"):
                assert squeezed(number(point["metrics"][name]["mean"], language)) in text
        for hop in summary["points"][0]["hops"]:
            assert squeezed(f"{hop['from']} → {hop['to']}") in text
            assert squeezed(number(hop["frames_in"]["mean"], language)) in text
        for sentence in (s for finding in summary["findings"] for s in sentences_of(finding, language)):
            assert squeezed(sentence) in text


def test_both_languages_have_the_same_numbers(rendered: dict[str, Path]) -> None:
    cells = [
        re.findall(r"<t[dh][^>]*>(?:<b>)?([0-9][0-9,.]*)<", rendered[f"report.{language}.html"].read_text())
        for language in LANGUAGES
    ]
    assert len(cells[0]) > 200
    assert cells[0] == cells[1]


def test_answer_covers_the_slow_pattern_and_the_one_on_another_path(rendered: dict[str, Path]) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    chief = [(f["kind"], f["where"]) for f in backup.chief_findings(summary)]
    assert chief == [
        ("limiter", {"case": "unthrottled", "tcp": "2009"}),
        ("ratio", {"tcp": "2009"}),
        ("tcp_age", {"case": "unthrottled"}),
        ("remedy", {"case": "unthrottled", "tcp": "2009"}),
        ("limiter", {"case": "ten-to-ten", "tcp": "2009"}),
    ]


def test_tiles_compare_the_slow_copy_with_the_one_of_the_ratio(rendered: dict[str, Path]) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    values = [tile["value"] for tile in backup.tiles(summary, "en")]
    assert values == ["22.9 MiB/s", "107 MiB/s", "4.67 times", "switch buffer"]


def test_tiles_show_the_published_pair_even_if_another_case_is_slower(tmp_path: Path) -> None:
    copies = {"unthrottled": SLOW, "throttled": Copy(rate=28), "ecn": Copy(rate=3, marked=9000)}
    points = [Pt({"case": case, "tcp": "2009"}, [copy]) for case, copy in copies.items()]
    run = write_run(tmp_path, points, publications=PUBLICATIONS, reference=[PUBLISHED])
    values = [tile["value"] for tile in backup.tiles(summarise(run), "en")]
    assert values == ["22.9 MiB/s", "107 MiB/s", "4.67 times", "switch buffer"]


def test_every_figure_can_be_drawn(run: Path, rendered: dict[str, Path], tmp_path: Path) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    names = [f.name for f in backup_figures.of_run(summary, "en")]
    assert names == ["patterns", "jobs", "map_1", "map_2", "changes", "over_time"]
    image = Image.open(figure(run, "map_1", tmp_path / "map.png", language="ja"))
    assert len(image.convert("L").getcolors() or []) > 10


def test_region_of_collapse_is_framed_only_at_its_border() -> None:
    cells = [Cell(x, y, 10.0 * (x + y), "1", x + y < 2) for x in range(3) for y in range(3)]
    chart = charts.spec(charts.heat(cells, ["1", "2", "4"], ["a", "b", "c"], ("x", "y"), WIDE))
    rules = [layer["data"]["values"] for layer in chart["layer"] if layer["mark"]["type"] == "rule"]
    # Cells (0,0), (1,0) and (0,1) have eight outer edges. The two edges between them are not drawn.
    assert len(rules) == 1
    assert len(rules[0]) == 8
    assert {"x": 1, "y": 0, "x2": 1, "y2": 1} not in rules[0]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_bars_leave_room_for_their_labels(size: charts.Size) -> None:
    bars = [
        Bar("a", 332.0, 330.0, 340.0, "332 MB/s, 28.2 % of the path", 329.0, "329 published"),
        Bar("b", 1.0, None, None, "1"),
    ]
    svg = charts.svg(charts.bars(bars, "MB/s", size))
    width = float(re.search(r'viewBox="0 0 ([0-9.]+)', svg)[1])  # type: ignore[index]
    assert abs(width - size.room) < 12
    assert "332 MB/s, 28.2 % of the path" in svg


def test_text_from_a_study_is_never_markup(tmp_path: Path) -> None:
    more: dict[str, Any] = {"title": {"en": HOSTILE, "ja": HOSTILE}}
    run = write_run(tmp_path, [Pt({HOSTILE: HOSTILE}, [SLOW]), Pt({HOSTILE: "b"}, [Copy(status="failed")])], **more)
    (path,) = render(run, ["html"], ["en"])
    page = Page(path.read_text())
    assert "script" not in page.tags
    assert page.handlers == []


def test_run_without_a_finished_copy_has_a_report(tmp_path: Path) -> None:
    html, pdf = render(
        write_run(tmp_path, [Pt({"case": "unthrottled"}, [Copy(status="failed")])]), ["html", "pdf"], ["en"]
    )
    assert "No repetition has a result" in html.read_text()
    assert len(PdfReader(io.BytesIO(pdf.read_bytes())).pages) >= 1


@pytest.mark.parametrize(
    ("backend", "words"), [("fabric", "emulated frame by frame"), ("kernel", "queueing disciplines")]
)
def test_method_describes_the_network_of_a_copy_study(run: Path, backend: Backend, words: str) -> None:
    study = RunData.read(run).study
    plan = LabPlan((), (), backend=backend)
    assert any(words in sentence for sentence in backup.method(study, plan, "en"))
