"""Verdicts on differences: how often equal runs differ, which changes are found, and the cases in
which there is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hakaru.analysis.comparison.difference import holm, of_ratio, relative
from hakaru.analysis.comparison.rows import Row, common_points, judge, rows
from hakaru.analysis.direction import better
from hakaru.analysis.estimate import Estimate, SampleMean, ratio
from hakaru.study.results import half_percent
from scipy import stats

from tests.analysis.comparison.drawn import LOADED, point, points

CHANGED = ("better", "worse", "differs")


def compared(before: list[dict[str, Any]], after: list[dict[str, Any]], metrics: Sequence[str] = ()) -> list[Row]:
    return judge(rows(common_points(before, after), better, metrics))


def pairs_that_differ(
    seed: int, pairs: int, repetitions: int, slower: dict[int, float], verdicts: Sequence[str] = CHANGED
) -> int:
    """Number of pairs of runs with at least one verdict on any metric at any point."""
    random = np.random.default_rng(seed)
    found = 0
    for _ in range(pairs):
        judged = compared(points(random, repetitions), points(random, repetitions, slower))
        found += any(row.verdict in verdicts for row in judged)
    return found


@pytest.mark.parametrize("repetitions", [2, 3, 5, 10])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_at_most_3_of_40_pairs_of_equal_runs_differ(seed: int, repetitions: int) -> None:
    assert pairs_that_differ(seed, 40, repetitions, {}) <= 3


@pytest.mark.parametrize("repetitions", [3, 5])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_requests_that_take_5_percent_longer_are_found_in_18_of_20_pairs(seed: int, repetitions: int) -> None:
    assert pairs_that_differ(seed, 20, repetitions, dict.fromkeys(LOADED, 1.05), ["worse"]) >= 18


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_change_of_5_percent_at_one_of_five_points_needs_ten_repetitions(seed: int) -> None:
    assert pairs_that_differ(seed, 20, 10, {7: 1.05}, ["worse"]) >= 18


def precise_points(random: np.random.Generator, first: int, percent: float, *, staged: bool) -> list[dict[str, Any]]:
    """Points that are repeated until the rate has a precision, from `first` to 40 times. `staged`:
    whether they say so.
    """
    drawn = points(random, 40)
    for each in drawn:
        rates = each["repetitions"]["iops"]
        halves = ((n, half_percent(Estimate.two_stage(rates[:n], first, ""))) for n in range(first, 40))
        enough = next((n for n, half in halves if half is not None and half <= percent), 40)
        each["repetitions"] = {name: values[:enough] for name, values in each["repetitions"].items()}
        each["first_stage"] = first if staged else None
    return drawn


@pytest.mark.parametrize(("staged", "least", "most"), [(True, 0, 10), (False, 15, 40)])
def test_equal_runs_whose_spread_chose_their_repetitions_rarely_differ(staged: bool, least: int, most: int) -> None:
    """Of 100 pairs, 5 may differ. The spread of all repetitions would find four times as many."""
    random = np.random.default_rng(1)
    pairs = 0
    for _ in range(100):
        judged = compared(*(precise_points(random, 3, 1.5, staged=staged) for _ in range(2)))
        pairs += any(row.p_corrected is not None and row.p_corrected < 0.05 for row in judged)
    assert least <= pairs <= most, pairs


def test_correction_for_their_number_is_needed() -> None:
    """Without it, most pairs of equal runs would differ somewhere."""
    random = np.random.default_rng(1)
    pairs = 0
    for _ in range(40):
        judged = compared(points(random, 5), points(random, 5))
        pairs += any(row.difference is not None and row.difference.p < 0.05 for row in judged)
    assert pairs > 20


def test_direction_follows_from_the_words_of_a_name() -> None:
    lower = ("failover_gap_s", "link_down_gap_s", "link_up_back_s", "gap_ms_max", "latency_ms_p99/vm-1")
    assert {better(name) for name in lower} == {"lower"}
    assert {better(name) for name in ("achieved_percent", "files_per_s/fs-1", "jain_index")} == {"higher"}
    assert {better(name) for name in ("link_down_gap_percent", "cpu_percent", "tester_frames_per_s")} == {None}
    # The share of a place in the losses, and data that reach the layers below a load.
    below = ("lost_percent/device", "lu_read_mb_per_s", "lu_write_mb_per_s", "pool_mb_per_s")
    assert {better(name) for name in below} == {None}


def test_worse_and_better_follow_the_direction_of_the_metric() -> None:
    values = {"iops": [100.0, 101, 99, 100], "latency_ms_mean": [5.0, 5.05, 5, 4.95], "cpu_percent": [51.0, 50, 49, 50]}
    more = {name: [2 * value for value in each] for name, each in values.items()}
    judged = compared([point({"vms": 1}, values)], [point({"vms": 1}, more)])
    verdicts = {row.metric: row.verdict for row in judged}
    assert verdicts == {"iops": "better", "latency_ms_mean": "worse", "cpu_percent": "differs"}


def test_a_small_difference_is_no_difference_however_certain() -> None:
    before, after = [1000.0, 1001, 999, 1000, 1000], [1010.0, 1011, 1009, 1010, 1010]
    (row,) = compared([point({}, {"iops": before})], [point({}, {"iops": after})])
    assert row.p_corrected is not None and row.p_corrected < 0.001
    assert row.verdict == "same"


def test_a_wide_interval_is_undecided_not_same() -> None:
    (row,) = compared([point({}, {"iops": [90.0, 110, 100]})], [point({}, {"iops": [100.0, 92, 111]})])
    assert row.verdict == "undecided" and row.reason is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: p | {"valid": False}, "invalid"),
        (lambda p: p | {"repetitions": {"iops": [100.0]}}, "few_repetitions"),
    ],
)
def test_points_without_enough_valid_values_have_no_verdict(change: Callable[[Any], Any], reason: str) -> None:
    before = point({}, {"iops": [100.0, 101, 99]})
    (row,) = compared([before], [change(point({}, {"iops": [200.0, 201, 199]}))])
    assert (row.verdict, row.reason, row.difference) == ("undecided", reason, None)


def test_a_metric_in_another_unit_is_compared_once() -> None:
    values = {"iops": [10.0, 11, 12], "mb_per_s": [20.0, 22, 24], "latency_ms_p99": [3.0, 3.1, 2.9]}
    judged = compared([point({}, values)], [point({}, values)])
    assert [row.metric for row in judged] == ["iops", "latency_ms_p99"]
    named = compared([point({}, values)], [point({}, values)], ["mb_per_s"])
    assert [row.metric for row in named] == ["mb_per_s"]


def test_few_rare_events_prove_nothing() -> None:
    (row,) = compared([point({}, {"timeouts": [0.0, 0, 0]})], [point({}, {"timeouts": [1.0, 1, 1]})])
    assert row.verdict == "undecided"
    (row,) = compared([point({}, {"timeouts": [0.0, 0, 0]})], [point({}, {"timeouts": [14.0, 16, 15]})])
    assert row.verdict == "worse"
    for name in ("packet_errors", "path_losses", "path_switches", "commands_repeated", "reordered_frames"):
        (row,) = compared([point({}, {name: [0.0, 0, 0]})], [point({}, {name: [1.0, 1, 1]})])
        assert row.verdict == "undecided", name
    # A mean over time is no count.
    (row,) = compared(*([point({}, {"outstanding_mean": values})] for values in ([8.0, 8.01, 8], [4.0, 4.01, 4])))
    assert row.verdict == "differs"


def test_a_metric_that_is_always_zero_is_the_same() -> None:
    (row,) = compared([point({}, {"errors_per_s": [0.0, 0, 0]})], [point({}, {"errors_per_s": [0.0, 0, 0]})])
    assert row.verdict == "same"


def test_points_are_matched_by_their_levels() -> None:
    before = [point({"vms": 1}, {}), point({"vms": 2}, {})]
    after = [point({"vms": 2.0}, {}), point({"vms": 2, "loss": "1 %"}, {})]
    assert common_points(before, after) == [(before[1], after[0])]


def test_interval_is_that_of_a_ratio_of_means() -> None:
    """The same method as expectations of kind `ratio`."""
    before, after = (SampleMean.over(values) for values in ([100.0, 103, 98, 101], [110.0, 108, 112, 109]))
    term, expected = of_ratio(before, after), ratio(after, before)
    assert term is not None
    found = relative([term])
    assert found.change == pytest.approx(100 * ((expected.mean or 0) - 1))
    assert found.low == pytest.approx(100 * ((expected.low or 0) - 1))
    assert found.high == pytest.approx(100 * ((expected.high or 0) - 1))


def test_p_value_is_close_to_welchs_test_of_logarithms() -> None:
    random = np.random.default_rng(7)
    before, after = random.lognormal(0, 0.02, 6), random.lognormal(0.02, 0.03, 4)
    term = of_ratio(SampleMean.over(before), SampleMean.over(after))
    assert term is not None
    expected = stats.ttest_ind(np.log(after), np.log(before), equal_var=False).pvalue
    assert relative([term]).p == pytest.approx(expected, rel=0.05)


def test_holm_multiplies_the_smallest_by_the_number_of_tests() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == [1.0, 1.0]


def test_a_metric_that_is_named_twice_is_compared_once() -> None:
    values = {"iops": [100.0, 101, 99, 100], "mb_per_s": [5.0, 5.1, 4.9, 5.05]}
    before = [point({"vms": 1}, values)]
    after = [point({"vms": 1}, {name: [0.98 * value for value in each] for name, each in values.items()})]
    assert compared(before, after, ["iops", "iops"]) == compared(before, after, ["iops"])
