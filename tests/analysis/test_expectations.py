"""Published tables and expectations, compared with the results of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hakaru import kind
from hakaru.analysis import summarise
from hakaru.analysis.rules.rule import Verdict
from hakaru.kinds.vms.analysis.points import UNITS
from hakaru.kinds.vms.study import LOAD_METRICS

from tests.analysis.small_run import Pt, Rep, write_run

PUBLICATIONS = {"paper": {"title": {"en": "A paper", "ja": "論文"}, "source": "a paper"}}
REFERENCE = {
    "kind": "table",
    "publication": "paper",
    "table": "paper",
    "where": {"pattern": "random"},
    "over": "vms",
    "metrics": {"iops": "iops", "latency_ms_mean": "ms"},
    "rows": [
        {"vms": 1.0, "iops": 1000.0, "ms": 10.0},
        {"vms": 4.0, "iops": 2200.0, "ms": 11.0},
        {"vms": 9.0, "iops": 1.0, "ms": 1.0},
    ],
}


def run(folder: Path, *expect: dict[str, Any]) -> dict[str, Any]:
    totals = {1: 1000, 4: 2000, 8: 1500}
    points = [
        Pt({"pattern": "random", "vms": n}, [Rep(reads=(t,) * 8, writes=(0,) * 8, vms=1, busy={"drive/0.0": 0.99})] * 3)
        for n, t in totals.items()
    ]
    return summarise(write_run(folder, points, publications=PUBLICATIONS, reference=[REFERENCE], expect=list(expect)))


def test_error_is_relative_to_the_published_value_and_needs_both_values(tmp_path: Path) -> None:
    summary = run(tmp_path)
    iops = next(r for r in summary["references"] if r["metric"] == "iops")
    assert [row["error_percent"] for row in iops["rows"]] == [pytest.approx(0), pytest.approx(-9.0909, rel=1e-3), None]
    finding = next(f for f in summary["findings"] if f["kind"] == "reference")
    assert finding["evidence"]["worst_percent"] == pytest.approx(-9.0909, rel=1e-3)
    assert "A paper" in finding["text"]
    assert "論文" in finding["text_ja"]


@pytest.mark.parametrize(
    ("expect", "met"),
    [
        ({"kind": "peak", "metric": "iops", "over": "vms", "low": 3, "high": 5}, True),
        ({"kind": "peak", "metric": "iops", "over": "vms", "low": 6, "high": 8}, False),
        ({"kind": "peak", "metric": "iops", "over": "vms", "low": 20, "high": 30}, None),
        ({"kind": "reference", "metric": "iops", "table": "paper", "percent": 10}, True),
        ({"kind": "reference", "metric": "iops", "table": "paper", "percent": 9}, False),
        ({"kind": "reference", "metric": "latency_ms_mean", "table": "paper", "percent": 10}, True),
        ({"kind": "reference", "metric": "iops", "table": "other", "percent": 10}, None),
        ({"kind": "below_peak", "metric": "iops", "over": "vms", "at": 8, "low_percent": 20, "high_percent": 30}, True),
        (
            {"kind": "below_peak", "metric": "iops", "over": "vms", "at": 8, "low_percent": 30, "high_percent": 40},
            False,
        ),
        ({"kind": "below_peak", "metric": "iops", "over": "vms", "at": 16, "low_percent": 0, "high_percent": 9}, None),
        ({"kind": "limiter", "resources": ["drives"]}, True),
        ({"kind": "limiter", "resources": ["drives"], "where": {"vms": 8}}, True),
        ({"kind": "limiter", "resources": ["link", "port"]}, False),
        ({"kind": "limiter", "resources": ["drives"], "where": {"pattern": "sequential"}}, None),
    ],
)
def test_expectation_is_met_breached_or_left_open(tmp_path: Path, expect: dict[str, Any], met: bool | None) -> None:
    (outcome,) = run(tmp_path, {"where": {"pattern": "random"}} | expect)["expectations"]
    assert outcome["held"] is met
    for part in ("text", "text_ja", "found", "found_ja"):
        assert outcome[part]
        assert "{" not in outcome[part]


def spread(folder: Path, *expect: dict[str, Any], drives: float = 0.99) -> dict[str, Any]:
    """Summary of repetitions that differ: 4 VMs give 2000 on average, 8 VMs 1650 (17.5 % below)."""
    totals = {4: (1900, 2000, 2100), 8: (1550, 1650, 1750)}
    points = [
        Pt(
            {"pattern": "random", "vms": n},
            [Rep(reads=(t,) * 8, writes=(0,) * 8, vms=1, busy={"drive/0.0": drives}) for t in each],
        )
        for n, each in totals.items()
    ]
    return summarise(write_run(folder, points, publications=PUBLICATIONS, reference=[REFERENCE], expect=list(expect)))


@pytest.mark.parametrize(("low", "high", "met"), [(15, 30, True), (20, 40, None), (60, 90, False)])
def test_level_below_peak_is_breached_only_beyond_the_intervals(
    tmp_path: Path, low: float, high: float, met: bool | None
) -> None:
    expect = {"kind": "below_peak", "metric": "iops", "over": "vms", "at": 8, "low_percent": low, "high_percent": high}
    (outcome,) = spread(tmp_path, expect)["expectations"]
    assert outcome["held"] is met
    assert "17.5" in outcome["found"]


@pytest.mark.parametrize(("low", "high", "met"), [(3, 5, True), (6, 8, None)])
def test_peak_at_another_level_is_left_open_if_intervals_overlap(
    tmp_path: Path, low: float, high: float, met: bool | None
) -> None:
    """4 VMs give 1752 to 2248, 8 VMs up to 1898: either may be the peak."""
    expect = {"kind": "peak", "metric": "iops", "over": "vms", "low": low, "high": high}
    (outcome,) = spread(tmp_path, expect)["expectations"]
    assert outcome["held"] is met
    assert "4 VMs" in outcome["found"] and ("too uncertain" in outcome["found"]) is (met is None)


def test_level_below_a_peak_that_may_be_0_is_left_open(tmp_path: Path) -> None:
    """4 VMs give -541 to 4541 with their interval, so 8 VMs may be at any distance below."""
    totals = {4: (1800, 2200), 8: (1600, 1700)}
    points = [
        Pt({"pattern": "random", "vms": n}, [Rep(reads=(t,) * 8, writes=(0,) * 8, vms=1) for t in each])
        for n, each in totals.items()
    ]
    expect = {"kind": "below_peak", "metric": "iops", "over": "vms", "at": 8, "low_percent": 20, "high_percent": 40}
    (outcome,) = summarise(write_run(tmp_path, points, expect=[expect]))["expectations"]
    assert outcome["held"] is None


@pytest.mark.parametrize(("percent", "met"), [(10, True), (5, None), (1, None)])
def test_reference_is_left_open_where_the_interval_reaches_it(tmp_path: Path, percent: float, met: bool | None) -> None:
    """4 VMs give 2000 and, with their interval, up to 2248; 2200 are published."""
    expect = {"kind": "reference", "metric": "iops", "table": "paper", "percent": percent}
    (outcome,) = spread(tmp_path, expect)["expectations"]
    assert outcome["held"] is met


def test_undetermined_limiter_breaches_no_expectation(tmp_path: Path) -> None:
    expect = {"kind": "limiter", "resources": ["link"]}
    (outcome,) = spread(tmp_path, expect, drives=0.5)["expectations"]
    assert outcome["evidence"]["found"] == ["undetermined"]
    assert outcome["held"] is None


@pytest.mark.parametrize("kind_name", ["vms", "copy", "packets", "files"])
def test_verdicts_of_the_test_setup_follow_from_the_layer_of_their_rules(kind_name: str) -> None:
    rules = [rule for stage in kind.named(kind_name).analysis.rules for rule in stage]
    setup = {rule.name for rule in rules if Verdict(rule.name, rule=rule).test_setup_limited}
    assert setup == {rule.name for rule in rules if rule.resource == "test setup"} != set()
    assert not Verdict("undetermined").test_setup_limited


@pytest.mark.parametrize(("resources", "met"), [(["link"], None), (["array_cpu"], True)])
def test_saturated_software_of_the_array_refutes_no_other_bottleneck(
    tmp_path: Path, resources: list[str], met: bool | None
) -> None:
    """The array's software uses 95 % of a processor; its model is not at a limit."""
    rep = Rep(reads=(1000,) * 8, writes=(0,) * 8, vms=1, busy={"drive/0.0": 0.3}, array_cpu=0.95)
    expect = {"kind": "limiter", "resources": resources}
    run = write_run(tmp_path, [Pt({"pattern": "random", "vms": 1}, [rep] * 3)], expect=[expect])
    summary = summarise(run)
    assert summary["points"][0]["limiter"] == "array_cpu"
    assert "machine_saturated" not in {caveat["caveat"] for caveat in summary["points"][0]["caveats"]}
    assert summary["expectations"][0]["held"] is met


