"""Analysis of loads on files: rates, times, shares, bottleneck, peak, report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import sentences, summarise
from hakaru.kinds.files.report import REPORT
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report import charts
from hakaru.store import Samples
from hakaru.wording import say

from tests.analysis.run_files import SECOND, RepetitionData, alike, lateness, repetition, write
from tests.kinds.files.study import LAB, fields

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"
START, SECONDS = 10 * SECOND, 4


@dataclass
class Rep:
    """A load of `files_per_s`, 80 % of them read, 1 MB each. Tools wait for the file system
    `waiting` of their time: a quarter for opening, the rest for reading. `cpu`: use of the machine.
    """

    files_per_s: float
    waiting: float = 0.8
    cpu: float = 40.0
    own_s: float = SECONDS
    """Measuring phase of the client itself."""
    late_us: float | None = None
    """Lateness of the frames of an emulated network whose thread is full; None: no such network."""


@dataclass
class Pt:
    factors: dict[str, Any]
    reps: list[Rep]


def build(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    samples, histograms = Samples(), lateness(rep.late_us)
    for second in range(-1, SECONDS + 2):
        at_ns, files = START + second * SECOND, rep.files_per_s * (second + 1)
        counters = {"files_read": 0.8 * files, "files_written": 0.2 * files, "steps": 0.0}
        counters |= {"read_bytes": 0.8e6 * files, "written_bytes": 0.2e6 * files}
        counters |= {"lookups": 3 * files, "opens": files, "reads": 0.8 * files, "writes": 0.2 * files, "closes": files}
        samples.add("client", "files", at_ns, {"files": counters})
        names = dict.fromkeys(("user_ns", "irq_ns", "softirq_ns", "steal_ns", "iowait_ns"), 0.0)
        names |= {"system_ns": at_ns * rep.cpu / 100, "idle_ns": at_ns * (100 - rep.cpu) / 100}
        samples.add("server", "watch", at_ns, {"cpu/0": names, "machine": names})
        if rep.late_us is not None:
            samples.add("fabric", "fabric", at_ns, {"process": {"cpu_user_ns": 0.99 * at_ns, "cpu_system_ns": 0.0}})
    tools_ns = rep.own_s * SECOND * factors["tools"] * rep.waiting
    found = [("open", 0.25 * tools_ns / 100, 100), ("read", 0.75 * tools_ns / 400, 400), ("file_read", 2e6, 80)]
    rows = [{"entity": "files", "name": f"{name}_latency_ns", "hdr": alike(ns, count)} for name, ns, count in found]
    histograms.add("client", "files", None, rows)
    engine = {"node": "client", "engine": "files", "values": {"load_ns": 5e9, "measured_ns": rep.own_s * SECOND}}
    return repetition(START, SECONDS, engine, origin="measured"), samples, histograms


def summary_of(folder: Path, *points: Pt, **parts: Any) -> dict[str, Any]:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    levels = [point.factors["tools"] for point in points]
    load = {"tools": 1, "tree": {"trees": 64, "scale": "1/1000"}}
    study = fields(factors=[{"tools": levels}], load=load) | parts
    return summarise(write(folder, {"study": study, "lab": described}, points, build))


def test_rates_times_and_shares_of_a_point(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Pt({"tools": 4}, [Rep(100.0), Rep(102.0), Rep(98.0)]))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (point,) = summary["points"]
    mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert mean["files_per_s"] == pytest.approx(100)
    assert mean["files_read_per_s"] == pytest.approx(80)
    assert (mean["mb_per_s"], mean["write_mb_per_s"]) == (pytest.approx(100), pytest.approx(20))
    assert mean["operations_per_s"] == pytest.approx(600)
    assert mean["open_time_percent"] == pytest.approx(20, rel=0.002)
    assert mean["read_time_percent"] == pytest.approx(60, rel=0.002)
    assert mean["lookup_time_percent"] == 0
    assert mean["file_read_ms_p99"] == pytest.approx(2, rel=0.002)
    assert mean["write_ms_p50"] is None
    assert mean["load_s"] == 5
    assert point["valid"] and point["limiter"] == "file_system"
    (finding,) = summary["findings"]
    assert "wait for it 80.0 % of their time, 60.0 % for read" in finding["text"]
    assert "読み出し" in finding["text_ja"]


def test_shares_are_those_of_the_time_that_each_client_measures(tmp_path: Path) -> None:
    """It is longer than the phase of the repetition, which ends when the first client ends."""
    (point,) = summary_of(tmp_path, Pt({"tools": 4}, [Rep(100.0, own_s=1.5 * SECONDS)] * 3))["points"]
    shares = [point["metrics"][f"{name}_time_percent"]["mean"] for name in ("open", "read")]
    assert shares == [pytest.approx(20, rel=0.002), pytest.approx(60, rel=0.002)]


@pytest.mark.parametrize(
    ("rep", "limiter"),
    [(Rep(100.0, cpu=99.0), "machine_cpu"), (Rep(100.0, waiting=0.4), "undetermined"), (Rep(100.0), "file_system")],
)
def test_bottleneck_follows_from_the_evidence(tmp_path: Path, rep: Rep, limiter: str) -> None:
    (point,) = summary_of(tmp_path, Pt({"tools": 4}, [rep] * 3))["points"]
    assert point["limiter"] == limiter


def test_emulated_network_that_falls_behind_is_the_bottleneck(tmp_path: Path) -> None:
    (point,) = summary_of(tmp_path, Pt({"tools": 4}, [Rep(100.0, late_us=900.0)] * 3))["points"]
    assert point["limiter"] == "fabric" and not point["valid"]
    assert {"fabric_late", "fabric_saturated"} <= {caveat["caveat"] for caveat in point["caveats"]}


def test_sweep_finds_the_best_number_of_tools(tmp_path: Path) -> None:
    rates = {1: 100.0, 4: 290.0, 16: 300.0, 64: 200.0}
    summary = summary_of(tmp_path, *(Pt({"tools": tools}, [Rep(rate)]) for tools, rate in rates.items()))
    peak = summary["findings"][0]
    assert peak["kind"] == "peak"
    assert (peak["evidence"]["level"], peak["evidence"]["near_peak"]) == (16, [4, 16])
    assert peak["text"].startswith("The rate is highest with 16 tools: 300 files per second")
    assert "From 4 to 16 tools" in peak["text"]
    chief = REPORT.chief_findings(summary)
    assert [finding["kind"] for finding in chief] == ["peak", "limiter"]
    assert chief[1]["where"] == {"tools": 16}


def test_expectations_about_the_best_number_of_tools_are_judged(tmp_path: Path) -> None:
    points = [Pt({"tools": tools}, [Rep(rate)] * 3) for tools, rate in {1: 100.0, 4: 300.0, 16: 200.0}.items()]
    over: dict[str, Any] = {"metric": "files_per_s", "over": "tools"}
    below = {"kind": "below_peak", "at": 16, "low_percent": 30, "high_percent": 40} | over
    expect = [{"kind": "peak", "low": n, "high": n} | over for n in (4, 16)]
    outcomes = summary_of(tmp_path, *points, expect=[*expect, below])["expectations"]
    assert [outcome["held"] for outcome in outcomes] == [True, False, True]


def test_report_has_figures_tables_and_tiles_in_both_languages(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, *(Pt({"tools": tools}, [Rep(50.0 * tools)] * 3) for tools in (1, 2)))
    for language in ("en", "ja"):
        (group,) = REPORT.groups(summary, None, language)  # type: ignore[arg-type]
        assert [figure.name for figure in group.figures] == ["rates", "time"]
        for figure in group.figures:
            assert charts.svg(figure.draw(charts.Size(640, 320, 120)))
        assert len(REPORT.tables(summary, {}, language)) == 2
        assert len(REPORT.tiles(summary, language)) == 3
    rows = REPORT.table(summary).rows
    assert [row[0] for row in rows] == ["50", "100"]


def test_operations_that_only_later_points_have_are_shown(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, *(Pt({"tools": tools}, [Rep(50.0 * tools)] * 3) for tools in (1, 2)))
    for metric in ("read_time_percent", "read_ms_p50", "read_ms_p99"):
        del summary["points"][0]["metrics"][metric]
    (_, times) = REPORT.tables(summary, {}, "en")
    place = [column.title for column in times.columns].index(say("en", "operation.read"))
    first, second = (row.cells[place] for row in times.rows)
    assert (first.text, second.text) == ("–", "12.0")
    (group,) = REPORT.groups(summary, None, "en")  # type: ignore[arg-type]
    (time,) = (figure for figure in group.figures if figure.name == "time")
    assert say("en", "operation.read") in charts.svg(time.draw(charts.Size(640, 320, 120)))


def test_levels_that_are_true_or_false_have_words_in_both_languages() -> None:
    words = [sentences.level(language, "cold", cold) for language in ("en", "ja") for cold in (True, False)]
    assert words == ["cold caches", "warm caches", "コールドキャッシュ", "ウォームキャッシュ"]
