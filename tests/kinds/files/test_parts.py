"""Analysis of several file servers and clients, and of cold caches, from invented counters."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.kinds.files.analysis.below import headroom
from hakaru.kinds.files.analysis.parts import fairness
from hakaru.kinds.files.report import REPORT
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.store import Histograms, Samples
from hakaru.wording import LANGUAGES, say

from tests.analysis.run_files import SECOND, RepetitionData, repetition, write
from tests.kinds.files.segments import LOAD, segments
from tests.kinds.files.study import fields
from tests.kinds.files.test_analysis import SCHEMA, SECONDS, START

FILE_BYTES = 1e6


@dataclass
class Rep:
    """Files per second of each host, all of them read. `disk`: bytes read from the machine's disk
    for each byte that the tools read; None: no counters.
    """

    files_per_s: dict[str, float]
    disk: float | None = 1.0


@dataclass
class Pt:
    factors: dict[str, Any]
    reps: list[Rep] = field(default_factory=list)


def build(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    samples = Samples()
    for second in range(-1, SECONDS + 2):
        at_ns = START + second * SECOND
        for host, rate in rep.files_per_s.items():
            files = rate * (second + 1)
            counters = dict.fromkeys(("files_written", "steps", "written_bytes"), 0.0)
            counters |= {"files_read": files, "read_bytes": FILE_BYTES * files}
            samples.add(host, "files", at_ns, {"files": counters})
        if rep.disk is not None:
            read = rep.disk * FILE_BYTES * sum(rep.files_per_s.values()) * (second + 1)
            # A device below the other one counts the same reads.
            disks = {"disk/dm-0": {"read_bytes": read}, "disk/sda": {"read_bytes": 0.9 * read}}
            samples.add("server", "watch", at_ns, disks)
    engine = {"node": "c-11", "engine": "files", "values": {"load_ns": 5e9}}
    return repetition(START, SECONDS, engine, origin="measured"), samples, Histograms()


def summary_of(folder: Path, load: dict[str, Any], *points: Pt) -> dict[str, Any]:
    lab = segments(2, 2)
    factors = [{name: [level] for name, level in point.factors.items()} for point in points]
    study = fields(factors=factors, load=LOAD | {"tree": {"trees": 64, "scale": "1/1000"}} | load, lab=lab)
    described = plan_lab(LabSpec.model_validate(lab)).describe()
    return summarise(write(folder, {"study": study, "lab": described}, points, build))


RATES = {"c-11": 10.0, "c-12": 30.0, "c-21": 15.0, "c-22": 5.0}


def test_rates_of_clients_add_up_to_their_server_and_to_the_point(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {}, Pt({"servers": 2}, [Rep(RATES)] * 3))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    (point,) = summary["points"]
    mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert mean["files_per_s"] == pytest.approx(60) and mean["mb_per_s"] == pytest.approx(60)
    assert mean["files_per_s/fs-1"] == pytest.approx(40) and mean["mb_per_s/fs-2"] == pytest.approx(20)
    assert mean["files_per_s/c-12"] == pytest.approx(30)
    assert mean["server_fastest_to_slowest"] == pytest.approx(2)
    assert mean["server_jain_index"] == pytest.approx(60**2 / (2 * (40**2 + 20**2)))
    assert point["servers"][1] == {"server": "fs-2", "clients": ["c-21", "c-22"]}
    (finding,) = [each for each in summary["findings"] if each["kind"] == "servers"]
    assert "The fastest, fs-1, serves 2 times as many as the slowest, fs-2" in finding["text"]
    assert "fs-1 は、最も遅い fs-2 の 2 倍" in finding["text_ja"]
    for language in LANGUAGES:
        (table,) = [
            t for t in REPORT.tables(summary, {}, language) if t.caption == say(language, "table.files.servers")
        ]
        assert len(table.rows) == 1 + 2 * (1 + 2)


def test_sentence_about_servers_compares_their_means(tmp_path: Path) -> None:
    """Each server is the faster one in a repetition."""
    one, two = ({"c-11": a, "c-12": a, "c-21": b, "c-22": b} for a, b in ((30.0, 10.0), (10.0, 40.0)))
    summary = summary_of(tmp_path, {}, Pt({"servers": 2}, [Rep(one), Rep(two)]))
    assert summary["points"][0]["metrics"]["server_fastest_to_slowest"]["mean"] == pytest.approx(3.5)
    (finding,) = [each for each in summary["findings"] if each["kind"] == "servers"]
    assert "The fastest, fs-2, serves 1.25 times as many as the slowest, fs-1" in finding["text"]


def test_one_server_has_no_fairness(tmp_path: Path) -> None:
    rates = {"c-11": 10.0, "c-12": 30.0}
    (point,) = (summary := summary_of(tmp_path, {}, Pt({"servers": 1}, [Rep(rates)] * 3)))["points"]
    assert point["metrics"]["server_jain_index"]["mean"] is None
    assert point["metrics"]["files_per_s/fs-1"]["mean"] == pytest.approx(40)
    (finding,) = [each for each in summary["findings"] if each["kind"] == "servers"]
    assert "to 2 clients together" in finding["text"]


def test_fairness_of_equal_and_of_idle_servers() -> None:
    assert fairness([5.0, 5.0, 5.0]) == {"server_fastest_to_slowest": 1, "server_jain_index": pytest.approx(1)}
    idle = fairness([5.0, 0.0])
    assert idle["server_jain_index"] == 0.5 and math.isnan(idle["server_fastest_to_slowest"])
    assert all(math.isnan(value) for value in fairness([5.0, math.nan]).values())


@pytest.mark.parametrize(
    ("disk", "cold", "percent"),
    [(0.95, True, None), (0.6, True, 60.0), (None, True, 0.0), (0.0, False, None), (1.4, True, None)],
)
def test_cold_load_that_the_disk_did_not_serve_is_marked(
    tmp_path: Path, disk: float | None, cold: bool, percent: float | None
) -> None:
    reps = [Rep(RATES, disk)] * 3
    (point,) = summary_of(tmp_path, {}, Pt({"servers": 2, "cold": cold}, reps))["points"]
    found = [caveat for caveat in point["caveats"] if caveat["caveat"] == "cache_not_cold"]
    assert [caveat["values"]["percent"] for caveat in found] == ([] if percent is None else [pytest.approx(percent)])
    delivered = point["metrics"]["read_below_percent"]["mean"]
    assert delivered == (None if disk is None else pytest.approx(100 * disk))


def test_headroom_is_that_of_the_publication_at_its_busy_drives() -> None:
    assert headroom(41.0)["headroom_low"] == pytest.approx(1.5, abs=0.02)
    assert headroom(44.0)["headroom_high"] == pytest.approx(1.8, abs=0.01)
    assert all(math.isnan(value) for busy in (math.nan, 0.007) for value in headroom(busy).values())
