"""Findings about noisy neighbours: the points that belong together, the cost, and the remedies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hakaru.analysis.estimate import Estimate
from hakaru.caveats import Caveat
from hakaru.kinds.vms.analysis import neighbour_comparisons, neighbours
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.analysis.setup import setup_at
from hakaru.study.model import Study

from tests.study.shipped import shipped

WRITTEN = shipped("noisy-neighbour").study.written
CAP = [{"name": "lu", "lun": 1, "iops": 40}]
ALONE, CAPPED = {"load.groups.aggressor.vms": 0}, {"array.caps": CAP}
SHARED = {"array.shares": {"in_flight": 10, "classes": [{"name": "victim", "lun": 0, "share": 800}]}}
MOVED = {"array.model.controller.latency_us": 1}
VARIABLES = {
    "neighbour": {"alone": ALONE, "beside": {}, "cap": CAPPED, "tighter": CAPPED, "shares": SHARED, "move": MOVED},
    "aggressors": {"none": ALONE, "four": {}},
    "caps": {"none": {}, "forty": CAPPED},
    "drives": {"shared": {}, "slow": {"array.model.controller.latency_us": 9}},
}


P99s = float | list[float]


def points(*results: tuple[dict[str, str], float, P99s]) -> list[VmsPoint]:
    """Points with these levels, and the rate and 99th percentile of their victims: one value, or
    one per repetition.
    """
    changes = {"variables": VARIABLES, "factors": [{"drives": ["shared"]}], "expect": []}
    study = Study.model_validate(dict(WRITTEN) | changes)
    return [point(study, f"p{i + 1:02}", *result) for i, result in enumerate(results)]


def point(study: Study, name: str, factors: dict[str, str], iops: float, measured: P99s) -> VmsPoint:
    repetitions = measured if isinstance(measured, list) else [measured]
    p99_ms = sum(repetitions) / len(repetitions)
    values = {"victim_iops": (iops, "1/s"), "victim_latency_ms_p99": (p99_ms, "ms")}
    values |= {"drives_ms_mean": (p99_ms / 3, "ms"), "controller_ms_mean": (0.1, "ms")}
    values |= {"cap_iops": (40.0, "1/s"), "cap_mb_per_s": (2.6, "MB/s")}
    values |= {"cap_delayed_percent": (97.0, "percent"), "cap_wait_ms_mean": (1500.0, "ms")}
    return VmsPoint(
        id=name,
        factors=dict(factors),
        origin="emulated",
        metrics={metric: Estimate.over([value], unit) for metric, (value, unit) in values.items()},
        utilisation={},
        members={},
        per_repetition={"victim_iops": [iops] * len(repetitions), "victim_latency_ms_p99": repetitions},
        caveats=[],
        service_ms=None,
        distribution={},
        over_time={},
        setup=setup_at(study, study.at(factors)),
        bounds=[],
        passages=[],
        tcp={},
        lateness_us=None,
        hosts=[],
    )


def only(found: list[Any]) -> Any:
    (finding,) = found
    return finding


def test_cap_that_restores_the_service_is_named_with_its_figures() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, 30),
        ({"neighbour": "beside"}, 100, 130),
        ({"neighbour": "cap"}, 460, 35),
        ({"neighbour": "tighter"}, 490, 32),
    )
    finding = only(neighbours.of_run(measured))
    evidence = finding.evidence
    assert (evidence["alone"], evidence["beside"], evidence["best"]) == ("p01", "p02", "p04")
    cap = evidence["points"]["p03"]
    assert cap["p99_ratio"] == {"mean": pytest.approx(35 / 30), "low": None, "high": None, "n": 1, "unit": "ratio"}
    assert cap["rate_ratio"]["mean"] == pytest.approx(0.92)
    assert cap["taken_back_percent"] == pytest.approx(95) and cap["caps"] == ["lu"]
    assert evidence["added_ms"] == {"controller": 0.0, "drives": pytest.approx(100 / 3)}
    english = finding.text["en"]
    for part in (
        "Alone, the victims have 500 IOPS",
        "130 ms, 4.33 times as much (no confidence interval, n = 1)",
        "the drives",
        "cap restores the service",
    ):
        assert part in english
    assert "97 % of them waited" in english and english.endswith("tighter helps most.")
    assert "被害 VM" in finding.text["ja"] and "tighter" in finding.text["ja"]
    assert neighbours.compared(measured) == {"p01", "p02", "p03", "p04"}


def test_remedy_that_does_not_help_is_not_called_one() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 130), ({"neighbour": "cap"}, 150, 100)
    )
    finding = only(neighbours.of_run(measured))
    assert finding.evidence["best"] is None
    assert "does not restore the service" in finding.text["en"] and "takes back 30 %" in finding.text["en"]
    assert "Nothing that the study tried" in finding.text["en"]


def test_remedy_that_makes_it_worse_takes_back_no_share() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 130), ({"neighbour": "move"}, 90, 200)
    )
    text = only(neighbours.of_run(measured)).text
    assert "move does not restore the service: 200 ms" in text["en"] and "higher than without a remedy" in text["en"]
    assert "takes back" not in text["en"] and "対策なしの場合より高い" in text["ja"]


def test_point_alone_without_caps_is_the_reference_if_two_factors_vary() -> None:
    measured = points(
        ({"aggressors": "none", "caps": "none"}, 500, 30),
        ({"aggressors": "none", "caps": "forty"}, 480, 31),
        ({"aggressors": "four", "caps": "none"}, 100, 130),
        ({"aggressors": "four", "caps": "forty"}, 460, 35),
    )
    (comparison,) = neighbour_comparisons.comparisons(measured)
    assert (comparison.alone.id, comparison.beside.id) == ("p01", "p03")
    assert [remedy.id for remedy in comparison.remedies] == ["p04"]


def test_points_of_another_lab_are_compared_with_their_own_point_alone() -> None:
    levels = [(drives, neighbour) for drives in ("shared", "slow") for neighbour in ("alone", "beside", "cap")]
    measured = points(*(({"drives": d, "neighbour": n}, 100.0, 10.0 + i) for i, (d, n) in enumerate(levels)))
    found = neighbour_comparisons.comparisons(measured)
    assert [(c.alone.id, c.beside.id, [r.id for r in c.remedies]) for c in found] == [
        ("p01", "p02", ["p03"]),
        ("p04", "p05", ["p06"]),
    ]
    about_all, *findings = neighbours.of_run(measured)
    assert [finding.where for finding in findings] == [{"drives": "shared"}, {"drives": "slow"}]
    assert about_all.kind == "neighbour_cases" and about_all.where == {}


@pytest.mark.parametrize("missing", ["alone", "beside"])
def test_point_without_results_is_not_replaced_by_that_of_another_lab(missing: str) -> None:
    levels = [(drives, neighbour) for drives in ("shared", "slow") for neighbour in ("alone", "beside", "cap")]
    measured = points(*(({"drives": d, "neighbour": n}, 100.0, 10.0 + i) for i, (d, n) in enumerate(levels)))
    lost = {"drives": "slow", "neighbour": missing}
    measured = [replace(p, metrics={}, per_repetition={}) if p.factors == lost else p for p in measured]
    found = neighbour_comparisons.comparisons(measured)
    assert [(c.alone.id, c.beside.id, [r.id for r in c.remedies]) for c in found] == [("p01", "p02", ["p03"])]
    # Nor is an invalid point compared.
    wrong = Caveat("bytes_not_conserved", {})
    invalid = [replace(p, caveats=[wrong]) if p.id in ("p03", "p05") else p for p in measured]
    found = neighbour_comparisons.comparisons(invalid)
    assert [(c.alone.id, c.beside.id, [r.id for r in c.remedies]) for c in found] == [("p01", "p02", [])]


def resources() -> list[VmsPoint]:
    """Two resources. Of the remedies, `cap` restores the service for both, `move` for one."""
    rows = {
        ("shared", "alone"): (500, 30.0, None),
        ("shared", "beside"): (100, 120.0, 800.0),
        ("shared", "cap"): (470, 33.0, 20.0),
        ("shared", "move"): (110, 110.0, 780.0),
        ("slow", "alone"): (500, 10.0, None),
        ("slow", "beside"): (50, 90.0, 2000.0),
        ("slow", "cap"): (490, 10.5, 20.0),
        ("slow", "move"): (480, 11.0, 1500.0),
    }
    measured = points(*(({"drives": d, "neighbour": n}, iops, p99) for (d, n), (iops, p99, _) in rows.items()))
    for point, (_, _, aggressors) in zip(measured, rows.values(), strict=True):
        if aggressors is not None:
            point.metrics["aggressor_iops"] = Estimate.over([aggressors], "1/s")
            point.per_repetition["aggressor_iops"] = [aggressors]
    return measured


def test_cost_and_remedies_of_every_resource_are_in_one_finding() -> None:
    about_all, shared, _ = neighbours.of_run(resources())
    first, second = about_all.evidence["cases"]
    assert (first["where"], first["alone"], first["beside"]) == ({"drives": "shared"}, "p01", "p02")
    assert first["p99_ratio"]["mean"] == pytest.approx(4) and second["p99_ratio"]["mean"] == pytest.approx(9)
    assert first["rate_ratio"]["mean"] == pytest.approx(0.2)
    assert [(r["label"], r["restores"]) for r in first["remedies"]] == [("cap", True), ("move", False)]
    assert [r["aggressor_ratio"]["mean"] for r in second["remedies"]] == pytest.approx([0.01, 0.75])
    assert about_all.evidence["everywhere"] == ["cap"]
    english, japanese = about_all.text["en"], about_all.text["ja"]
    assert "shared 4 times with 20 % of the rate (bottleneck: undetermined), slow 9 times" in english
    assert "cap: it restores the service in every case and leaves the aggressors 1 to 2.50 % of their rate." in english
    restored = "it restores the service for slow and leaves the aggressors 75 % of their rate"
    assert f"move: {restored}; it does not restore the service for shared." in english
    assert "cap：どの場合にも元の水準に戻る" in japanese and "shared で元の水準に戻らない。" in japanese
    assert "leaves the aggressors 2.50 % of their rate" in shared.text["en"]
    assert shared.evidence["points"]["p03"]["restores"] is True and shared.evidence["points"]["p02"]["restores"] is None


def test_resource_without_an_increase_does_not_decide_on_the_remedies() -> None:
    measured = resources()
    # Beside the aggressors as alone.
    measured[1].per_repetition["victim_latency_ms_p99"] = [30.0]
    about_all = neighbours.of_run(measured)[0]
    assert about_all.evidence["cases"][0]["increased"] is False
    assert about_all.evidence["everywhere"] == ["cap", "move"]
    assert "shared no increase shown" in about_all.text["en"]
    assert "move: it restores the service in every case" in about_all.text["en"]


def test_time_outside_the_array_is_a_part_of_its_own() -> None:
    measured = points(({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 60))
    for point, latency_ms in zip(measured, (11.1, 51.1), strict=True):
        point.metrics["latency_ms_mean"] = Estimate.over([latency_ms], "ms")
    finding = only(neighbours.of_run(measured))
    # Of 40 ms more, 10 are in the drives.
    added = finding.evidence["added_ms"]
    assert added == {"controller": 0.0, "drives": pytest.approx(10), "outside": pytest.approx(30)}
    assert "the aggressors' included, grows most in the network and the hosts: 30 ms more" in finding.text["en"]


def test_drives_behind_a_cache_are_part_of_its_time() -> None:
    measured = points(({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 100, 60))
    for point, cache_ms in zip(measured, (1.0, 40.0), strict=True):
        point.metrics["cache_ms_mean"] = Estimate.over([cache_ms], "ms")
    assert only(neighbours.of_run(measured)).evidence["added_ms"] == {"controller": 0.0, "cache": pytest.approx(39)}


def test_aggressors_that_cost_nothing_are_reported_without_an_increase() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 500, 29), ({"neighbour": "cap"}, 500, 30)
    )
    finding = only(neighbours.of_run(measured))
    assert finding.evidence["points"]["p03"]["taken_back_percent"] is None
    assert finding.evidence["increased"] is False and finding.evidence["best"] is None
    assert "take" not in finding.text["en"] and "helps most" not in finding.text["en"]
    assert "do not show that the aggressors increase" in finding.text["en"]
    assert "増加は認められない" in finding.text["ja"] and "取り戻" not in finding.text["ja"]


def test_increase_within_the_noise_gives_no_share_and_no_best_remedy() -> None:
    # The means alone would say that the cap takes back 2,100 % of the increase.
    noisy = points(
        ({"neighbour": "alone"}, 500, [29.0, 30.0, 31.0]),
        ({"neighbour": "beside"}, 500, [29.1, 30.1, 31.1]),
        ({"neighbour": "cap"}, 500, [27.0, 28.0, 29.0]),
    )
    single = points(
        ({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 500, 35), ({"neighbour": "cap"}, 500, 28)
    )
    for measured in (noisy, single):
        finding = only(neighbours.of_run(measured))
        assert finding.evidence["increased"] is False and finding.evidence["best"] is None
        assert finding.evidence["points"]["p03"]["taken_back_percent"] is None
        assert "take" not in finding.text["en"] and "the time grows" not in finding.text["en"]
    ratio = only(neighbours.of_run(noisy)).evidence["points"]["p02"]["p99_ratio"]
    assert ratio["low"] < 1 < ratio["high"] and ratio["n"] == 3


def test_interval_of_several_repetitions_is_in_evidence_and_text() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, [29.0, 30.0, 31.0]),
        ({"neighbour": "beside"}, 100, [128.0, 130.0, 132.0]),
        ({"neighbour": "cap"}, 460, [31.0, 32.0, 33.0]),
        ({"neighbour": "tighter"}, 460, [30.0, 36.0, 42.0]),
        ({"neighbour": "move"}, 460, [99.0, 100.0, 101.0]),
    )
    finding = only(neighbours.of_run(measured))
    english, japanese = finding.text["en"], finding.text["ja"]
    ratio = finding.evidence["points"]["p02"]["p99_ratio"]
    assert ratio["mean"] == pytest.approx(130 / 30)
    assert 3.9 < ratio["low"] < ratio["mean"] < ratio["high"] < 4.8
    assert f"4.33 times as much (95 % confidence interval {ratio['low']:.3g} to {ratio['high']:.3g}, n = 3)" in english
    assert f"95 % 信頼区間 {ratio['low']:.3g}〜{ratio['high']:.3g}、n = 3" in japanese
    assert "cap restores the service" in english and "cap では元の水準に戻る" in japanese
    # The mean is exactly at the bound of 20 %, and the interval reaches far beyond it.
    assert "It is open whether tighter restores the service" in english and "判定できない" in japanese
    assert "move does not restore the service" in english and finding.evidence["best"] == "p03"


def test_remedy_that_may_be_chance_is_not_the_best() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, [29.0, 30.0, 31.0]),
        ({"neighbour": "beside"}, 100, [58.0, 60.0, 62.0]),
        ({"neighbour": "cap"}, 460, [20.0, 42.0, 64.0]),
    )
    finding = only(neighbours.of_run(measured))
    assert finding.evidence["points"]["p03"]["taken_back_percent"] == pytest.approx(60)
    assert finding.evidence["best"] is None and "Nothing that the study tried is shown" in finding.text["en"]


@pytest.mark.parametrize("order", [("cap", "shares", "beside", "move"), ("move", "beside", "shares", "cap")])
def test_cost_is_the_point_without_caps_and_shares_in_any_order(order: tuple[str, ...]) -> None:
    figures = {"cap": 35.0, "shares": 60.0, "move": 50.0, "beside": 130.0}
    levels = [*order, "alone"]
    measured = points(*(({"neighbour": level}, 100, figures.get(level, 30.0)) for level in levels))
    (comparison,) = neighbour_comparisons.comparisons(measured)
    assert comparison.beside.factors == {"neighbour": "beside"}
    assert [p.factors["neighbour"] for p in comparison.remedies] == [level for level in order if level != "beside"]
    evidence = only(neighbours.of_run(measured)).evidence["points"][f"p{levels.index('shares') + 1:02}"]
    assert evidence["shares"] == ["victim"] and evidence["taken_back_percent"] == pytest.approx(70)


def test_cost_is_not_known_if_every_point_has_a_limit() -> None:
    measured = points(
        ({"neighbour": "shares"}, 100, 60), ({"neighbour": "cap"}, 100, 35), ({"neighbour": "alone"}, 500, 30)
    )
    assert neighbours.of_run(measured) == [] and neighbours.compared(measured) == set()


def test_run_without_a_point_alone_has_no_finding() -> None:
    assert neighbours.of_run(points(({"neighbour": "beside"}, 100, 130), ({"neighbour": "cap"}, 460, 35))) == []