def ratio_of(folder: Path, first: Rep, second: Rep, most: float) -> dict[str, Any]:
    """The outcome of an expectation that 2 VMs do at most `most` times the IOPS of 1 VM."""
    points = [Pt({"pattern": "random", "vms": n}, [rep] * 3) for n, rep in ((1, first), (2, second))]
    expect = {"kind": "ratio", "metric": "iops", "of": {"vms": 2}, "to": {"vms": 1}, "at_most": most}
    (outcome,) = summarise(write_run(folder, points, expect=[expect]))["expectations"]
    assert isinstance(outcome, dict)
    return outcome


def test_ratio_is_not_refuted_by_a_saturated_test_setup(tmp_path: Path) -> None:
    """The array's software uses 95 % of a processor at 2 VMs."""
    one, two = Rep(reads=(500,) * 8, vms=1), Rep(reads=(1500,) * 8, vms=1, array_cpu=0.95)
    outcome = ratio_of(tmp_path / "breached", one, two, 1.5)
    assert outcome["held"] is None and outcome["evidence"]["open"] == "setup"
    assert "the test setup was the bottleneck" in outcome["found"] and "判定しない" in outcome["found_ja"]
    assert ratio_of(tmp_path / "held", one, two, 3)["held"] is True
    unlimited = Rep(reads=(1500,) * 8, vms=1)
    assert ratio_of(tmp_path / "unlimited", one, unlimited, 1.5)["held"] is False


