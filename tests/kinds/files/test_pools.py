"""Pools below file servers: `events` that make them grow, and their use and fragmentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hakaru.analysis import summarise
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.files.report import REPORT
from hakaru.kinds.files.run import RUN
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.report import charts
from hakaru.report.charts import NARROW, WIDE
from hakaru.run.events import ArrayChange
from hakaru.run.plan import estimate
from hakaru.study import Study, expand, load

from tests.analysis.run_files import RepetitionData, write
from tests.kinds.files import test_analysis as plain
from tests.kinds.files.study import fields, written
from tests.kinds.files.test_chain import LAB, expanded_of, segments, to
from tests.kinds.files.test_chain_analysis import SCHEMA, Pt, Rep, build

MIB = 1 << 20
EVENTS: list[dict[str, Any]] = [{"at": "2 s", "grow_pool": {"size": "64 MiB"}}]
DRIVES: dict[str, Any] = {"kind": "preset", "name": "jdsf-2011"}
TIMED: dict[str, Any] = {"repetitions": 1, "sample_interval": "100 ms", "time": "10 s"}


def placed(group: int, offset: str) -> dict[str, Any]:
    return {"at": "2 s", "grow_pool": {"size": "64 MiB", "placement": {"group": group, "offset": offset}}}


def test_events_add_groups_to_the_pool_of_each_file_server(tmp_path: Path) -> None:
    events = [*EVENTS, placed(0, "256 MiB") | {"at": "3 s"}]
    parts: dict[str, Any] = {"lab": segments(2, 2), "factors": [{"tools": [2]}]}
    expanded = expanded_of(tmp_path, load=to(smb={}) | {"servers": 2, "events": events}, **parts)
    planned = plan_lab(expanded.study.lab)
    found = RUN.events(expanded.at(expanded.points[0]), planned)
    assert [(event.at_ns / 1e9, event.name, event.object) for event in found] == [
        (at, "grow_pool", array) for at in (2, 3) for array in ("array-1", "array-2")
    ]
    groups = []
    for event in found[::2]:
        assert isinstance(event.change, ArrayChange) and event.change.node == "array-1"
        assert isinstance(event.change.action, contract.GrowAction) and event.change.action.pool == "pool"
        groups.append(event.change.action.group)
    assert [(group.name, group.size_bytes) for group in groups] == [("group-2", 64 * MIB), ("group-3", 64 * MIB)]
    assert groups[0].placement is None
    assert groups[1].placement == contract.Placement(group=0, offset_bytes=256 * MIB)
    without = expanded_of(tmp_path, load=to(smb={}) | {"servers": 2}, **parts)
    assert estimate(expanded, planned).memory_bytes - estimate(without, planned).memory_bytes == 2 * 2 * 64 * MIB


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"load": {"to": {"directory": "small"}, "events": EVENTS}}, "its files are not on a chain"),
        (
            {"load": to(lu={"page": "1 MiB"}) | {"events": [{"at": "2 s", "grow_pool": {"size": "1 MiB"}}]}},
            "a group of 1 MiB has no page for data",
        ),
        (
            {"load": to() | {"events": [{"at": "2 s", "grow_pool": {"pool": "other", "size": "1 GiB"}}]}},
            "unknown field",
        ),
        ({"load": to() | {"events": EVENTS}, "measure": TIMED | {"time": "2 s"}}, "2 s is not within the measuring"),
        (
            {
                "load": to() | {"events": EVENTS},
                "measure": TIMED,
                "quick": {"measure": TIMED | {"time": "1 s"}},
            },
            "2 s is not within the measuring phase of 1 s",
        ),
        ({"load": to(lu={"model": DRIVES}) | {"events": EVENTS}}, "the new group has no place on them"),
        (
            {"load": to(lu={"model": DRIVES}) | {"events": [placed(0, "192 MiB")]}},
            "begins at 192 MiB, where another group",
        ),
        (
            {"load": to(lu={"model": DRIVES}) | {"events": [placed(1, "0 B"), placed(1, "32 MiB")]}},
            "begins at 32 MiB, where another group",
        ),
    ],
)
def test_impossible_events_are_refused(tmp_path: Path, parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        expand(load(str(written(tmp_path, **({"lab": LAB} | parts)))).study)


def test_a_group_beside_the_pool_on_the_drives_is_accepted(tmp_path: Path) -> None:
    events = [placed(0, "256 MiB"), placed(1, "0 B")]
    expanded = expanded_of(tmp_path, load=to(lu={"model": DRIVES}) | {"events": events})
    assert len(RUN.events(expanded.at(expanded.points[0]), plan_lab(expanded.study.lab))) == 2


def growing(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    """The pool grows from 63 to 127 MiB after 2 s of the measuring phase. 48 MiB of it are in use,
    in twice as many runs afterwards. A second client uses 60 files in the following second.
    """
    content, samples, histograms = build(factors, rep)
    for second in range(-10, plain.SECONDS + 2):
        at, grown = plain.START + second * plain.SECOND, second > 2
        samples.add("client", "files", at, {"trees": {"bytes_done": 1e6 * min(second + 10, 4)}})
        samples.add("other", "files", at, {"files": {"files_read": 60.0 if grown else 0.0}})
        pool = {"used_bytes_now": 48 * MIB, "capacity_bytes_now": (127 if grown else 63) * MIB}
        pool |= {"mapped_bytes_now": 48 * MIB, "runs_now": 48 if grown else 24}
        samples.add("array", "array", at, {"pool/pool": {name: float(value) for name, value in pool.items()}})
    begun_ns = plain.START + 2 * plain.SECOND
    event = {"event": "grow_pool", "object": "array", "due_ns": begun_ns, "begun_ns": begun_ns}
    return content | {"events": [event | {"done_ns": begun_ns + plain.SECOND // 4}]}, samples, histograms


def summary_of(folder: Path, load_: dict[str, Any]) -> tuple[dict[str, Any], Study]:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(lab=LAB, load=load_, factors=[{"disk_cache": ["none"]}])
    points = [Pt({"disk_cache": "none"}, [Rep(100.0)] * 3)]
    summary = summarise(write(folder, {"study": study, "lab": described}, points, growing))
    jsonschema.validate(summary, json.loads(SCHEMA.read_text()))
    return summary, Study.model_validate(study)


def test_growth_under_load_has_its_time_rates_and_effect_on_the_use_of_the_pool(tmp_path: Path) -> None:
    summary, study = summary_of(tmp_path, to() | {"events": EVENTS})
    (point,) = summary["points"]
    mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    assert mean["pool_growth_ms"] == pytest.approx(250)
    assert (mean["pool_mib_before_growth"], mean["pool_mib_after_growth"]) == (63, 127)
    assert mean["pool_used_percent_before_growth"] == pytest.approx(100 * 48 / 63)
    assert mean["pool_used_percent_after_growth"] == pytest.approx(100 * 48 / 127)
    # The growth counts for 0.25 s, and for one second more.
    rates = [mean[f"files_per_s_{when}_growth"] for when in ("before", "during", "after")]
    assert rates == pytest.approx([100, 100 + 60 / 1.25, 100])
    (found,) = (finding for finding in summary["findings"] if finding["kind"] == "growth")
    assert "from 63 to 127 MiB" in found["text"]
    assert "above the warning threshold of 70 %, and no longer" in found["text"]
    assert "100 files per second before, 148 while the pool grew, and 100 after it" in found["text"]
    assert "63 MiB から 127 MiB" in found["text_ja"]
    assert found["evidence"]["threshold_percent"] == 70
    assert point["pool_use"]["growth_s"] == [12.0]
    for language in ("en", "ja"):
        (group,) = REPORT.groups(summary, study, language)
        figure = next(figure for figure in group.figures if figure.name == "pool")
        for size in (WIDE, NARROW):
            assert len(charts.spec(figure.draw(size))["vconcat"]) == 3
    assert figure.note.endswith("点線はプールを拡張した時点である。")


def test_runs_of_the_pool_are_in_its_figure_and_their_mean_length_is_a_metric(tmp_path: Path) -> None:
    summary, study = summary_of(tmp_path, to())
    (point,) = summary["points"]
    assert point["metrics"]["pool_run_kib"]["mean"] == 1024
    use = point["pool_use"]
    assert [use["run_bytes"][0], use["run_bytes"][-1]] == [2 * MIB, MIB]
    assert [use["capacity_bytes"][0], use["capacity_bytes"][-1]] == [63 * MIB, 127 * MIB]
    assert "pool_growth_ms" not in point["metrics"] and "growth" not in {each["kind"] for each in summary["findings"]}
    (group,) = REPORT.groups(summary, study, "en")
    figure = next(figure for figure in group.figures if figure.name == "pool")
    assert "the shorter, the more fragmented" in figure.note
