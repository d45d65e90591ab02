"""The worth of further paths: a finding, a curve, and a table with the bottleneck of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.report import render

from tests.analysis.small_run import Pt, Rep, write_run

FULL_PATH, FULL_DRIVE = {"port/0.0": 0.99, "drive/0.0": 0.4}, {"port/0.0": 0.5, "drive/0.0": 0.99}
BY_PATHS = {1: (500, FULL_PATH), 2: (990, FULL_PATH), 4: (1000, FULL_DRIVE)}
"""Requests per second of each VM, and the entities of the array with their shares of busy time, by
number of paths.
"""
REPETITIONS = (-4, 0, 4)


def points_over(factor: str, vms: int, **levels: Any) -> list[Pt]:
    """A point for each number of paths."""
    return [
        Pt(
            {**levels, factor: paths, "vms": vms},
            [Rep(reads=(rate + more,) * 8, writes=(0,) * 8, vms=vms, busy=busy) for more in REPETITIONS],
        )
        for paths, (rate, busy) in BY_PATHS.items()
    ]


def run_over(folder: Path, factor: str) -> Path:
    """Write a run of a sweep over VMs with one path, and of points with more paths at 7 VMs."""
    more_vms = [
        Pt({factor: 1, "vms": vms}, [Rep(reads=(rate,) * 8, writes=(0,) * 8, vms=vms, busy=FULL_PATH)] * 3)
        for vms, rate in ((1, 2000), (4, 860))
    ]
    factors = [{factor: [1], "vms": [1, 4, 7]}, {factor: [2, 4], "vms": [7]}]
    return write_run(folder, [*more_vms, *points_over(factor, 7)], factors=factors)


@pytest.mark.parametrize("factor", ["paths", "paths_per_vm"])
def test_points_with_more_paths_make_a_curve_that_begins_with_one_path(tmp_path: Path, factor: str) -> None:
    summary = summarise(run_over(tmp_path, factor))
    by_id = {p["point"]: p["factors"] for p in summary["points"]}
    over_vms, over_paths = summary["sweeps"]
    assert (over_vms["over"], [by_id[p]["vms"] for p in over_vms["points"]]) == ("vms", [1, 4, 7])
    assert (over_paths["over"], [by_id[p][factor] for p in over_paths["points"]]) == (factor, [1, 2, 4])
    # The port that is full with one path is not the bottleneck of the best point.
    assert (over_vms["limiter"], over_paths["limiter"]) == ("port", "drives")


def test_finding_states_rate_gain_and_bottleneck_with_its_evidence_in_both_languages(tmp_path: Path) -> None:
    summary = summarise(run_over(tmp_path, "paths"))
    # A growing load has a peak, a decline and a first bottleneck. Growing equipment has none.
    assert [f["kind"] for f in summary["findings"] if f["where"] == {"vms": 7}] == ["paths"]
    (finding,) = [f for f in summary["findings"] if f["kind"] == "paths"]
    evidence = finding["evidence"]
    assert evidence["limiter"] == {"1": "port", "2": "port", "4": "drives"}
    assert {level: round(ratio["mean"], 2) for level, ratio in evidence["ratio"].items()} == {"2": 1.98, "4": 2.0}
    assert evidence["because"]["1"] == "The bottleneck is array port 0 0: 99.0 % busy."
    assert evidence["because_ja"]["4"].endswith("（使用率 99.0 %）。")
    assert finding["text"].startswith("7 VMs: 1 path: 14.3 MB/s; bottleneck:")
    assert "2 paths: 28.4 MB/s, 1.98 times as much" in finding["text"]
    assert "パス 2 本では 28.4 MB/s で 1.98 倍" in finding["text_ja"]


def test_patterns_are_compared_each_by_itself(tmp_path: Path) -> None:
    patterns = ("random", "sequential")
    points = [point for name in patterns for point in points_over("paths", 7, pattern=name)]
    summary = summarise(write_run(tmp_path, points, factors=[{"pattern": [*patterns], "paths": [1, 2, 4], "vms": [7]}]))
    assert [(s["over"], s["where"]) for s in summary["sweeps"]] == [
        ("paths", {"pattern": name, "vms": 7}) for name in patterns
    ]
    assert [(f["kind"], f["where"]) for f in summary["findings"]] == [
        ("paths", {"pattern": name, "vms": 7}) for name in patterns
    ]


def test_sweep_whose_block_has_no_factor_of_paths_is_compared_with_none(tmp_path: Path) -> None:
    """The paths of the second block are those of the study."""
    points = [Pt({"paths": 2, "vms": vms}, [Rep(vms=vms)]) for vms in (1, 4)]
    points += [Pt({"vms": vms}, [Rep(vms=vms)]) for vms in (1, 4, 7)]
    factors = [{"paths": [2], "vms": [1, 4]}, {"vms": [1, 4, 7]}]
    summary = summarise(write_run(tmp_path, points, factors=factors))
    assert [(s["over"], s["where"]) for s in summary["sweeps"]] == [("vms", {"paths": 2}), ("vms", {})]
    assert not [f for f in summary["findings"] if f["kind"] == "paths"]


def test_sweep_with_more_paths_and_levels_of_its_own_is_reported(tmp_path: Path) -> None:
    points = [Pt({"paths": 1, "vms": vms}, [Rep(vms=vms)]) for vms in (1, 2, 4, 8)]
    points += [Pt({"paths": 4, "vms": vms}, [Rep(vms=vms)]) for vms in (4, 8, 16)]
    factors = [{"paths": [1], "vms": [1, 2, 4, 8]}, {"paths": [4], "vms": [4, 8, 16]}]
    summary = summarise(write_run(tmp_path, points, factors=factors))
    assert {"paths": 4} in [s["where"] for s in summary["sweeps"] if s["over"] == "vms"]


def rows(page: str) -> list[list[str]]:
    """The cells of the rows of the table of paths, without interval and markup."""
    table = page[page.index('<p class="caption"', page.index('id="table"')) :].split("</table>")[0]
    found = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL):
        cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        found.append([re.sub(r"<[^>]+>", "", cell.split("<small>")[0]).replace("\xa0", " ").strip() for cell in cells])
    return found


def test_report_has_a_table_with_rate_gain_bottleneck_and_evidence_of_each_number_of_paths(tmp_path: Path) -> None:
    run = run_over(tmp_path / "run", "paths")
    summarise(run)
    english, japanese = (
        path.read_text() for path in sorted(render(run, ["html"], ["en", "ja"], tmp_path), key=lambda p: p.name)
    )
    head, name, *body = rows(english)
    assert head[:7] == ["paths", "n", "IOPS", "MB/s", "gain, times", "bottleneck", "evidence"]
    assert name == ["7 VMs"]
    assert [row[:5] for row in body] == [
        ["1", "3", "3,500", "14.3", "1"],
        ["2", "3", "6,930", "28.4", "1.98"],
        ["4", "3", "7,000", "28.7", "2.00"],
    ]
    assert body[0][6] == "The bottleneck is array port 0 0: 99.0 % busy."
    head, name, *body = rows(japanese)
    assert head[:7] == ["パス数", "n", "IOPS", "MB/s", "倍率", "ボトルネック", "根拠"]
    assert name == ["VM 7 台"]
    assert body[2][6].endswith("（使用率 99.0 %）。")