def test_ratio_of_a_count_that_never_grew_is_judged(tmp_path: Path) -> None:
    idle, busy = (Rep(reads=(rate,) * 8, writes=(0,) * 8, vms=1) for rate in (0, 1500))
    none = ratio_of(tmp_path / "none", busy, idle, 0.5)
    assert none["held"] is True and none["evidence"]["value"] == 0
    assert ratio_of(tmp_path / "to-none", idle, busy, 0.5)["held"] is None


def test_bound_is_not_refuted_by_a_saturated_test_setup(tmp_path: Path) -> None:
    for name, more, held in (("free", {}, False), ("saturated", {"machine_cpu": 0.99}, None)):
        rep = Rep(reads=(1000,) * 8, writes=(0,) * 8, vms=1, **more)  # type: ignore[arg-type]
        expect = {"kind": "bound", "metric": "iops", "at_least": 2000}
        run = write_run(tmp_path / name, [Pt({"pattern": "random", "vms": 1}, [rep] * 3)], expect=[expect])
        (outcome,) = summarise(run)["expectations"]
        assert outcome["held"] is held and ("the test setup was" in outcome["found"]) is (held is None)


def test_invalid_points_meet_and_breach_no_expectation(tmp_path: Path) -> None:
    def outcomes(folder: str, more: int) -> list[dict[str, Any]]:
        rep = Rep(reads=(1000,) * 8, writes=(0,) * 8, vms=1, array_bytes_more=more, busy={"drive/0.0": 0.99})
        expect = [
            {"kind": "bound", "metric": "iops", "at_least": 500, "where": {"vms": 1}},
            {"kind": "bound", "metric": "iops", "at_least": 2000, "where": {"vms": 1}},
            {"kind": "reference", "metric": "iops", "table": "paper", "percent": 10},
            {"kind": "limiter", "resources": ["drives"], "where": {"vms": 1}},
        ]
        points = [Pt({"pattern": "random", "vms": 1}, [rep] * 3)]
        run = write_run(tmp_path / folder, points, publications=PUBLICATIONS, reference=[REFERENCE], expect=expect)
        summary = summarise(run)
        assert [point["valid"] for point in summary["points"]] == [more == 0]
        found: list[dict[str, Any]] = summary["expectations"]
        return found

    assert [outcome["held"] for outcome in outcomes("valid", 0)] == [True, False, True, True]
    excluded = outcomes("invalid", 10**9)
    assert [outcome["held"] for outcome in excluded] == [None] * 4
    assert {outcome["found"] for outcome in excluded} == {"not judged: the points are invalid"}


