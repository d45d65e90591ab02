"""The quick form of the study path-failover in a real lab: links, portals and ports fail under
verified load, and timers explain the gaps in service.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hakaru.store import RunReader

from tests.cli.command import pages_of
from tests.run.conftest import ROOT, Hakaru

SHORT = """\
format: 1
id: cut
title: Cut
question: What?
expectation: This.
origin: emulated
lab: {hosts: 1, paths: 2, host_link: {}, array_link: {}}
array:
  target_name: iqn.2011-10.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB}]
load:
  kind: vms
  columns: [[0]]
  image: 64 MiB
  patterns:
    mixed: {sizes: [{size: 4 KiB}], read_percent: 50, random_percent: 100, load: {kind: closed, queue_depth: 2}}
  pattern: mixed
  vms: 1
  paths_per_vm: 2
  multipath: {nop_interval: 100 ms, nop_timeout: 100 ms, recovery: 0 s, retry: 100 ms}
  events: [{at: 100 ms, link_down: array.1}, {at: 100 ms, portal_refused: 0}, {at: 600 ms, portal_accepts: 0}]
variables: {form: {only: {}}}
factors: [{form: [only]}]
measure: {warmup: 0 s, time: 2 s, repetitions: 2, sample_interval: 100 ms, verify: true}
"""


@pytest.mark.parametrize("backend", ["kernel", "fabric"])
def test_each_repetition_begins_with_all_paths(hakaru: Hakaru, tmp_path: Path, backend: str) -> None:
    """A repetition leaves a link cut. The next one needs both paths before it begins."""
    (tmp_path / "cut").mkdir()
    path = tmp_path / "cut" / "study.yaml"
    path.write_text(SHORT.replace("lab: {", f"lab: {{backend: {backend}, "))
    result = hakaru.run("run", str(path), "--report", "none")
    assert result.returncode in (0, 5), result.stdout + result.stderr
    reader = RunReader(hakaru.only_run())
    first, second = reader.repetitions()
    for record in (first, second):
        assert [(event["event"], event["object"]) for event in record["events"]] == [
            ("link_down", "array.1"),
            ("portal_refused", "0"),
            ("portal_accepts", "0"),
        ]
        start = record["measure"]["start_ns"]
        for event, at_ms in zip(record["events"], (100, 100, 600), strict=True):
            assert event["due_ns"] == start + at_ms * 1_000_000
            assert event["due_ns"] <= event["begun_ns"] <= event["done_ns"]
        (initiator,) = [engine for engine in record["engines"] if engine["engine"] == "initiator"]
        assert any("path 2" in complaint and "was lost" in complaint for complaint in initiator["complaints"])
        assert initiator["values"]["errors"] == 0


@pytest.mark.alone
def test_access_states_of_a_group_change_under_load(hakaru: Hakaru, tmp_path: Path) -> None:
    """Portals 0 and 1 form the preferred group. Through all its states, no request fails."""
    events = [
        "{at: 200 ms, port_non_optimized: 1}",
        "{at: 700 ms, port_unavailable: 0}",
        "{at: 1200 ms, port_optimized: 1, transition: 300 ms}",
    ]
    (tmp_path / "cut").mkdir()
    path = tmp_path / "cut" / "study.yaml"
    before, _, after = SHORT.partition("  events: ")
    grouped = f"{before}  events: [{', '.join(events)}]\n{after.partition(chr(10))[2]}"
    for old, new in (
        ("paths: 2", "paths: 3"),
        ("paths_per_vm: 2", "paths_per_vm: 3"),
        ("  model: {kind: none}", "  model: {kind: none}\n  port_groups: [{portals: [0, 1], preferred: true}]"),
        ("time: 2 s, repetitions: 2", "time: 4 s, repetitions: 1"),
    ):
        assert grouped.count(old) == 1
        grouped = grouped.replace(old, new)
    path.write_text(grouped)
    result = hakaru.run("run", str(path), "--report", "none")
    assert result.returncode in (0, 5), result.stdout + result.stderr
    reader = RunReader(hakaru.only_run())
    (record,) = reader.repetitions()
    (initiator,) = [engine for engine in record["engines"] if engine["engine"] == "initiator"]
    assert initiator["values"]["errors"] == 0
    for number in (1, 2):
        assert any(f"path {number}" in text and "unavailable" in text for text in initiator["complaints"])
    assert not any("path 3" in text for text in initiator["complaints"])
    (point,) = reader.read("summary.json")["points"]
    worse, unavailable, optimized = point["events"]
    assert (worse["usable_min"], unavailable["usable_min"]) == (3, 1)
    assert worse["losses"] == unavailable["losses"] == 0
    assert optimized["changed_ms"] >= 300 and optimized["timers_ms"] == 5300
    assert point["metrics"]["port_optimized_back_s"]["mean"] == pytest.approx(optimized["changed_ms"] / 1000)


def test_quick_form_is_planned_to_take_about_a_minute(hakaru: Hakaru) -> None:
    result = hakaru.ask("plan", "path-failover", "--quick", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["estimate"]["seconds_most"] < 75


@pytest.mark.alone
def test_timers_explain_every_gap_with_two_and_with_four_paths(hakaru: Hakaru) -> None:
    result = hakaru.run("run", str(ROOT / "studies" / "path-failover"), "--quick", "--report", "none")
    assert result.returncode == 0, result.stdout + result.stderr
    run = hakaru.only_run()
    reader = RunReader(run)
    summary = reader.read("summary.json")
    assert [point["factors"]["paths_per_vm"] for point in summary["points"]] == [2, 4]
    for point in summary["points"]:
        metrics, events = point["metrics"], point["events"]
        assert metrics["link_down_gap_s"]["mean"] == pytest.approx(1.5, rel=0.2)
        assert metrics["link_down_failover_percent"]["mean"] == pytest.approx(100, rel=0.2)
        assert metrics["portal_refused_failover_percent"]["mean"] == pytest.approx(100, rel=0.2)
        assert metrics["portal_refused_gap_s"]["mean"] <= 0.6
        assert metrics["port_standby_gap_s"]["mean"] <= 0.1
        assert metrics["failover_gap_s"]["mean"] == metrics["link_down_gap_s"]["mean"]
        assert metrics["errors_per_s"]["mean"] == 0
        for name in ("link_up", "portal_accepts", "port_optimized"):
            assert 0 <= metrics[f"{name}_back_s"]["mean"] <= 2
        assert [event["explained"] for event in events] == [True, None] * 3
        assert all(event["late_ms_max"] >= 0 for event in events)
        # A cut link keeps every command that it got. Whether one is under way when a portal begins
        # to refuse is chance.
        cut = events[0]
        assert cut["failover_ms"] == pytest.approx(1500, rel=0.2)
        assert cut["commands_repeated"] > 0
        assert point["over_time"]["event_s"] == pytest.approx([2, 5, 7, 9, 11, 13], abs=0.1)
        # A busy machine or hypervisor may cause the others.
        assert {caveat["caveat"] for caveat in point["caveats"]} <= {
            "few_repetitions",
            "cpu_shared",
            "host_stolen",
            "machine_saturated",
        }
    assert all(expectation["held"] for expectation in summary["expectations"])
    findings = [finding for finding in summary["findings"] if finding["kind"] == "failover"]
    assert len(findings) == 2 and "No request failed." in findings[0]["text"]
    pages = pages_of(run)
    for language, words in (("en", "Events of paths"), ("ja", "パスのイベント")):
        assert words in pages[language] and "array.0" in pages[language]
