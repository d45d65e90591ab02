"""Reports of loads over a distance have the numbers of the JSON in both languages and figures that
can be drawn.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from hakaru import report
from hakaru.kinds.vms import path as distance
from hakaru.kinds.vms import path_figures as distance_figures
from hakaru.report import charts, render
from hakaru.report.charts import NARROW, WIDE, Stack
from hakaru.wording import LANGUAGES, number, say
from PIL import Image

from tests.analysis.small_distance import Load, Pt, factors, published_shape, spec_of, write_run
from tests.report.test_output import Page, sentences_of, squeezed


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return file name → path for a run with the cases of the publication."""
    run = published_shape(tmp_path_factory.mktemp("runs"))
    return {p.name: p for p in render(run, ["html", "json"], LANGUAGES, tmp_path_factory.mktemp("report"))}


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_shows_the_numbers_and_findings_of_the_json(rendered: dict[str, Path], language: str) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    text = squeezed("".join(Page(rendered[f"report.{language}.html"].read_text()).text))
    for point in summary["points"]:
        for name in ("mb_per_s", "bound_mb_per_s", "r2ts_per_command"):
            assert squeezed(number(point["metrics"][name]["mean"], language)) in text
    for sentence in (s for finding in summary["findings"] for s in sentences_of(finding, language)):
        assert squeezed(sentence) in text


def test_both_languages_have_the_same_numbers(rendered: dict[str, Path]) -> None:
    cells = [
        re.findall(r"<t[dh][^>]*>(?:<b>)?([0-9][0-9,.]*)<", rendered[f"report.{language}.html"].read_text())
        for language in LANGUAGES
    ]
    assert len(cells[0]) > 100
    assert cells[0] == cells[1]


def test_answer_is_the_gain_of_settings_at_the_middle_distance(rendered: dict[str, Path]) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    assert distance_figures.chief_rtt(summary) == 20
    chief = [(f["kind"], f["where"].get("settings")) for f in distance.chief_findings(summary)]
    assert chief == [("gain", None), ("limiter", "default"), ("limiter", "parameters"), ("limiter", "optimised")]
    assert [t["title"] for t in distance.tiles(summary, "en")] == [
        "default, 20 ms", "parameters, 20 ms", "optimised, 20 ms"
    ]  # fmt: skip


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_figure_can_be_drawn_in_its_width(rendered: dict[str, Path], language: str, size: charts.Size) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    figures = distance_figures.of_run(summary, language)
    assert [f.name for f in figures] == ["throughput_0", "phases", "tcp", "window"]
    for figure in figures:
        with Image.open(io.BytesIO(charts.png(figure.draw(size), 1.0))) as image:
            assert size.width < image.width <= size.width + size.labels + 80, figure.name


def test_bounds_are_dashed_lines_without_a_name(rendered: dict[str, Path]) -> None:
    summary = json.loads(rendered["report.json"].read_text())
    spec = charts.spec(distance_figures.of_run(summary, "en")[0].draw(WIDE))
    dashed = [
        layer for layer in spec["layer"]
        if isinstance(layer["mark"], dict) and layer["mark"].get("strokeDash") == [3, 3]
    ]  # fmt: skip
    assert len(dashed) == 3
    assert all(len(layer["data"]["values"]) == 41 for layer in dashed)
    names = [layer["mark"].get("text") for layer in spec["layer"] if layer["mark"].get("type") == "text"]
    assert sorted(n[0] for n in names) == ["default", "optimised", "parameters"]


def test_ticks_do_not_overlap() -> None:
    assert distance_figures.ticks([0, 1, 5, 10, 20, 40, 80]) == [0, 5, 10, 20, 40, 80]
    assert distance_figures.ticks([20]) == [20]


def test_run_without_a_curve_still_has_a_report(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt(factors(), [Load(spec_of("default", 20), tcp=False)])])
    paths = render(run, ["html", "json"], LANGUAGES, tmp_path / "out")
    summary = json.loads(paths[0].read_text())
    assert summary["curves"] == []
    assert [f.name for f in distance_figures.of_run(summary, "en")] == ["phases"]


def test_parts_of_a_bar_are_stacked_and_unknown_parts_are_left_out() -> None:
    chart = charts.stacks([Stack("a", [60, None, 40]), Stack("b", [0, 0, 100])], ["x", "y", "z"], "%", WIDE)
    bars = next(layer for layer in charts.spec(chart)["layer"] if layer["mark"]["type"] == "bar")
    places = [(row["place"], row["part"], row["begin"], row["end"]) for row in bars["data"]["values"]]
    assert places == [(0, "x", 0, 60), (0, "z", 60, 100), (1, "z", 0, 100)]
    assert bars["encoding"]["color"]["scale"]["domain"] == ["x", "z"]


def test_single_figures_of_a_run_over_a_distance_can_be_drawn(tmp_path: Path) -> None:
    run = published_shape(tmp_path)
    assert report.figure(run, "throughput_0", tmp_path / "t.svg").read_text().startswith("<svg")
    assert report.figure(run, "phases", tmp_path / "p.png", language="ja").read_bytes().startswith(b"\x89PNG")


def test_text_on_hops_does_not_mention_copies() -> None:
    assert "image" not in say("en", "hops.about") and "コピー" not in say("ja", "hops.about")
