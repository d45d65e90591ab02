"""Analysis of searches: rates, places of losses, CPU next to the result, bottleneck, report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.kinds.packets.load import PacketsLoad
from hakaru.kinds.packets.report import REPORT
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report import charts
from hakaru.store import Histograms, Samples

from tests.analysis.run_files import RepetitionData, repetition, write
from tests.kinds.packets.simulated import NODE, Bench, run
from tests.kinds.packets.study import LAB, fields

SCHEMA = Path(__file__).parents[3] / "schema" / "report.schema.json"
SAMPLE_NS = 100_000_000


@dataclass
class Rep:
    """A search on a simulated device. `busy`: use of each processor in percent."""

    bench: Bench
    busy: Mapping[str, float] = field(default_factory=lambda: {"0": 40.0, "1": 99.0})


@dataclass
class Pt:
    factors: dict[str, Any]
    reps: list[Rep]


def build(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    load = PacketsLoad.model_validate({"kind": "packets", "frame": factors["frame"]})
    start_ns = rep.bench.now_ns
    dialogue = run(rep.bench, load)
    samples, histograms = Samples(), Histograms()
    for at_ns in range(start_ns - SAMPLE_NS, rep.bench.now_ns + SAMPLE_NS, SAMPLE_NS):
        counters = {}
        for name, percent in rep.busy.items():
            names = dict.fromkeys(("user_ns", "irq_ns", "softirq_ns", "steal_ns", "iowait_ns"), 0.0)
            counters[f"cpu/{name}"] = names | {
                "system_ns": at_ns * percent / 100,
                "idle_ns": at_ns * (100 - percent) / 100,
            }
        samples.add(NODE, "watch", at_ns, counters)
    for node, found in dialogue.histograms().items():
        histograms.add(node, "trials", None, [h.model_dump() for h in found])
    window = dialogue.window()
    assert window is not None
    measure = {"start_ns": window[0], "end_ns": window[1]}
    record = repetition(window[0], 1, {"node": NODE, "engine": "packets"}, measure=measure, origin="measured")
    return record | {"trials": dialogue.describe()}, samples, histograms


def summary_of(folder: Path, *points: Pt) -> dict[str, Any]:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    parts = {"study": fields(factors=[{"frame": [p.factors["frame"] for p in points]}]), "lab": described}
    return summarise(write(folder, parts, points, build))


def test_rate_losses_delay_and_cpu_of_a_point(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, Pt({"frame": 64}, [Rep(Bench(c)) for c in (99_000.0, 100_000.0, 101_000.0)]))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (point,) = summary["points"]
    metrics = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert metrics["frames_per_s"] == pytest.approx(100_000, rel=0.006)
    assert metrics["mbit_per_s"] == pytest.approx(metrics["frames_per_s"] * 64 * 8 / 1e6)
    assert metrics["share_of_tester_percent"] == pytest.approx(20, rel=0.01)
    assert metrics["lost_at_device_input_percent"] == pytest.approx(100)
    assert metrics["lost_in_device_percent"] == metrics["lost_at_tester_percent"] == 0
    assert metrics["latency_us_p50/50"] == pytest.approx(40, rel=0.001)
    assert metrics["busiest_cpu_percent"] == pytest.approx(99, rel=0.001)
    assert metrics["machine_percent"] == pytest.approx(69.5, rel=0.001)
    assert point["valid"] and point["limiter"] == "one_cpu"
    finding = summary["findings"][0]
    assert "CPU 1 is 99.0 % busy" in finding["text"] and "CPU 1" in finding["text_ja"]


@pytest.mark.parametrize(
    ("rep", "limiter", "caveat"),
    [
        (Rep(Bench(1e7)), "tester", "tester_limited"),
        (Rep(Bench(100_000.0), {"0": 30.0, "1": 50.0}), "input_queue", None),
        (Rep(Bench(500.0)), "undetermined", "search_below_range"),
    ],
)
def test_bottleneck_follows_from_the_evidence(tmp_path: Path, rep: Rep, limiter: str, caveat: str | None) -> None:
    (point,) = summary_of(tmp_path, Pt({"frame": 64}, [rep]))["points"]
    assert point["limiter"] == limiter
    names = {c["caveat"] for c in point["caveats"]} - {"few_repetitions", "no_data"}
    assert names == ({caveat} if caveat else set())


def test_report_has_rates_a_curve_and_tables_in_both_languages(tmp_path: Path) -> None:
    points = [Pt({"frame": size}, [Rep(Bench(rate)) for _ in range(3)]) for size, rate in ((64, 9e4), (1518, 8e4))]
    summary = summary_of(tmp_path, *points)
    for language in ("en", "ja"):
        (group,) = REPORT.groups(summary, None, language)  # type: ignore[arg-type]
        assert [figure.name for figure in group.figures] == ["rates", "curve"]
        for figure in group.figures:
            assert charts.svg(figure.draw(charts.Size(640, 320, 120)))
        assert len(REPORT.tables(summary, {}, language)) == 3
    rows = REPORT.table(summary).rows
    assert len(rows) == 2 and all(row[-1] == "bracketed" for row in rows)
