"""Findings about noisy neighbours: the points that belong together, the cost, and the remedies."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.analysis.estimate import Estimate
from hakaru.kinds.vms.analysis import neighbours
from hakaru.kinds.vms.analysis.points import VmsPoint
from hakaru.kinds.vms.analysis.setup import setup_at
from hakaru.study import load
from hakaru.study.model import Study

from tests.run.conftest import ROOT

WRITTEN = load(str(ROOT / "studies" / "noisy-neighbour" / "study.yaml")).study.written
CAP = [{"name": "lu", "lun": 1, "iops": 40}]
ALONE, CAPPED = {"load.groups.aggressor.vms": 0}, {"array.caps": CAP}
VARIABLES = {
    "neighbour": {"alone": ALONE, "beside": {}, "cap": CAPPED, "tighter": CAPPED},
    "aggressors": {"none": ALONE, "four": {}},
    "caps": {"none": {}, "forty": CAPPED},
    "drives": {"shared": {}, "slow": {"array.model.controller.latency_us": 9}},
}


def points(*results: tuple[dict[str, str], float, float]) -> list[VmsPoint]:
    """Points with these levels, and the rate and 99th percentile of their victims."""
    changes = {"variables": VARIABLES, "factors": [{"drives": ["shared"]}], "expect": []}
    study = Study.model_validate(dict(WRITTEN) | changes)
    return [point(study, f"p{i + 1:02}", *result) for i, result in enumerate(results)]


def point(study: Study, name: str, factors: dict[str, str], iops: float, p99_ms: float) -> VmsPoint:
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
        per_repetition={},
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
    assert (cap["p99_ratio"], cap["rate_percent"]) == (pytest.approx(35 / 30), pytest.approx(92))
    assert cap["taken_back_percent"] == pytest.approx(95) and cap["caps"] == ["lu"]
    assert evidence["added_ms"] == {"controller": 0.0, "drives": pytest.approx(100 / 3)}
    english = finding.text["en"]
    for part in ("Alone, the victims have 500 IOPS", "130 ms, 4.33 times", "the drives", "cap restores the service"):
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


def test_point_alone_without_caps_is_the_reference_if_two_factors_vary() -> None:
    measured = points(
        ({"aggressors": "none", "caps": "none"}, 500, 30),
        ({"aggressors": "none", "caps": "forty"}, 480, 31),
        ({"aggressors": "four", "caps": "none"}, 100, 130),
        ({"aggressors": "four", "caps": "forty"}, 460, 35),
    )
    (comparison,) = neighbours.comparisons(measured)
    assert (comparison.alone.id, comparison.beside.id) == ("p01", "p03")
    assert [remedy.id for remedy in comparison.remedies] == ["p04"]


def test_points_of_another_lab_are_compared_with_their_own_point_alone() -> None:
    levels = [(drives, neighbour) for drives in ("shared", "slow") for neighbour in ("alone", "beside", "cap")]
    measured = points(*(({"drives": d, "neighbour": n}, 100.0, 10.0 + i) for i, (d, n) in enumerate(levels)))
    found = neighbours.comparisons(measured)
    assert [(c.alone.id, c.beside.id, [r.id for r in c.remedies]) for c in found] == [
        ("p01", "p02", ["p03"]),
        ("p04", "p05", ["p06"]),
    ]
    findings = neighbours.of_run(measured)
    assert [finding.where for finding in findings] == [{"drives": "shared"}, {"drives": "slow"}]


def test_aggressors_that_cost_nothing_are_reported_without_an_increase() -> None:
    measured = points(
        ({"neighbour": "alone"}, 500, 30), ({"neighbour": "beside"}, 500, 29), ({"neighbour": "cap"}, 500, 30)
    )
    finding = only(neighbours.of_run(measured))
    assert finding.evidence["points"]["p03"]["taken_back_percent"] is None
    assert "takes back" not in finding.text["en"].replace("takes back more than half", "")


def test_run_without_a_point_alone_has_no_finding() -> None:
    assert neighbours.of_run(points(({"neighbour": "beside"}, 100, 130), ({"neighbour": "cap"}, 460, 35))) == []
