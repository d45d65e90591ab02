"""A report says nothing twice, can be navigated, and its tables can be saved as CSV."""

from __future__ import annotations

import copy
import csv
import html as markup
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hakaru.analysis import sentences, summarise
from hakaru.analysis.run_data import RunData
from hakaru.caveats import Caveat
from hakaru.kinds.vms.report import REPORT, VmsReport
from hakaru.report import csv_link, document, render
from hakaru.report.blocks import Across, Cell, Column, Group, Row, Section, Table, without_empty_columns
from hakaru.report.findings import on_first_page, paragraphs, rows
from hakaru.report.first_page import next_steps
from hakaru.wording import LANGUAGES, catalogue, has, say

from tests.analysis import small_backup, small_distance
from tests.analysis.small_run import Pt, Rep, write_run
from tests.fixtures.make_run import make_run
from tests.report.test_output import Page

PROSE = re.compile(r"<(p|li|dt|dd|h[1-6]|figcaption)\b[^>]*>(.*?)</\1>", re.DOTALL)
FEW_WORDS, FEW_LETTERS = 6, 20
"""Longest repeated text that is a name or a reference: words in English, letters in Japanese."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write a sweep, a backup and a study of distance."""
    folder = tmp_path_factory.mktemp("runs")
    backup = small_backup.published_shape(folder, (32, 512), (1, 8), [small_backup.PUBLISHED])
    return [make_run(folder), backup, small_distance.published_shape(folder)]


