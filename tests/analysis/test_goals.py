"""Answers of searches for a goal, from runs with known latencies to the words of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.sweep import Sweep
from hakaru.caveats import Caveat
from hakaru.report import render
from hakaru.report.points_table import print_summary

from tests.analysis.small_run import Pt, Rep, write_run

SEARCHED = {"from": 1, "to": 12}
MS = 1_000_000


def searched_run(
    folder: Path,
    latencies: dict[int, list[float]],
    limit: str = "20 ms",
    also: Any = None,
    rep: Any = None,
    **measure: Any,
) -> Path:
    """Write a run of a search over 1 to 12 VMs that measured these latencies in ms, by VMs."""
    points = [
        Pt({"pattern": "any", "vms": vms}, [Rep(vms=vms, latency_ns=round(ms * MS), **(rep or {})) for ms in values])
        for vms, values in latencies.items()
    ]
    # The file numbers the points in the order of the run; the search has them by level.
    measured = {vms: f"p{place:02}" for place, vms in enumerate(latencies, 1)}
    described = [
        {"point": measured.get(vms, f"q{vms:02}"), "factors": {"pattern": "any", "vms": vms}} for vms in range(1, 13)
    ]
    return write_run(
        folder,
        points,
        factors=[{"pattern": ["any"], "vms": SEARCHED}],
        goal={"latency_ms_p99": limit} | (also or {}),
        measure={"repetitions": 2, "repetitions_max": 4} | measure,
        searches=[{"over": "vms", "points": [each["point"] for each in described]}],
        study_points=described,
    )


AROUND_SEVEN = {
    1: [2.0],
    12: [34.0],
    6: [17.0, 17.1, 17.2, 16.9],
    9: [26.0],
    7: [19.0, 21.5, 18.0, 20.0],
    8: [20.0, 23.0, 19.5, 21.0],
    5: [14.0],
}


def finding(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    summary = summarise(run)
    (goal,) = summary["goals"]
    assert summary["findings"][0]["kind"] == "goal", "the answer comes first"
    return goal, summary["findings"][0]


def test_answer_is_a_range_where_intervals_reach_across_the_limit(tmp_path: Path) -> None:
    # The intervals of 7 and 8 VMs contain the limit; those of 6 and 9 do not.
    latencies = AROUND_SEVEN | {9: [26.0, 26.1, 25.9]}
    goal, found = finding(searched_run(tmp_path, latencies))
    assert (goal["answer"], goal["low"], goal["high"], goal["missing"]) == (7, 6, 8, 8)
    assert goal["verdict"] == "bracketed"
    assert "(99th percentile response time at most 20 ms) is met up to 7 VMs (6 to 8)." in found["text"]
    assert "At 7 VMs: 99th percentile response time 19.6 ms (95 % confidence interval" in found["text"]
    assert (
        "that surely meets the goal is 6 VMs. The lowest level that surely misses the goal is 9 VMs." in found["text"]
    )
    assert goal["confidence"] == pytest.approx(1 - 0.05 / 3), "levels are judged after 2, 3 and 4 repetitions"
    assert "を満たすのは VM 7 台（6〜8）までである。" in found["text_ja"]
    assert goal["point"] == "p05"


def test_report_has_the_answer_in_headline_tile_figure_and_method(tmp_path: Path) -> None:
    run = searched_run(tmp_path / "run", AROUND_SEVEN | {9: [26.0, 26.1, 25.9]})
    english, japanese = (
        path.read_text().replace("\xa0", " ")
        for path in sorted(render(run, ["html"], ["en", "ja"], tmp_path), key=lambda p: p.name)
    )
    head = english.split('id="question"')[0]
    assert "is met up to 7 VMs (6 to 8)." in head
    assert '<dt>Goal met up to</dt><dd class="big">7 VMs (6 to 8)</dd>' in head
    assert "goal: 20 ms" in english and "answer: 7 VMs (6 to 8)" in english
    assert "assumes that levels beyond one that misses the goal miss it too" in english
    head = japanese.split('id="question"')[0]
    assert "VM 7 台（6〜8）までである。" in head
    assert "目標：20 ms" in japanese and "答え：VM 7 台（6〜8）" in japanese


def test_terminal_prints_the_answer_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(summarise(searched_run(tmp_path, AROUND_SEVEN)), [])
    out = capsys.readouterr().out
    assert out.index("is met up to 7 VMs") < out.index("The peak is at")


def test_levels_that_contradict_monotony_give_a_caveat(tmp_path: Path) -> None:
    latencies = {1: [30.0, 30.1, 30.2], 12: [5.0, 5.1, 5.2]}
    run = searched_run(tmp_path, latencies)
    goal, found = finding(run)
    assert (goal["answer"], goal["verdict"]) == (None, "below_range")
    assert "is missed already at 1 VM, the easiest level of the search." in found["text"]
    caveats = {c["caveat"]: c["values"] for c in summarise(run)["caveats"]}
    assert caveats["goal_not_monotone"] == {"missed": 1, "met": 12}


def test_report_names_the_limit_that_is_missed(tmp_path: Path) -> None:
    latencies = {1: [5.0, 5.1, 5.2], 12: [34.0], 6: [17.0]}
    also = {"iops": {"least": 5_000_000}, "find": "highest"}
    _, found = finding(searched_run(tmp_path, latencies, also=also))
    assert "is missed already at 1 VM, the easiest level of the search." in found["text"]
    assert "At 1 VM, this is missed: IOPS at least 5,000,000." in found["text"], found["text"]
    assert "VM 1 台で満たされないのは、" in found["text_ja"]


def test_highest_level_that_meets_the_goal_is_no_upper_bound(tmp_path: Path) -> None:
    goal, found = finding(searched_run(tmp_path, {1: [1.0], 12: [5.0, 5.1, 5.2]}))
    assert (goal["verdict"], goal["answer"], goal["high"]) == ("at_least", 12, None)
    assert "is met at all levels of the search, up to 12 VMs." in found["text"]


def test_levels_that_are_measured_once_have_no_range(tmp_path: Path) -> None:
    run = searched_run(tmp_path, {1: [1.0], 12: [40.0], 6: [10.0], 7: [30.0]}, repetitions=1, repetitions_max=1)
    goal, found = finding(run)
    assert (goal["verdict"], goal["answer"], goal["low"], goal["high"]) == ("bracketed", 6, 6, 6)
    assert "is met up to 6 VMs." in found["text"] and "measured once" in found["text"]


def test_level_whose_points_are_invalid_ends_the_search_with_the_reason(tmp_path: Path) -> None:
    run = searched_run(tmp_path, {1: [1.0], 5: [5.0, 5.1, 5.0], 6: [], 12: [40.0]})
    goal, found = finding(run)
    assert goal["verdict"] == "unfinished"
    busy = write_busy(tmp_path / "busy")
    goal, found = finding(busy)
    assert (goal["verdict"], goal["answer"], goal["missing"]) == ("tester_limit", 5, 6)
    assert "The goal could not be judged at 6 VMs: Counters decreased" in found["text"]
    assert "load generator" not in found["text"]
    assert "VM 6 台では判定できなかった。" in found["text_ja"]
    _, found = finding(write_busy(tmp_path / "saturated", "generator_saturated"))
    assert "At 6 VMs the load generator was at its limit" in found["text"]


def test_level_without_the_metric_of_the_goal_is_not_said_to_be_the_load_generator(tmp_path: Path) -> None:
    also = {"write_latency_ms_p99": "20 ms"}
    goal, found = finding(searched_run(tmp_path, {1: [1.0, 1.0]}, also=also, rep={"writes": (0,) * 8}))
    assert (goal["verdict"], goal["answer"]) == ("tester_limit", None)
    assert "could not be judged at 1 VM: there is no value of" in found["text"]
    assert "load generator" not in found["text"] and "missed already" not in found["text"]


def test_unfinished_search_claims_no_missed_level(tmp_path: Path) -> None:
    goal, found = finding(searched_run(tmp_path, {1: [21.0]}))
    assert (goal["verdict"], goal["answer"]) == ("unfinished", None)
    assert "has no result." in found["text"] and "missed already" not in found["text"]


def test_marks_of_the_sweep_do_not_change_what_the_run_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mark(sweep: Sweep, _: Any) -> None:
        for point in sweep.points:
            point.caveats.append(Caveat("generator_saturated", {"percent": 99.0}))

    run = searched_run(tmp_path, AROUND_SEVEN | {9: [26.0, 26.1, 25.9]})
    unmarked, _ = finding(run)
    monkeypatch.setattr("hakaru.analysis.summary.mark_test_setup_limited", mark)
    marked, found = finding(run)
    assert marked == unmarked and marked["answer"] == 7
    assert "At 8 VMs the load generator was at its limit" in found["text"]


def write_busy(folder: Path, caveat: str = "clock_stepped") -> Path:
    """A run with a caveat of the repetitions at 6 VMs that makes them invalid."""
    latencies = {1: [1.0], 5: [5.0, 5.1, 5.0], 6: [6.0, 6.1, 6.0]}
    run = searched_run(folder, latencies)
    for path in sorted((run / "repetitions").glob("p03-*.json")):
        path.write_text(
            path.read_text().replace(
                '"caveats": []', f'"caveats": [{{"caveat": "{caveat}", "values": {{"percent": 99}}}}]'
            )
        )
    return run


def test_search_that_was_stopped_before_its_first_result_has_a_report(tmp_path: Path) -> None:
    run = searched_run(tmp_path / "run", {})
    goal, found = finding(run)
    assert (goal["verdict"], goal["answer"], goal["points"]) == ("unfinished", None, [])
    assert "has no result." in found["text"]
    for path in render(run, ["html"], ["en", "ja"], tmp_path):
        assert "20\xa0ms" in path.read_text()
