"""The finding that compares initiators: rates, intervals, which points it compares, and the mark of
emulated processors.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.kinds.vms.report import VmsReport

from tests.analysis.small_run import Pt, Rep, write_run

GUEST = {"lab.load_guest": {"cpus": 2}}
LINUX = GUEST | {"load.initiator": "kernel"}
VARIABLES = {"initiator": {"open-iscsi": LINUX, "in-guest": GUEST, "hakaru": {}}}
RATES = {"open-iscsi": 450, "in-guest": 480, "hakaru": 500}
"""Requests per second of each of two VMs. The base of the comparison is not the first level."""


def points_of(more: tuple[int, ...] = (-5, 0, 5), **levels: Any) -> list[Pt]:
    return [
        Pt({"initiator": name, "vms": 2, **levels}, [Rep(reads=(rate + n,) * 8, writes=(0,) * 8) for n in more])
        for name, rate in RATES.items()
    ]


def findings_of(folder: Path, points: list[Pt], variables: dict[str, Any] = VARIABLES) -> list[dict[str, Any]]:
    factors = [{name: [level]} | {"vms": [2]} for point in points for name, level in point.factors.items()]
    summary = summarise(write_run(folder, points, variables=variables, factors=factors))
    found = [f for f in summary["findings"] if f["kind"] == "initiators"]
    assert VmsReport().chief_findings(summary)[: len(found)] == found, "first on the first page"
    return found


def test_initiators_are_compared_with_the_one_of_this_machine(tmp_path: Path) -> None:
    (finding,) = findings_of(tmp_path, points_of())
    evidence = finding["evidence"]
    assert (evidence["base"], finding["where"]) == ("hakaru", {"vms": 2})
    assert evidence["iops"] == {"hakaru": 1000.0, "hakaru_in_guest": 960.0, "linux_in_guest": 900.0}
    ratio = evidence["ratio"]["linux_in_guest"]
    assert ratio["mean"] == 0.9 and 0.87 < ratio["low"] < 0.9 < ratio["high"] < 0.93
    assert evidence["ratio_in_guests"]["mean"] == pytest.approx(900 / 960)
    assert evidence["emulated"] == [] and "emulated" not in finding["text"]
    assert "With the initiator of Linux in a guest: 900 IOPS, 0.900 times those with hakaru's" in finding["text"]
    assert "In the guest, the initiator of Linux has 0.938 times the IOPS of hakaru's (95 %" in finding["text"]
    assert (
        "ゲスト内の Linux のイニシエータでは 900 IOPS で、このマシンの hakaru のイニシエータの 0.900 倍"
        in finding["text_ja"]
    )


def test_single_repetitions_have_no_interval(tmp_path: Path) -> None:
    (finding,) = findings_of(tmp_path, points_of((0,)))
    assert "0.900 times those with hakaru's initiator on this machine, mean response time 10" in finding["text"]
    assert "has 0.938 times the IOPS of hakaru's." in finding["text"] and "interval" not in finding["text"]


def test_point_without_the_variable_has_the_initiator_of_the_study(tmp_path: Path) -> None:
    points = points_of()
    del points[-1].factors["initiator"]
    (finding,) = findings_of(tmp_path, points)
    assert finding["evidence"]["points"] == {
        "hakaru": "p03",
        "hakaru_in_guest": "p02",
        "linux_in_guest": "p01",
    }


def test_initiator_that_could_not_be_measured_is_left_out(tmp_path: Path) -> None:
    points = points_of()
    points[0].reps = [Rep(status="failed", error="no guest")]
    (finding,) = findings_of(tmp_path, points)
    assert list(finding["evidence"]["iops"]) == ["hakaru", "hakaru_in_guest"]
    assert finding["evidence"]["ratio_in_guests"] is None


def test_emulated_processors_are_named(tmp_path: Path) -> None:
    points = points_of()
    emulated = [{"caveat": "cpu_emulated", "values": {"reason": "no KVM"}}]
    for point in points[:2]:
        point.reps = [replace(rep, caveats=emulated) for rep in point.reps]
    (finding,) = findings_of(tmp_path, points)
    assert finding["evidence"]["emulated"] == ["hakaru_in_guest", "linux_in_guest"]
    assert "The processors of guests were emulated" in finding["text"] and "エミュレーション" in finding["text_ja"]


def test_saturated_test_setup_is_named(tmp_path: Path) -> None:
    points = points_of()
    points[0].reps = [replace(rep, array_cpu=0.95) for rep in points[0].reps]
    (finding,) = findings_of(tmp_path, points)
    assert "With the initiator of Linux in a guest, the test setup was the bottleneck (" in finding["text"]
    assert finding["text"].count("bottleneck") == 1 and "測定系（" in finding["text_ja"]


@pytest.mark.parametrize(
    "levels",
    [
        {"hakaru": {}, "open-iscsi": LINUX | {"lab.mtu": 9000}},
        # Guests of two sizes have the same initiator.
        {"one": {"lab.load_guest": {"cpus": 1}}, "two": {"lab.load_guest": {"cpus": 2}}},
    ],
    ids=["more than the initiator", "the size of the guest"],
)
def test_points_that_differ_in_more_or_less_than_the_initiator_are_not_compared(
    tmp_path: Path, levels: dict[str, Any]
) -> None:
    points = [Pt({"initiator": name, "vms": 2}, [Rep()] * 2) for name in levels]
    assert findings_of(tmp_path, points, {"initiator": levels}) == []
