"""Loads of users: mixes, think times and requested rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.errors import UsageError
from hakaru.kinds.files import names
from hakaru.kinds.files.load import load_at
from hakaru.kinds.files.mixes import MIXES
from hakaru.kinds.files.report import REPORT
from hakaru.kinds.files.run import RUN
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.store import Histograms, Samples
from hakaru.study import expand, load

from tests.analysis.run_files import SECOND, RepetitionData, alike, repetition, write
from tests.cli.command import pages_of
from tests.kinds.files.study import LAB, TREE, fields, written
from tests.kinds.files.test_run import hakaru

START, SECONDS = 10 * SECOND, 4
TIMED: dict[str, Any] = {"repetitions": 1, "sample_interval": "100 ms", "time": "2 s"}


def users(**parts: Any) -> dict[str, Any]:
    return {"users": parts}


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"load": users() | {"profile": "metadata"}}, "users have a mix of their own"),
        ({"load": users() | {"mix": {"read": 50}}}, "users have a mix of their own"),
        ({"load": users()}, "users never run out of files"),
        ({"load": users() | {"repeat": True}, "measure": TIMED}, "leave out `repeat`"),
        ({"load": users(mix="fsct")}, "load.users.mix"),
        ({"load": users(mix={})}, "`mix` has no operation"),
        ({"load": users(mix={"copy": 1})}, "load.users.mix"),
        ({"load": users(mix={"read": 0})}, "load.users.mix"),
        ({"load": users(rate=0)}, "load.users.rate"),
        ({"load": users(rate=5, think="1 s")}, "either `think` or `rate`"),
        ({"load": users() | {"tools": 5}, "factors": [{"tools": [5]}], "measure": TIMED}, "5 tools for 4 trees"),
    ],
)
def test_impossible_users_are_refused(tmp_path: Path, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        load(str(written(tmp_path, **parts)))


def test_the_engine_gets_the_weights_of_the_mix_and_a_clients_part_of_the_rate(tmp_path: Path) -> None:
    links = {name: {"between": [name, "switch"], "rate": "1 Gbit/s"} for name in ("a", "b", "server")}
    lab = {"hosts": ["a", "b"], "arrays": ["server"], "switches": {"switch": {}}, "links": links}
    own = users(mix={"read": 3, "list": 0.5}, rate=100) | {"clients": 2, "to": {"smb": {}}}
    study = written(tmp_path, lab=lab, load=own, factors=[{"tools": [2]}], measure=TIMED)
    expanded = expand(load(str(study)).study)
    configs = RUN.loads(expanded, expanded.repetitions[0], plan_lab(expanded.study.lab)).values()
    assert len(configs) == 2
    for config in configs:
        assert config.engine == "files" and config.task == "load" and config.mix is not None
        assert (config.profile, config.tools, config.measure_s) == ("mix", 1, 2.0)
        assert [(each.operation, each.weight) for each in config.mix.operations] == [("read", 3.0), ("list", 0.5)]
        assert (config.mix.rate_per_s, config.mix.think_ms) == (50.0, 0.0)


def test_every_mix_has_its_source_and_metrics_of_what_occurs_in_it(tmp_path: Path) -> None:
    for name, mix in MIXES.items():
        assert sum(mix.weights.values()) == 100
        assert "assumed" in mix.source
        study = load(str(written(tmp_path / name, load=users(mix=name, think="10 ms"), measure=TIMED))).study
        metrics = names.metrics_of(load_at(study))
        assert {"list_ms_p99", "stat_ms_p50", "delay_ms_p99", "achieved_percent", "step_ms_p99"} <= metrics.keys()
        assert ("rename_ms_p50" in metrics) == ("rename" in mix.weights)
        assert "flush_ms_p50" not in metrics
    only = load(str(written(tmp_path, load=users(mix={"read": 1}), measure=TIMED))).study
    assert names.operations(load_at(only)) == ("lookup", "open", "read", "close")
    assert names.wholes(load_at(only)) == ("file_read",)


class Pt:
    """A point of two users at a rate. Reads take `waiting` of the time of the users."""

    def __init__(self, per_s: float, waiting: float, delay_ms: float = 0.1) -> None:
        self.factors: dict[str, Any] = {"tools": 2}
        self.reps = [(per_s, waiting, delay_ms)]


def build(factors: dict[str, Any], rep: tuple[float, float, float]) -> RepetitionData:
    per_s, waiting, delay_ms = rep
    samples, histograms = Samples(), Histograms()
    for second in range(-1, SECONDS + 2):
        at_ns, done = START + second * SECOND, per_s * (second + 1)
        counters = {"files_read": done / 2, "files_written": 0.0, "steps": done / 2, "lists": done / 2, "begins": done}
        counters |= {"opens": done / 2, "reads": done / 2, "closes": done / 2, "lookups": 0.0}
        counters |= {"read_bytes": 1e4 * done, "written_bytes": 0.0}
        samples.add("client", "files", at_ns, {"files": counters})
        machine = dict.fromkeys(("user_ns", "irq_ns", "softirq_ns", "steal_ns", "iowait_ns"), 0.0)
        machine |= {"system_ns": at_ns * 0.2, "idle_ns": at_ns * 0.8}
        samples.add("server", "watch", at_ns, {"cpu/0": machine, "machine": machine})
    spent = SECONDS * SECOND * factors["tools"] * waiting
    found = [("read", spent / 100, 100), ("list", 1e5, 100), ("file_read", 2e6, 80), ("delay", delay_ms * 1e6, 80)]
    rows = [{"entity": "files", "name": f"{name}_latency_ns", "hdr": alike(ns, count)} for name, ns, count in found]
    histograms.add("client", "files", None, rows)
    engine = {"node": "client", "engine": "files", "values": {"load_ns": 5e9}}
    return repetition(START, SECONDS, engine, origin="measured"), samples, histograms


@pytest.mark.parametrize(
    ("own", "point", "limiter", "words"),
    [
        ({"think": "1 s"}, Pt(50.0, 0.2), "users", "think for the rest"),
        ({"think": "1 s"}, Pt(50.0, 0.8), "file_system", "perform 50 operations per second"),
        ({"rate": 50}, Pt(49.9, 0.8), "users", "The requested rate is reached (99.8 %)"),
        ({"rate": 100}, Pt(50.0, 0.8), "file_system", "50 of 100 requested operations per second (50 %"),
        ({"rate": 100}, Pt(50.0, 0.8, delay_ms=30.0), "users_late", "begin 30.0 ms late"),
    ],
)
def test_the_bottleneck_is_the_users_the_tool_or_the_server(
    tmp_path: Path, own: dict[str, Any], point: Pt, limiter: str, words: str
) -> None:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(load=users(mix={"read": 1, "list": 1}, **own), factors=[{"tools": [2]}], measure=TIMED)
    summary = summarise(write(tmp_path, {"study": study, "lab": described}, [point], build))
    (measured,) = summary["points"]
    assert measured["limiter"] == limiter
    rate = measured["metrics"]["files_per_s"]["mean"]
    achieved = measured["metrics"]["achieved_percent"]["mean"]
    assert achieved == (pytest.approx(100 * rate / own["rate"]) if "rate" in own else None)
    assert measured["metrics"]["list_ms_p50"]["mean"] == pytest.approx(0.1, rel=0.01)
    texts = " ".join(finding["text"] for finding in summary["findings"])
    assert words in texts


def test_users_of_a_directory_perform_their_mix_and_leave_nothing(tmp_path: Path) -> None:
    # Fewer operations than the slowest machine can do.
    own = users(mix="home_folders", rate=40) | {"verify": True, "tools": 4}
    variables = {"times": {"thinking": {"load.users.rate": None, "load.users.think": "20 ms"}, "paced": {}}}
    study = written(
        tmp_path,
        load=own | {"tree": TREE | {"targets": 60}},
        variables=variables,
        factors=[{"times": ["paced", "thinking"]}],
        measure=TIMED,
    )
    ran = hakaru(tmp_path, "run", str(study), "--report", "json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (run,) = (tmp_path / "runs").iterdir()
    summary = json.loads((run / "report" / "report.json").read_text())
    paced, thinking = (point["metrics"] for point in summary["points"])
    assert 80 < paced["achieved_percent"]["mean"] < 120
    assert thinking["achieved_percent"]["mean"] is None
    for metrics in (paced, thinking):
        for name in ("stat_ms_p50", "list_ms_p50", "file_read_ms_p99", "step_ms_p99", "delay_ms_p99"):
            assert metrics[name]["mean"] >= 0
    for record in (run / "repetitions").glob("*.json"):
        (engine,) = (e for e in json.loads(record.read_text())["engines"] if e["engine"] == "files")
        values = engine["values"]
        assert values["errors"] == values["mismatches"] == 0
        assert values["creates"] == values["deletes"]
        assert values["entries_listed"] > 0
    pages = pages_of(run)
    assert "cannot be compared with results of FSCT" in pages["en"] and "FSCT の結果とは比較できない" in pages["ja"]
    assert list((tmp_path / "scratch").iterdir()) == []
    assert REPORT.table(summary).rows
