"""The peak of a sweep is a range where the intervals of the repetitions overlap."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.sweep import sweeps_of
from hakaru.report import render
from hakaru.report.points_table import print_summary

from tests.analysis.small_run import Pt, Rep, write_run


def swept_run(folder: Path, rates: dict[int, list[int]]) -> Path:
    """Write a run of a sweep with these IOPS in the repetitions of each number of VMs."""
    return write_run(
        folder,
        [
            Pt(
                {"pattern": "any", "vms": vms},
                [Rep(vms=vms, reads=(rate // vms,) * 8, writes=(0,) * 8, latency_ns=10_000) for rate in values],
            )
            for vms, values in rates.items()
        ],
        factors=[{"pattern": ["any"], "vms": list(rates)}],
    )


OVERLAPPING = {
    1: [4000, 4010, 4020],
    4: [9200, 9600, 9400],
    7: [9520, 9660, 9450],
    10: [9000, 9500, 9800],
    16: [7000, 7040, 6990],
}


def test_levels_whose_intervals_overlap_with_that_of_the_peak_are_its_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = swept_run(tmp_path / "run", OVERLAPPING)
    summary = summarise(run)
    (sweep,) = summary["sweeps"]
    by_id = {p["point"]: p["factors"]["vms"] for p in summary["points"]}
    assert (by_id[sweep["peak"]], [by_id[p] for p in sweep["like_peak"]]) == (7, [4, 7, 10])
    (peak,) = [f for f in summary["findings"] if f["kind"] == "peak"]
    assert peak["evidence"]["like_peak"] == [4, 7, 10]
    assert "The peak is at 7 VMs (4 to 10):" in peak["text"]
    assert "The levels from 4 VMs to 10 VMs cannot be distinguished by this rate" in peak["text"]
    assert "VM 7 台（4〜10）" in peak["text_ja"]
    assert "VM 4 台から VM 10 台までの水準は" in peak["text_ja"]
    print_summary(summary, [])
    assert "The peak is at 7 VMs (4 to 10):" in capsys.readouterr().out
    english, japanese = (
        path.read_text().replace("\xa0", " ").split('id="question"')[0]
        for path in sorted(render(run, ["html"], ["en", "ja"], tmp_path), key=lambda p: p.name)
    )
    assert '<dd class="big">7 VMs (4 to 10)</dd>' in english and "at 7 VMs (4 to 10):" in english
    assert "VM 7 台（4〜10）" in japanese


def test_peak_whose_interval_overlaps_with_no_other_has_no_range(tmp_path: Path) -> None:
    summary = summarise(swept_run(tmp_path, OVERLAPPING | {4: [8000, 8010, 8020], 10: [8100, 8090, 8120]}))
    assert len(summary["sweeps"][0]["like_peak"]) == 1
    assert "The peak is at 7 VMs:" in summary["findings"][0]["text"]
    assert "distinguished" not in summary["findings"][0]["text"]


def test_single_repetitions_have_no_intervals_and_no_range(tmp_path: Path) -> None:
    summary = summarise(swept_run(tmp_path, {vms: values[:1] for vms, values in OVERLAPPING.items()}))
    assert len(summary["sweeps"][0]["like_peak"]) == 1


def test_level_without_an_interval_belongs_to_the_peak_if_its_value_reaches_its_interval(tmp_path: Path) -> None:
    summary = summarise(swept_run(tmp_path, OVERLAPPING | {4: [9520], 10: [9000]}))
    by_id = {p["point"]: p["factors"]["vms"] for p in summary["points"]}
    assert [by_id[p] for p in summary["sweeps"][0]["like_peak"]] == [4, 7]


def test_levels_like_the_peak_are_listed_if_one_in_between_is_clearly_lower(tmp_path: Path) -> None:
    run = swept_run(tmp_path / "run", OVERLAPPING | {4: [8000, 8010, 8020], 1: [9400, 9500, 9600]})
    text, text_ja = (summarise(run)["findings"][0][name] for name in ("text", "text_ja"))
    assert "The peak is at 7 VMs (1, 7, 10):" in text and "VM 7 台（1、7、10）" in text_ja
    assert "overlap with that of the peak: 1 VM, 7 VMs, 10 VMs." in text and "levels from" not in text
    assert "区別できない：VM 1 台、VM 7 台、VM 10 台。" in text_ja
    page, _ = (path.read_text() for path in sorted(render(run, ["html"], ["en", "ja"], tmp_path), key=lambda p: p.name))
    assert '<dd class="big">7 VMs (1, 7, 10)</dd>' in page.replace("\xa0", " ")


def test_searched_levels_have_no_range_of_the_peak() -> None:
    def point(vms: int, *values: float) -> Any:
        metrics = {"iops": Estimate.over(values, "1/s")}
        return SimpleNamespace(factors={"vms": vms}, metrics=metrics, mean=lambda name: metrics[name].mean)

    points = [point(1, 300), point(8, 990), point(14, 1000, 1010, 990), point(15, 1005, 1002, 1012), point(32, 1000)]
    (swept,), (searched,) = (sweeps_of(points, "vms", is_searched=each) for each in (False, True))
    assert [swept.level(each) for each in swept.like_peak()] == [14, 15, 32]
    assert [searched.level(each) for each in searched.like_peak()] == [15]