def test_ratio_is_not_refuted_by_an_emulated_processor(tmp_path: Path) -> None:
    emulated = [{"caveat": "cpu_emulated", "values": {"reason": "no KVM"}}]
    one, two = Rep(reads=(500,) * 8, vms=1), Rep(reads=(1500,) * 8, vms=1)
    on_one = ratio_of(tmp_path / "one", one, replace(two, caveats=emulated), 1.5)
    on_both = ratio_of(tmp_path / "both", replace(one, caveats=emulated), replace(two, caveats=emulated), 1.5)
    for outcome, held in ((on_one, None), (on_both, False)):
        assert outcome["held"] is held and ("emulated" in outcome["found"]) is (held is None)


def test_every_metric_that_a_study_may_name_is_computed() -> None:
    assert set(LOAD_METRICS) <= set(UNITS)


@pytest.mark.parametrize(
    ("expect", "met", "found_text"),
    [
        ({"kind": "bound", "metric": "iops", "at_least": 900}, True, "1,000 at random, 1 VM"),
        ({"kind": "bound", "metric": "iops", "at_most": 1900}, False, "2,000 at random, 4 VMs"),
        ({"kind": "bound", "metric": "iops", "at_least": 1400, "at_most": 1600, "where": {"vms": 8}}, True, "1,500"),
        ({"kind": "bound", "metric": "iops", "at_least": 1, "where": {"vms": 9}}, None, "not judged"),
        ({"kind": "ratio", "metric": "iops", "of": {"vms": 4}, "to": {"vms": 1}, "at_least": 1.9}, True, "2 times ("),
        ({"kind": "ratio", "metric": "iops", "of": {"vms": 4}, "to": {"vms": 1}, "at_most": 1.9}, False, "2 times ("),
        ({"kind": "ratio", "metric": "iops", "of": {"vms": 4}, "to": {"vms": 9}, "at_least": 1}, None, "not judged"),
        ({"kind": "ratio", "metric": "iops", "of": {"pattern": "random"}, "to": {"vms": 1}, "at_most": 1}, None, ""),
    ],
)  # fmt: skip
def test_bounds_and_ratios_are_checked_against_points(
    tmp_path: Path, expect: dict[str, Any], met: bool | None, found_text: str
) -> None:
    (outcome,) = run(tmp_path, expect)["expectations"]
    assert outcome["held"] is met
    assert found_text in outcome["found"]


def test_bound_that_the_interval_reaches_is_left_open(tmp_path: Path) -> None:
    reps = [Rep(reads=(n,) * 8, writes=(0,) * 8, vms=1) for n in (900, 1000, 1100)]
    expect = {"kind": "bound", "metric": "iops", "at_least": 1010}
    (outcome,) = summarise(write_run(tmp_path, [Pt({"pattern": "random", "vms": 1}, reps)], expect=[expect]))[
        "expectations"
    ]
    assert outcome["held"] is None
    assert "too uncertain" in outcome["found"]


def test_point_that_certainly_breaches_a_bound_decides_beside_an_uncertain_one(tmp_path: Path) -> None:
    totals = {1: (500, 900, 1300), 4: (990, 991, 992)}
    points = [
        Pt({"pattern": "random", "vms": n}, [Rep(reads=(t,) * 8, writes=(0,) * 8, vms=1) for t in each])
        for n, each in totals.items()
    ]
    expect = {"kind": "bound", "metric": "iops", "at_least": 1010}
    (outcome,) = summarise(write_run(tmp_path, points, expect=[expect]))["expectations"]
    assert outcome["held"] is False
    assert "991 at random, 4 VMs" in outcome["found"]


