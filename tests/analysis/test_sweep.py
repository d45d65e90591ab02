"""Points are ordered into sweeps: over the preferred factor, and those that would be alone in it
over another one.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hakaru.analysis import summarise
from hakaru.analysis.sweep import Sweep, sweeps_of, swept_factor

from tests.analysis.small_run import Pt, Rep, write_run


def points_of(*factors: dict[str, Any]) -> list[Any]:
    """Points with these factors, called p1, p2 and so on."""
    return [SimpleNamespace(id=f"p{i}", factors=levels) for i, levels in enumerate(factors, 1)]


def shown(sweeps: list[Sweep]) -> list[tuple[str, dict[str, Any], list[float]]]:
    """Factor, other levels and levels of each sweep."""
    return [(sweep.over, dict(sweep.where), [sweep.level(p) for p in sweep.points]) for sweep in sweeps]


MAIN = [{"pattern": "random", "paths": 1, "vms": vms} for vms in (7, 1, 4)]


def test_points_alone_at_their_number_of_vms_are_swept_over_paths_from_the_point_of_the_main_sweep() -> None:
    points = points_of(*MAIN, *({"pattern": "random", "paths": paths, "vms": 7} for paths in (4, 2)))
    assert shown(sweeps_of(points, "vms")) == [
        ("vms", {"pattern": "random", "paths": 1}, [1, 4, 7]),
        ("paths", {"pattern": "random", "vms": 7}, [1, 2, 4]),
    ]


def test_each_pattern_has_a_sweep_of_its_own() -> None:
    patterns = ("random", "sequential")
    points = points_of(*({"pattern": name, "paths": n, "vms": 7} for name in patterns for n in (1, 2, 4)))
    assert shown(sweeps_of(points, "vms")) == [("paths", {"pattern": name, "vms": 7}, [1, 2, 4]) for name in patterns]


def test_a_point_that_differs_in_more_than_one_factor_stays_alone() -> None:
    points = points_of(
        *MAIN, {"pattern": "random", "paths": 2, "vms": 8}, {"pattern": "sequential", "paths": 1, "vms": 7}
    )
    assert shown(sweeps_of(points, "vms"))[1:] == [
        ("vms", {"pattern": "random", "paths": 2}, [8]),
        ("vms", {"pattern": "sequential", "paths": 1}, [7]),
    ]


def test_lone_points_are_swept_over_the_factor_in_which_most_points_differ_from_them() -> None:
    points = points_of(*({"paths": paths, "queue_depth": depth, "vms": 7} for paths in (1, 2, 4) for depth in (1, 8)))
    assert shown(sweeps_of(points, "vms")) == [
        ("paths", {"queue_depth": 1, "vms": 7}, [1, 2, 4]),
        ("paths", {"queue_depth": 8, "vms": 7}, [1, 2, 4]),
    ]


def test_levels_that_are_words_have_no_order_and_make_no_sweep() -> None:
    points = points_of(*({"cache": cache, "vms": 7} for cache in ("small", "large", True, False)))
    assert [(over, levels) for over, _, levels in shown(sweeps_of(points, "vms"))] == [("vms", [7])] * 4


def test_the_order_in_which_blocks_name_their_factors_does_not_matter() -> None:
    points = points_of({"paths": 1, "region": "a", "vms": 1}, {"region": "a", "paths": 1, "vms": 2})
    assert shown(sweeps_of(points, "vms")) == [("vms", {"paths": 1, "region": "a"}, [1, 2])]


@pytest.mark.parametrize("how", [{"is_searched": True}, {"sweeps_lone": False}])
def test_lone_points_stay_alone_if_their_levels_coincide_by_chance_or_the_caller_says_so(how: dict[str, bool]) -> None:
    points = points_of(*({"paths": paths, "vms": 7} for paths in (1, 2)))
    assert shown(sweeps_of(points, "vms", **how)) == [("vms", {"paths": n}, [7]) for n in (1, 2)]


def test_truth_values_are_no_numbers_to_sweep_over() -> None:
    assert swept_factor([{"cold": True, "depth": 1}, {"cold": False, "depth": 1}], "vms") == "depth"


def at(vms: int, busy: dict[str, float], **levels: Any) -> Pt:
    """Return a point at which these entities of the array were busy."""
    return Pt({"vms": vms, **levels}, [Rep(vms=vms, busy=busy)] * 2)


def test_expectation_of_a_bottleneck_counts_a_point_on_two_sweeps_once(tmp_path: Path) -> None:
    """The point with one path lies on the sweep over VMs, which is selected as a whole, and on the
    one over paths.
    """
    points = [
        at(1, {"drive/0.0": 0.99}, paths=1),
        at(7, {"drive/0.0": 0.99}, paths=1),
        at(7, {"drive/0.0": 0.5}, paths=2),
    ]
    factors = [{"paths": [1], "vms": [1, 7]}, {"paths": [2], "vms": [7]}]
    expect = {"kind": "limiter", "resources": ["drives"], "where": {"paths": 1}}
    summary = summarise(write_run(tmp_path, points, factors=factors, expect=[expect]))
    assert [s["over"] for s in summary["sweeps"]] == ["vms", "paths"]
    (outcome,) = summary["expectations"]
    assert (outcome["held"], outcome["evidence"]["found"]) == (True, ["drives"])