@pytest.fixture(scope="module")
def pages(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Language → the HTML of each run."""
    written = [render(run, ["html"], LANGUAGES, tmp_path_factory.mktemp("out")) for run in runs]
    return {language: [paths[i].read_text() for paths in written] for i, language in enumerate(LANGUAGES)}


def prose(html: str, language: str) -> list[str]:
    """Return the sentences of paragraphs, lists, headings and captions, without names, references
    and lists of numbers or points.
    """
    body = re.sub(r"<(style|svg)\b.*?</\1>|<p class=\"(evidence|places)\">.*?</p>", "", html, flags=re.DOTALL)
    texts = [" ".join(markup.unescape(re.sub(r"<[^>]+>", "", inner)).split()) for _, inner in PROSE.findall(body)]
    found = [sentence.strip() for text in texts for sentence in sentences.split(language, text)]
    if language == "en":
        return [sentence for sentence in found if len(sentence.split()) > FEW_WORDS]
    return [sentence for sentence in found if len(sentence) > FEW_LETTERS]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_is_shown_twice(pages: dict[str, list[str]], language: str) -> None:
    for page in pages[language]:
        counts = Counter(prose(page, language))
        assert len(counts) > 20
        assert {sentence: n for sentence, n in counts.items() if n > 1} == {}


def test_no_figure_is_shown_twice(pages: dict[str, list[str]]) -> None:
    for page in pages["en"]:
        drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
        assert len(drawings) == len(set(drawings)) > 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_page_has_badge_tiles_figure_answer_and_steps_in_this_order(
    pages: dict[str, list[str]], language: str
) -> None:
    for page in pages[language]:
        places = [
            page.index(part) for part in ('class="badge', 'class="tiles"', "<svg", 'class="said"', 'class="next"')
        ]
        assert places == sorted(places)
        assert places[-1] < page.index("<nav")


@pytest.mark.parametrize("language", LANGUAGES)
def test_contents_lead_to_every_section_and_back(pages: dict[str, list[str]], language: str) -> None:
    for page in pages[language]:
        nav = re.search(r"<nav.*?</nav>", page, re.DOTALL)[0]  # type: ignore[index]
        sections = re.findall(r'<section id="([^"]+)"', page)
        assert re.findall(r'href="#([^"]+)"', nav) == sections[1:]  # the first one is above
        ids = re.findall(r' id="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        assert {ref[1:] for ref in Page(page).references if ref.startswith("#")} <= set(ids)
        assert '<a href="#top">' in page


def test_findings_of_the_first_page_are_continued_not_repeated() -> None:
    text = "random: The drive is full. It is full from 4 VMs upwards."
    other = "sequential: The drive is full. The link is busy too."
    findings = [
        {"kind": "limiter", "where": {"p": name}, "limiter": "drives", "text": t, "text_ja": t, "evidence": {}}
        for name, t in (("random", text), ("sequential", other))
    ]
    (paragraph,) = paragraphs(findings[:1], "en")
    assert paragraph == {"name": "random", "text": "The drive is full."}
    entries = rows({"findings": findings, "points": []}, "en", findings[:1])
    assert [(e["name"], e["text"]) for e in entries] == [
        ("random", "It is full from 4 VMs upwards."),
        ("sequential", "The link is busy too."),
    ]
    assert all(e["label"] == say("en", "findings.bottleneck", {"limiter": "drives"}) for e in entries)
    both = paragraphs(findings, "en")
    assert both == [{"name": "random, sequential", "text": "The drive is full."}]


def test_sentences_of_several_findings_are_stated_once_with_their_points() -> None:
    findings = [
        {"kind": "reach", "where": {"p": p}, "limiter": None, "text": f"{p}: Same words. Of {p} only.", "evidence": {}}
        for p in ("a", "b")
    ]
    entries = rows({"findings": findings, "points": []}, "en")
    assert [(e["name"], e["text"], e["places"]) for e in entries] == [
        ("a, b", "Same words.", []),
        ("a", "Of a only.", []),
        ("b", "Of b only.", []),
    ]


def test_sentence_that_refers_to_others_stands_after_them() -> None:
    findings = [
        {"kind": "reach", "where": {"p": p}, "limiter": None, "text": f"{p}: Here: {p}. Not there.", "evidence": {}}
        for p in ("a", "b")
    ]
    entries = rows({"findings": findings, "points": []}, "en")
    assert [(e["name"], e["text"]) for e in entries] == [
        ("a", "Here: a."),
        ("b", "Here: b."),
        ("a, b", "Not there."),
    ]


def test_first_page_has_room_for_few_points() -> None:
    long = "Words. " * 100
    findings = [{"kind": "peak", "where": {"p": p}, "text": f"{p}: {long}"} for p in ("a", "b", "c")]
    assert [f["where"]["p"] for f in on_first_page(findings)] == ["a"]
    short = [{"kind": "peak", "where": {"p": p}, "text": f"{p}: Words."} for p in ("a", "b", "c")]
    assert on_first_page(short) == short


def test_next_steps_of_a_quick_run_name_the_full_form(runs: list[Path]) -> None:
    summary = summarise(runs[0])
    run = {"study": "vm-sweep", "quick": True, "seed": 1}
    steps = next_steps(summary, run, REPORT, "en")
    assert {"text": say("en", "next.full"), "command": "hakaru run vm-sweep --seed 1"} in steps
    stopped = {**summary, "run": {**summary["run"], "status": "interrupted"}}
    first = next_steps(stopped, run, REPORT, "en")[0]
    assert first["command"] == f"hakaru run vm-sweep --resume {summary['run']['run']}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_report_of_a_failed_run_says_why_and_how_to_complete_it(tmp_path: Path, language: str) -> None:
    run = make_run(tmp_path)
    lost = sorted((run / "repetitions").glob("p03-*.json"))
    for record in [*lost, run / "repetitions" / "p02-2.json"]:
        record.unlink()
    ended = {"status": "failed", "error": "the engine was lost", "hint": "see host-1's log"}
    command = ["hakaru", "run", "./my study.yaml", "--out", str(tmp_path)]
    described = json.loads((run / "run.json").read_text()) | ended | {"command": command}
    (run / "run.json").write_text(json.dumps(described))

    summary = summarise(run)
    built = document.build(document.load(run, summary, tmp_path), language)
    values = {"error": "the engine was lost", "hint": "see host-1's log"}
    assert built["notices"][0] == say(language, "status.failed.hint", values)
    assert built["badge"]["words"][1] == say(language, "cover.failed")
    assert not any("{" in text for text in built["notices"])
    counts = {"points": len(summary["points"]), "repetitions": "0–2", "seed": str(described["seed"])}
    assert built["method"][0] == say(language, "method.points", counts)
    resume = f"hakaru run './my study.yaml' --resume {run.name} --out {tmp_path}"
    assert built["next_steps"][0] == {"text": say(language, "next.resume"), "command": resume}
    # The point without results is measured by that command.
    assert [point["valid"] for point in summary["points"]].count(False) == 1
    assert all(step["text"] != say(language, "next.invalid", {"count": 1}) for step in built["next_steps"])
    (path,) = render(run, ["html"], [language], tmp_path / "out", summary=summary)
    written = path.read_text().split("</header>")[0]
    assert "the engine was lost" in written and say(language, "cover.failed") in written


@pytest.mark.parametrize("language", LANGUAGES)
def test_method_gives_the_warm_ups_that_ended_when_the_rate_was_steady(tmp_path: Path, language: str) -> None:
    run = make_run(tmp_path)
    built = document.build(document.load(run, summarise(run), tmp_path), language)
    without = built["method"]
    for name, took, steady in (("p01-1", 12.04, True), ("p01-2", 58.3, True), ("p02-1", 90.0, False)):
        path = run / "repetitions" / f"{name}.json"
        warm_up = {"warm_up": {"seconds": took, "steady": steady}}
        path.write_text(json.dumps(json.loads(path.read_text()) | warm_up))
    built = document.build(document.load(run, summarise(run), tmp_path), language)
    seconds = {"en": "12.0 to 90", "ja": "12.0〜90"}[language]
    stated = say(language, "method.warm_ups", {"seconds": seconds, "n": 3, "steady": 2})
    assert [text for text in built["method"] if text not in without] == [stated]


def test_advice_to_measure_invalid_points_again_has_a_command(runs: list[Path]) -> None:
    summary = summarise(runs[0])
    caveat = {"caveat": "frames_lost", "severity": "invalid"}
    points = [{**summary["points"][0], "valid": False, "caveats": [caveat]}, *summary["points"][1:]]
    run = {"study": "vm-sweep", "quick": False, "seed": 1}
    again = {"text": say("en", "next.invalid", {"count": 1}), "command": "hakaru run vm-sweep --seed 1"}
    for status in ("done", "failed"):
        stopped = {**summary, "points": points, "run": {**summary["run"], "status": status}}
        assert again in next_steps(stopped, run, REPORT, "en")


def test_letters_of_caveats_follow_their_list_with_the_gravest_first(runs: list[Path], tmp_path: Path) -> None:
    inputs = document.load(runs[0], copy.deepcopy(summarise(runs[0])), tmp_path)
    found = [
        Caveat("few_repetitions", {"n": 1}),
        Caveat("cpu_emulated", {"reason": "there is no KVM"}),
        Caveat("bytes_not_conserved", {"initiator": 1, "array": 2, "kind": "read"}),
    ]
    for point in inputs.summary["points"]:
        (template, *_) = point["caveats"]
        point["caveats"] = [template | caveat.to_json() for caveat in found]
    built = document.build(inputs, "en")
    listed = [(caveat["letter"], caveat["severity"]) for caveat in built["caveats"] if caveat["letter"]]
    assert listed == [("a", "invalid"), ("b", "warning"), ("c", "note")]
    marks = [row.marks for table in built["tables"] if table.caveats for row in table.rows if isinstance(row, Row)]
    assert marks and all(list(letters) == ["a", "b", "c"] for letters in marks)


def test_advice_exists_only_for_known_bottlenecks() -> None:
    advised = [message.removeprefix("next.") for message in catalogue("en") if message.startswith("next.limiter.")]
    assert len(advised) > 10
    assert [message for message in advised if not has(message)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_equal_arrays_are_named_together(runs: list[Path], tmp_path: Path, language: str) -> None:
    summary = summarise(runs[1])
    inputs = document.load(runs[1], summary, tmp_path)
    (model,) = {array.model.kind for array in inputs.run.study.storage.values()}
    (lus,) = {len(array.lus) for array in inputs.run.study.storage.values()}
    names = say(language, "list.separator").join(("primary", "vtl"))
    text = say(language, "method.array.named", {"names": names, "model": model, "lus": lus, "count": lus})
    assert document.build(inputs, language)["method"].count(text) == 1


@pytest.mark.parametrize("before_results", [True, False])
def test_explanation_stands_where_it_is_needed_first(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_results: bool
) -> None:
    results, of_section = (
        Table(f"{name}. Rates are means.", [Column("VMs")], [Row(["1"])]) for name in ("Results", "Own")
    )
    section = Section("own", "Own", "", [of_section], before_results=before_results)
    monkeypatch.setattr(type(REPORT), "tables", lambda *_: [results])
    monkeypatch.setattr(type(REPORT), "sections", lambda *_: [section])
    built = document.build(document.load(runs[0], summarise(runs[0]), tmp_path), "en")
    (own,) = [shown for shown in built["sections"] if shown.name == "own"]
    captions = [own.tables[0].caption, built["tables"][0].caption]
    if before_results:
        assert captions == ["Own. Rates are means.", "Results."]
    else:
        assert captions == ["Own.", "Results. Rates are means."]


def test_columns_and_tables_without_numbers_are_left_out() -> None:
    columns = [Column("VMs", header=True), Column("IOPS"), Column("ms"), Column("why", "words")]
    row = Row(["1", Cell("–", bold=True), "7", ""], marks=["a"])
    empty = Table("b", columns[:2], [Row(["1", "–"]), Row(["2", ""])])
    remark = Across("remark", heading=False)
    (table,) = without_empty_columns([Table("a", columns, [row, remark], caveats=True), empty])
    assert [column.title for column in table.columns] == ["VMs", "ms", "why"]
    assert table.rows == [Row(["1", "7", ""], marks=["a"]), remark]
    pairs = Table("c", [], [Row(["name", "value"])])
    assert without_empty_columns([pairs]) == [pairs]


# --- CSV


TABLE = Table(
    "caption",
    [Column("VMs", header=True), Column("IOPS"), Column("of what")],
    [
        Across("group one", heading=True),
        Row(["1", Cell("1,043", "776–1,310", bold=True), Cell("=1+1", "note, with comma")], marks=["a", "b"]),
        Row(["2", Cell("–", "", bold=True), '"quoted"'], marks=[]),
        Across("TCP of h1: 7 segments", heading=False),
    ],
    caveats=True,
)


def lines(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_csv_has_plain_numbers_and_separate_intervals() -> None:
    assert lines(csv_link.text(TABLE, lambda message: message)) == [
        [
            "csv.group",
            "VMs",
            "IOPS",
            "IOPS, csv.low",
            "IOPS, csv.high",
            "of what",
            "of what, csv.note",
            "table.caveats",
        ],
        ["group one", "1", "1043", "776", "1310", "'=1+1", "note, with comma", "a b"],
        ["group one", "2", "", "", "", '"quoted"', "", ""],
        ["group one", "TCP of h1: 7 segments", "", "", "", "", "", ""],
    ]


@pytest.mark.parametrize(
    "formula",
    ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "＝1+1", "＋1", "－1+1", "＠A1"],
)
def test_spreadsheets_do_not_evaluate_texts_of_a_study(formula: str) -> None:
    (values,) = lines(csv_link.text(Table("", [], [Row([formula, "-1.5", "+19.8\u00a0%"])]), str))
    assert values[0].startswith("'")
    assert values[1:] == ["-1.5", "+19.8 %"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("percent", [-15.3, 1234.5, -0.04])
def test_signed_percentages_stay_values(percent: float, language: str) -> None:
    shown = sentences.signed(language, percent)
    ((saved,),) = lines(csv_link.text(Table("", [], [Row([shown])]), str))
    assert saved == shown.replace("\u00a0", " ").replace(",", "")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_table_can_be_saved_and_has_the_numbers_of_the_page(pages: dict[str, list[str]], language: str) -> None:
    page = pages[language][0]
    links = re.findall(r'download="([^"]+)" href="data:text/csv;charset=utf-8,([^"]+)"', page)
    assert len(links) == page.count('class="table') > 5
    assert len({name for name, _ in links}) == len(links)
    saved: list[Any] = [lines(unquote(raw).removeprefix("\ufeff")) for _, raw in links]
    assert all(unquote(raw).startswith("\ufeff") for _, raw in links)
    widths = [{len(row) for row in table} for table in saved]
    assert all(len(width) == 1 for width in widths), widths
    summary_rates = re.findall(r"<b>([\d,]+)</b><small>", page)
    values = {value for table in saved for row in table for value in row}
    assert summary_rates
    assert {rate.replace(",", "") for rate in summary_rates} <= values


@pytest.mark.parametrize("language", LANGUAGES)
def test_title_of_a_figure_begins_with_its_series_only_if_that_has_a_name(
    runs: list[Path], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a study whose first figure is about all series."""
    made = REPORT.groups

    def groups(*inputs: Any) -> list[Group]:
        (group, *others) = made(*inputs)
        return [Group(group.figures), Group(group.figures, "random-32k"), *others]

    monkeypatch.setattr(VmsReport, "groups", lambda _, *inputs: groups(*inputs))
    shown = document.build(document.Inputs(summarise(runs[0]), RunData.read(runs[0])), language)
    assert shown["lead"]["title"] == say(language, "figure.iops")
    (_, named, *_) = [*shown["groups"]]
    titles = [figure["title"] for figure in named["figures"]]
    assert titles[0] == say(language, "series", {"series": "random-32k", "text": say(language, "figure.iops")})
    plain = [figure["title"] for figure in shown["groups"][0]["figures"]]
    assert not any(title.startswith((":", "：", " ")) for title in (*plain, shown["lead"]["title"]))


def test_points_without_a_numeric_factor_have_a_table_and_their_pattern(tmp_path: Path) -> None:
    run = write_run(tmp_path, [Pt({"pattern": name}, [Rep()] * 3) for name in ("a", "b")])
    (written,) = render(run, ["html"], ["en"], tmp_path / "out")
    html = written.read_text()
    assert "There is no figure" in html and "Rates and response times in ms" in html
