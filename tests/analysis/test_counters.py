"""Rates from cumulative counters."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hakaru.analysis.counters import Counters, Series, common_window
from hypothesis import given
from hypothesis import strategies as st

S = 1_000_000_000


def series(*pairs: tuple[float, float]) -> Series:
    return Series(np.array([int(t * S) for t, _ in pairs]), np.array([v for _, v in pairs], dtype=float))


def test_window_edges_are_interpolated() -> None:
    counted = series((0, 0), (1, 100), (2, 300), (3, 300))
    assert counted.increase(int(0.5 * S), int(1.5 * S)) == pytest.approx(50 + 100)
    assert counted.rate(int(0.5 * S), int(1.5 * S)) == pytest.approx(150)


def test_rate_covers_only_the_sampled_part_of_the_window() -> None:
    counted = series((1, 0), (2, 100))
    assert counted.rate(0, 10 * S) == pytest.approx(100)
    assert math.isnan(counted.rate(5 * S, 10 * S))


def test_large_timestamps_lose_no_precision() -> None:
    start = 10**18  # 31 years after boot: beyond 53 bits
    counted = Series(np.array([start, start + 1000]), np.array([0.0, 1000.0]))
    assert counted.at(start + 1) == 1.0


@given(st.permutations(range(12)))
def test_order_of_rows_does_not_matter(order: list[int]) -> None:
    rows = [
        {"node": n, "engine": "initiator", "entity": "vms", "name": c, "at_ns": t * S, "value": float(t * (i + 1))}
        for i, (n, c) in enumerate([("a", "reads"), ("a", "writes"), ("b", "reads"), ("b", "writes")])
        for t in (0, 1, 2)
    ]
    counters = Counters.of_table(pa.Table.from_pylist([rows[i] for i in order]))
    assert counters.total_rate((0, 2 * S), entity="vms", name="reads") == pytest.approx(1 + 3)
    series_of_b = counters.get("b", "initiator", "vms", "writes")
    assert series_of_b is not None
    assert list(series_of_b.value) == [0, 4, 8]


def test_total_without_any_counter_is_missing() -> None:
    assert math.isnan(Counters({}).total_rate((0, S), entity="vms", name="reads"))
    assert Counters({}).last_total(engine="array", entity="lu/", name="reads") is None


def test_highest_rate_is_that_of_two_samples_inside_the_window() -> None:
    counted = series((0, 0), (1, 900), (2, 1000), (3, 1300), (3.1, 1400), (4, 1500))
    assert counted.highest_rate(int(0.5 * S), 4 * S) == pytest.approx(300), (
        "not the 900 of before, nor a short interval"
    )
    assert math.isnan(counted.highest_rate(int(0.5 * S), int(1.5 * S)))
    assert math.isnan(series((1, 5)).highest_rate(0, 4 * S))


def test_counters_of_different_intervals_are_compared_between_samples_of_the_one_sampled_seldom() -> None:
    often = series(*((t, t) for t in range(0, 40)))
    seldom = series(*((t, t) for t in range(-5, 60, 10)))
    window = (2 * S, 32 * S)
    assert common_window(window, [often, seldom]) == (5 * S, 25 * S)
    assert common_window(window, [often, often]) == window
    assert common_window((6 * S, 14 * S), [often, seldom]) == (6 * S, 14 * S), "no two samples inside"
    assert common_window(window, []) == window