def test_expectation_can_select_points_without_a_factor(tmp_path: Path) -> None:
    rate: dict[str, Any] = {"writes": (0,) * 8, "vms": 1}
    points = [
        Pt({"pattern": "random", "vms": 1}, [Rep(reads=(500,) * 8, **rate)] * 3),
        Pt({"pattern": "random", "vms": 1, "queue_depth": 8}, [Rep(reads=(5,) * 8, **rate)] * 3),
    ]
    bound = {"kind": "bound", "metric": "iops", "at_least": 400}
    wheres = [{"pattern": "random"}, {"pattern": "random", "queue_depth": None}]
    summary = summarise(write_run(tmp_path, points, expect=[bound | {"where": where} for where in wheres]))
    assert [outcome["held"] for outcome in summary["expectations"]] == [False, True]
    assert "None" not in summary["expectations"][1]["text"]


def swept_twice(folder: Path, *expect: dict[str, Any]) -> list[dict[str, Any]]:
    """Outcomes of two patterns over VMs and, for one of them, over the queue depth."""
    rates = {
        ("random", 1, None): 1000, ("random", 4, None): 2000, ("random", 8, None): 1500,
        ("sequential", 1, None): 1000, ("sequential", 4, None): 2000, ("sequential", 8, None): 3000,
        ("random", 1, 16): 1200, ("random", 1, 32): 1800, ("random", 1, 64): 1700,
    }  # fmt: skip
    points = []
    for (pattern, vms, depth), rate in rates.items():
        factors = {"pattern": pattern, "vms": vms} | ({} if depth is None else {"queue_depth": depth})
        points.append(Pt(factors, [Rep(reads=(rate,) * 8, writes=(0,) * 8, vms=1)] * 3))
    outcomes: list[dict[str, Any]] = summarise(write_run(folder, points, expect=list(expect)))["expectations"]
    return outcomes


@pytest.mark.parametrize(
    ("over", "low", "high", "where", "held"),
    [
        ("vms", 3, 5, {"pattern": "random", "queue_depth": None}, True),
        ("vms", 3, 5, {"pattern": "sequential", "queue_depth": None}, False),
        # One of two sweeps has the peak there: neither is chosen.
        ("vms", 3, 5, {"queue_depth": None}, None),
        ("queue_depth", 32, 32, {"vms": 1}, True),
        ("queue_depth", 60, 70, {"vms": 1}, False),
    ],
)
def test_peak_is_that_of_the_only_sweep_over_the_factor(
    tmp_path: Path, over: str, low: float, high: float, where: dict[str, Any], held: bool | None
) -> None:
    expect = {"kind": "peak", "metric": "iops", "over": over, "low": low, "high": high, "where": where}
    (outcome,) = swept_twice(tmp_path, expect)
    assert outcome["held"] is held


def test_distance_below_the_peak_is_judged_over_any_factor(tmp_path: Path) -> None:
    expect = {"kind": "below_peak", "metric": "iops", "over": "queue_depth", "at": 16, "where": {"vms": 1}}
    ranges = [{"low_percent": 30, "high_percent": 40}, {"low_percent": 1, "high_percent": 9}]
    assert [o["held"] for o in swept_twice(tmp_path, *(expect | each for each in ranges))] == [True, False]


@pytest.mark.parametrize("level", [4, 4.0])
@pytest.mark.parametrize(
    "expect",
    [
        {"kind": "bound", "metric": "iops", "at_least": 1900},
        {"kind": "limiter", "resources": ["drives"]},
        {"kind": "ratio", "metric": "iops", "to": {"vms": 1.0}, "at_least": 1.9},
    ],
)
def test_levels_are_numbers_however_they_are_written(tmp_path: Path, level: float, expect: dict[str, Any]) -> None:
    selection = "of" if expect["kind"] == "ratio" else "where"
    (outcome,) = run(tmp_path, expect | {selection: {"vms": level}})["expectations"]
    assert outcome["held"] is True


def test_sweep_is_selected_by_a_number_however_it_is_written(tmp_path: Path) -> None:
    rep = Rep(reads=(1000,) * 8, writes=(0,) * 8, vms=1, busy={"drive/0.0": 0.99})
    points = [Pt({"queue_depth": depth, "vms": n}, [rep] * 3) for depth in (8, 16) for n in (1, 2)]
    expect = {"kind": "limiter", "resources": ["drives"], "where": {"queue_depth": 8.0}}
    (outcome,) = summarise(write_run(tmp_path, points, expect=[expect]))["expectations"]
    assert (outcome["held"], outcome["evidence"]["found"]) == (True, ["drives"])
