"""`events` of a study of VMs: what is refused, what a run carries out, and what becomes of it in
analysis and report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hakaru.analysis.counters import Counters
from hakaru.analysis.run_data import Repetition
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.vms import path_event_report
from hakaru.kinds.vms.analysis import checks, path_events
from hakaru.kinds.vms.analysis.failover import of_repetition as counts_of
from hakaru.kinds.vms.analysis.failovers import of_run as failovers_of
from hakaru.kinds.vms.analysis.path_events import EventResult, PathLoad
from hakaru.kinds.vms.events import NAMES, timers_of, tolerance_ms
from hakaru.kinds.vms.multipath import Multipath
from hakaru.kinds.vms.report import REPORT
from hakaru.kinds.vms.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.report.blocks import Row
from hakaru.report.charts import NARROW, WIDE, numbers_of
from hakaru.run.events import ArrayChange, LinkChange
from hakaru.store import Samples
from hakaru.study import expand
from hakaru.wording import LANGUAGES, say

from tests.kinds.vms.test_multipath import STUDY, loaded

MS, SECOND = 1_000_000, 1_000_000_000
START = 100 * SECOND
EVENTS = "[{at: 100 ms, link_down: array.1}, {at: 900 ms, link_up: array.1}, {at: 950 ms, port_standby: 0}]"
WITH_EVENTS = STUDY.replace("  multipath:", f"  events: {EVENTS}\n  multipath:").replace("[1, 2]}", "[2]}")


def test_events_become_changes_of_links_and_orders_to_the_array(tmp_path: Path) -> None:
    expanded = expand(loaded(tmp_path, WITH_EVENTS).study)
    study = expanded.at(expanded.points[0])
    cut, mend, standby = RUN.events(study, plan_lab(study.lab))
    assert [event.at_ns for event in (cut, mend, standby)] == [100 * MS, 900 * MS, 950 * MS]
    assert [event.name for event in (cut, mend, standby)] == ["link_down", "link_up", "port_standby"]
    assert (cut.change, mend.change) == (LinkChange("array.1", up=False), LinkChange("array.1", up=True))
    assert standby.change == ArrayChange("array", contract.SetPortStateAction(portal=0, state="standby"))


def test_every_access_state_and_its_transition_are_orders_to_the_array(tmp_path: Path) -> None:
    changes = "{at: 100 ms, port_non_optimized: 1}, {at: 200 ms, port_unavailable: 1}"
    ports = WITH_EVENTS.replace(EVENTS, f"[{changes}, {{at: 300 ms, port_optimized: 1, transition: 250 ms}}]")
    expanded = expand(loaded(tmp_path, ports).study)
    study = expanded.at(expanded.points[0])
    orders = [("non_optimized", 0), ("unavailable", 0), ("optimized", 250)]
    assert [event.change for event in RUN.events(study, plan_lab(study.lab))] == [
        ArrayChange("array", contract.SetPortStateAction(portal=1, state=state, transition_ms=transition_ms))
        for state, transition_ms in orders
    ]


def test_portals_of_a_group_have_one_state(tmp_path: Path) -> None:
    both = WITH_EVENTS.replace(EVENTS, "[{at: 100 ms, port_standby: 0}, {at: 200 ms, port_standby: 1}]")
    expand(loaded(tmp_path, both).study)
    grouped = both.replace("  model: {kind: none}", "  model: {kind: none}\n  port_groups: [{portals: [0, 1]}]")
    with pytest.raises(UsageError, match="`port_standby` of 1 at 200 ms repeats an earlier event"):
        expand(loaded(tmp_path, grouped).study)


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("link_down: array.1", "link_down: array.7", "no link 'array.7'", "did you mean 'array."),
        ("port_standby: 0", "port_standby: 2", "no portal 2", "from 0 to 1"),
        ("at: 950 ms", "at: 1 s", "1 s is not within the measuring phase of 1 s", "make it shorter"),
        ("at: 100 ms, ", "", "at", ""),
        (
            "link_up: array.1",
            "link_up: array.1, portal_refused: 1",
            "this one has link_up, portal_refused",
            "give one of",
        ),
        (", port_standby: 0", "", "this one has none", "`portal_accepts`"),
        ("link_up: array.1", "link_up: array.1, transition: 1 s", "`link_up` has no transition", "`port_standby`"),
        ("port_standby: 0", "port_standby: 0, transition: 256 s", "should be at most 4.25 min", ""),
        ("port_standby: 0", "port_optimized: 0", "changes nothing", "put `port_standby` before it"),
        ("link_up: array.1", "link_up: array.0", "changes nothing", "put `link_down` before it"),
        ("link_up: array.1", "link_down: array.1", "at 900 ms repeats an earlier event", "put `link_up` before it"),
        ("paths_per_vm: [2]", "paths_per_vm: [1]", "each VM has one path", "2 or more"),
    ],
)
def test_impossible_events_are_refused_with_a_hint(tmp_path: Path, old: str, new: str, message: str, hint: str) -> None:
    assert WITH_EVENTS.count(old) == 1
    with pytest.raises(UsageError) as refused:
        expand(loaded(tmp_path, WITH_EVENTS.replace(old, new)).study)
    assert message in refused.value.message and hint in refused.value.message + refused.value.hint


def test_quick_form_with_events_of_its_own_is_judged_by_its_own_time(tmp_path: Path) -> None:
    longer = WITH_EVENTS.replace("time: 1 s", "time: 5 s").replace("at: 950 ms", "at: 4 s")
    quick = "quick: {measure: {warmup: 0 s, time: 1 s, repetitions: 1}"
    with pytest.raises(UsageError, match="4 s is not within the measuring phase of 1 s"):
        expand(loaded(tmp_path, f"{longer}{quick}}}\n").study, quick=True)
    # The changes of a quick form are also checked without the levels of a point.
    longer = longer.replace("  events:", "  pattern: read\n  vms: 3\n  paths_per_vm: 2\n  events:")
    own = f"{longer}{quick}, changes: {{load.events: [{{at: 200 ms, portal_refused: 1}}]}}}}\n"
    expanded = expand(loaded(tmp_path, own).study, quick=True)
    (event,) = RUN.events(expanded.at(expanded.points[0]), plan_lab(expanded.study.lab))
    assert event.change == ArrayChange("array", contract.SetPortalAction(portal=1, accepts=False))
    with pytest.raises(UsageError, match="2 s is not within the measuring phase of 1 s"):
        expand(loaded(tmp_path, own.replace("at: 200 ms", "at: 2 s")).study, quick=True)
    with pytest.raises(UsageError, match=r"study\.yaml:\d+:\d+: .*needs a unit"):
        expand(loaded(tmp_path, own.replace("at: 200 ms", "at: 200")).study, quick=True)


def test_timers_of_an_event_are_those_that_it_waits_for() -> None:
    timers = Multipath.model_validate(
        {"nop_interval": "1 s", "nop_timeout": "2 s", "recovery": "4 s", "login_timeout": "8 s", "check": "16 s"}
        | {"retry": "32 s", "failback": "64 s"}
    )
    sums = {name: timers_of(name, timers) for name in NAMES}
    assert {name: each.sum_ns // SECOND for name, each in sums.items()} == {
        "link_down": 7,
        "link_up": 98,
        "portal_refused": 4,
        "portal_accepts": 96,
        "port_standby": 0,
        "port_optimized": 16,
        "port_unavailable": 0,
        "port_non_optimized": 0,
    }
    assert [name for name, each in sums.items() if each.is_most] == ["link_up", "portal_accepts", "port_optimized"]
    assert timers_of("port_optimized", timers, 2 * SECOND).sum_ns == 18 * SECOND
    assert timers_of("port_standby", timers, 2 * SECOND).sum_ns == 0
    assert (tolerance_ms(1500), tolerance_ms(400), tolerance_ms(0)) == (300, 100, 100)


Rows = dict[str, list[float]]


def repetition(rows: Rows, events: Sequence[tuple[str, str, float, float]]) -> Repetition:
    """A repetition of 4 s with one VM and a sample every 500 ms. `rows`: counter of the VM's paths
    → value per sample; `events`: name, object, due and begun, seconds.
    """
    samples = Samples()
    for i in range(9):
        counters = {name: float(values[i]) for name, values in rows.items()}
        requests = {"reads": 100.0 * i, "writes": 0.0, "errors": 0.0}
        samples.add("host-1", "initiator", START + i * SECOND // 2, {"paths/a": counters, "vms": requests})
    described = tuple(
        {"event": name, "object": target, "due_ns": START + round(due * SECOND), "begun_ns": START + round(at * SECOND)}
        for name, target, due, at in events
    )
    window = (START, START + 4 * SECOND)
    counters_of_all = Counters.of_table(samples.table())
    return Repetition(
        "p01", 1, 1, "done", None, window, "emulated", (), counters_of_all, pa.table({}), events=described
    )


CUT: Rows = {
    "path_losses": [0, 0, 0, 1, 1, 1, 1, 1, 1],
    "path_switches": [0, 0, 0, 1, 1, 1, 1, 1, 2],
    "path_returns": [0, 0, 0, 0, 0, 0, 1, 1, 1],
    "commands_repeated": [0, 0, 0, 0, 8, 8, 8, 8, 9],
    "failovers": [0, 0, 0, 0, 1, 1, 1, 1, 1],
    "failover_ns_sum": [0, 0, 0, 0, 1.5e9, 1.5e9, 1.5e9, 1.5e9, 1.5e9],
    "gap_ns_now": [0, 1e6, 3e8, 8e8, 1.4e9, 2e6, 1e6, 1e6, 2e7],
    "paths_usable_now": [2, 2, 2, 1, 1, 1, 2, 2, 1],
}
TIMELINE = [("link_down", "array.0", 0.6, 0.6), ("link_up", "array.0", 2.6, 2.7), ("port_standby", "0", 3.6, 3.6)]
LOAD = PathLoad(
    Multipath.model_validate({"nop_interval": "500 ms", "nop_timeout": "500 ms", "recovery": "500 ms"}),
    stands_still=True,
)


def test_gap_and_counts_belong_to_the_event_in_whose_time_they_are() -> None:
    results = path_events.of_repetition(repetition(CUT, TIMELINE), LOAD)
    cut, mended, standby = results
    assert (cut.at_s, cut.late_ms, cut.gap_ms, cut.timers_ms) == (0.6, 0, 1400, 1500)
    assert (cut.losses, cut.commands_repeated, cut.failover_ms, cut.usable_min) == (1, 8, 1500, 1)
    assert cut.changed_ms == 900 and cut.explained is True
    assert mended.late_ms == pytest.approx(100) and mended.changed_ms == 300 and mended.explained is None
    assert mended.timers_are_most and math.isnan(mended.failover_ms)
    assert (standby.gap_ms, standby.commands_repeated, standby.explained) == (20, 1, True)
    metrics = path_events.metrics_of(results)
    assert metrics.keys() == path_events.UNITS.keys()
    assert (metrics["failover_gap_s"], metrics["link_down_gap_s"], metrics["port_standby_gap_s"]) == (1.4, 1.4, 0.02)
    assert metrics["link_down_gap_percent"] == pytest.approx(100 * 14 / 15) and metrics["link_up_back_s"] == 0.3
    assert metrics["link_down_failover_percent"] == 100
    assert math.isnan(metrics["portal_refused_gap_s"]) and math.isnan(metrics["portal_refused_failover_percent"])
    assert list(path_events.caveats_of(results)) == []
    assert path_events.of_repetition(repetition(CUT, []), LOAD) == []


def caveats(changed: Rows, *, stands_still: bool = True, first: str = "link_down") -> list[str]:
    run = repetition(CUT | changed, [(first, "array.0", 0.6, 0.6), *TIMELINE[1:]])
    results = path_events.of_repetition(run, PathLoad(LOAD.multipath, stands_still=stands_still))
    return [f"{caveat.name} {caveat.values['event']}" for caveat in path_events.caveats_of(results)]


def gap(ns: float) -> Rows:
    return {"gap_ns_now": [0, 0, 0, 0, ns, 0, 0, 0, 0]}


def failover(ns: float) -> Rows:
    return {"failover_ns_sum": [0, 0, 0, 0, ns, ns, ns, ns, ns]}


def test_times_that_timers_do_not_explain_are_marked() -> None:
    unexplained = ["gap_unexplained link_down"]
    assert caveats({}) == caveats(gap(1.79e9)) == caveats(gap(1.21e9)) == []
    assert caveats(gap(1.81e9)) == caveats(gap(1.19e9)) == unexplained
    assert caveats(failover(1.81e9)) == caveats(failover(1.19e9)) == unexplained
    (caveat,) = path_events.caveats_of(path_events.of_repetition(repetition(CUT | gap(1.9e9), TIMELINE), LOAD))
    times_ms = {"gap_ms": 1900, "failover_ms": 1500, "timers_ms": 1500}
    assert caveat.values == {"event": "link_down", "object": "array.0"} | times_ms


def test_time_to_fail_over_that_is_not_known_is_no_time_of_0() -> None:
    late = CUT | {"gap_ns_now": [*CUT["gap_ns_now"][:-1], 4e8]}
    (caveat,) = path_events.caveats_of(path_events.of_repetition(repetition(late, TIMELINE), LOAD))
    assert caveat.values["event"] == "port_standby" and caveat.values["failover_ms"] is None
    assert "moved after – ms" in say("en", "caveat.gap_unexplained", caveat.values)


def test_session_that_returns_before_the_timers_end_is_no_failover_of_0() -> None:
    stayed: Rows = {"failovers": [0] * 9, "failover_ns_sum": [0] * 9}
    # The link returns when the session is lost, and its event ends the gap.
    assert caveats(stayed | gap(0.9e9)) == []
    assert caveats(stayed | gap(1.81e9)) == ["gap_unexplained link_down"]
    (cut, *_) = path_events.of_repetition(repetition(CUT | stayed | gap(0.9e9), TIMELINE), LOAD)
    assert math.isnan(cut.failover_ms) and (cut.losses, cut.explained) == (1, True)
    (event, *_) = path_events.to_json([[cut]])
    point = cast(Any, SimpleNamespace(events=[event], factors={}))
    (finding,) = failovers_of([point])
    for text in finding.text.values():
        assert "900" in text and "–" not in text


def test_counters_that_only_the_last_sample_has_are_not_0() -> None:
    whole = repetition(CUT, TIMELINE)
    samples = Samples()
    for at in range(8):
        samples.add("host-1", "initiator", START + at * SECOND // 2, {"vms": {"reads": 1.0}})
    last = {name: float(values[-1]) for name, values in CUT.items()}
    samples.add("host-1", "initiator", START + 4 * SECOND, {"paths/a": last, "vms": {"reads": 1.0}})
    run = replace(whole, counters=Counters.of_table(samples.table()))
    (cut, *_) = path_events.of_repetition(run, LOAD)
    assert math.isnan(cut.losses) and math.isnan(cut.commands_repeated) and cut.explained is None
    metrics = counts_of(run, 1500.0)
    assert all(math.isnan(metrics[name]) for name in ("path_losses", "path_switches", "commands_repeated"))


def test_shorter_gap_is_expected_where_other_paths_go_on_serving() -> None:
    assert caveats(gap(1e6), stands_still=False) == []
    # A refused portal is noticed at once, so new commands avoid it; its own wait for `recovery`.
    assert caveats(gap(1e6) | failover(0.5e9), first="portal_refused") == []
    assert caveats(gap(1e6) | failover(0.7e9), first="portal_refused") == ["gap_unexplained portal_refused"]
    assert caveats(gap(0.7e9) | failover(0.5e9), first="portal_refused") == ["gap_unexplained portal_refused"]


def test_non_optimized_port_needs_no_timer_and_its_return_at_most_transition_and_check() -> None:
    unused: Rows = {name: [0] * 9 for name in ("path_switches", "path_losses", "failovers", "failover_ns_sum")}
    timeline = [("port_non_optimized", "0", 0.6, 0.6), ("port_optimized", "0", 2.6, 2.6)]
    load = PathLoad(LOAD.multipath, stands_still=True, transitions_ns=(0, SECOND))
    worse, optimized = path_events.of_repetition(repetition(CUT | unused | gap(2e8), timeline), load)
    # The path stays usable, so that no counter of paths grows.
    assert (worse.timers_ms, worse.explained) == (0, False)
    assert (optimized.timers_ms, optimized.timers_are_most, optimized.explained) == (6000, True, None)
    quiet: Rows = {"gap_ns_now": [2e7] * 9}
    results = path_events.of_repetition(repetition(CUT | unused | quiet, timeline), load)
    assert results[0].explained is True
    assert path_events.metrics_of(results)["port_non_optimized_gap_s"] == 0.02


def test_event_without_effect_or_without_a_path_left_is_not_judged() -> None:
    unused = repetition(CUT | {"path_switches": [0] * 9}, TIMELINE)
    assert [result.explained for result in path_events.of_repetition(unused, LOAD)] == [None, None, None]
    none_left = repetition(CUT | {"paths_usable_now": [1, 1, 1, 0, 0, 0, 1, 1, 1]}, TIMELINE)
    assert path_events.of_repetition(none_left, LOAD)[0].explained is None


def test_bytes_of_repeated_commands_may_be_counted_twice_at_the_array() -> None:
    def found(at_array: float) -> list[str]:
        samples = Samples()
        vms = {"in_flight_now": 0.0, "reads": 100.0, "read_bytes": 409_600.0, "errors": 0.0}
        samples.add("host-1", "initiator", START, {"vms": vms, "paths/a": {"commands_repeated": 8.0}})
        samples.add("array", "array", START, {"lu/0": {"read_bytes": at_array}})
        return [caveat.name for caveat in checks.bytes_conserved(Counters.of_table(samples.table()))]

    assert found(409_600) == found(409_600 + 8 * 4096) == []
    assert found(409_600 + 9 * 4096) == found(409_599) == ["bytes_not_conserved"]


def described() -> dict[str, Any]:
    """A point with events, as in the report."""
    run = repetition(CUT, TIMELINE)
    results: list[EventResult] = path_events.of_repetition(run, LOAD)
    instants = [0.5 * i for i in range(1, 9)]
    over = {"t_s": instants, "iops": [100.0, 100.0, 0.0, 0.0, 100.0, 100.0, 100.0, 90.0]}
    return {
        "point": "p01",
        "factors": {"paths_per_vm": 2},
        "origin": "emulated",
        "valid": True,
        "metrics": {"iops": {"mean": 80.0, "n": 1}},
        "caveats": [],
        "events": path_events.to_json([results, results]),
        "over_time": over | path_events.over_time(run, instants),
    }


@pytest.mark.parametrize(
    ("language", "cut", "standby"),
    [
        ("en", "link array.0 is cut", "port of portal 0 becomes standby"),
        ("ja", "リンク array.0 の切断", "ポータル 0 のポートのスタンバイ化"),
    ],
)
def test_table_has_each_event_beside_its_timers(language: str, cut: str, standby: str) -> None:
    summary = {"points": [described()]}
    (table,) = path_event_report.tables(summary, {}, REPORT.point_name, language)
    rows = [[str(getattr(cell, "text", cell)) for cell in row.cells] for row in table.rows if isinstance(row, Row)]
    assert len(table.columns) == len(rows[0])
    assert rows[0] == ["1", cut, "0.600", "1,400", "1,500", "1,500", "100 %", "900", "8", "0", "1", "0"]
    assert rows[1][5].startswith("≤ ") and rows[1][4] == rows[1][6] == "–"
    assert rows[2][:7] == ["3", standby, "3.60", "20", "–", "0", "–"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_timeline_shows_rate_and_usable_paths(language: str) -> None:
    (group,) = path_event_report.groups({"points": [described()]}, REPORT.point_name, language)
    (figure,) = group.figures
    assert "array.0" in figure.note
    for size in (WIDE, NARROW):
        rate, usable = numbers_of(figure.draw(size))
        assert "90" in rate and "2" in usable
    assert described()["over_time"]["paths_usable"] == [2, 2, 1, 1, 1, 2, 2, 1]
    assert described()["over_time"]["event_s"] == [0.6, 2.7, 3.6]


def test_points_without_events_have_neither_table_nor_timeline() -> None:
    summary = {"points": [described() | {"events": []}]}
    assert path_event_report.tables(summary, {}, REPORT.point_name, "en") == []
    assert path_event_report.groups(summary, REPORT.point_name, "en") == []


def failure(event: str, gap_ms: float, failover_ms: float | None, timers_ms: float) -> dict[str, Any]:
    target = "0" if event.startswith("port") else "array.0"
    gaps = {"gap_ms": gap_ms / 2, "gap_ms_max": gap_ms}
    return gaps | {"event": event, "object": target, "failover_ms": failover_ms, "timers_ms": timers_ms}


def failovers() -> dict[str, Any]:
    """A summary with findings about failures at two points, and one about the peak of a curve."""
    first = [failure("link_down", 15_040.0, 15_100.0, 15_000.0), failure("portal_refused", 20.4, 5_010.0, 5_000.0)]
    second = [failure("link_down", 1_514.0, 1_526.0, 1_500.0), failure("port_standby", 16.3, None, 0.0)]
    points = [
        {"kind": "failover", "where": {"timers": timers, "paths_per_vm": paths}, "evidence": evidence}
        for timers, paths, evidence in (
            ("default", 2, {"events": first, "errors": 0}),
            ("short", 4, {"events": second, "errors": 3}),
        )
    ]
    return {"points": [], "sweeps": [{"peak": "p02"}] * 2, "findings": [*points, {"kind": "peak"}]}


def test_tiles_are_the_longest_gap_of_each_failure_and_the_failed_requests() -> None:
    tiles = [(tile["title"], tile["value"], tile["small"]) for tile in REPORT.tiles(failovers(), "en")]
    assert tiles == [
        (
            "Longest gap when link array.0 is cut",
            "15.0 s",
            "commands move after 15.1 s, timers 15 s (default, 2 paths per VM)",
        ),
        (
            "Longest gap when portal 0 refuses connections",
            "20.4 ms",
            "commands move after 5.01 s, timers 5 s (default, 2 paths per VM)",
        ),
        ("Longest gap when port of portal 0 becomes standby", "16.3 ms", "short, 4 paths per VM"),
        ("Failed requests", "3", "at 2 points"),
    ]
    # They are not about one of the curves.
    assert REPORT.tiles_about(failovers(), "en") == ""


def test_tiles_are_japanese_too() -> None:
    first, *_, last = REPORT.tiles(failovers(), "ja")
    assert first["title"] == "リンク array.0 の切断による最長の中断" and first["value"] == "15.0 s"
    assert first["small"] == "コマンドの切り替えまで 15.1 s、タイマ 15 s（default, VM あたりパス 2 本）"
    assert (last["title"], last["value"]) == ("失敗した要求", "3")


def test_tiles_of_other_studies_are_those_of_their_curve() -> None:
    assert path_event_report.tiles({"findings": [{"kind": "peak"}]}, "en") == []
