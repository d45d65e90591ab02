"""Engines that are sampled too seldom for the measuring phase mark their point."""

from __future__ import annotations

import numpy as np
import pytest
from hakaru.analysis import checks
from hakaru.analysis.counters import Counters, Key, Series
from hakaru.caveats import Caveat

S = 1_000_000_000


def sampled(**interval_s: float) -> Counters:
    """Counters of engines, named as `ENGINE_NODE`, for a minute."""
    series = {}
    for name, interval in interval_s.items():
        engine, _, node = name.partition("_")
        instants = np.arange(0, 60 * S, int(interval * S), dtype=np.int64)
        series[Key(node, engine, "process", "cpu_user_ns")] = Series(instants, instants.astype(float))
    return Counters(series)


def test_engine_with_the_longest_interval_is_named() -> None:
    counters = sampled(watch_host=10, array_storage=20, watch_storage=15, files_host=30)
    expected = Caveat("sampled_rarely", {"node": "storage", "interval_s": 20.0, "window_s": 39.0})
    assert list(checks.sampled(counters, (5 * S, 44 * S))) == [expected]


@pytest.mark.parametrize("window_s", [40, 55])
def test_two_intervals_are_enough(window_s: int) -> None:
    counters = sampled(watch_host=10, array_storage=20, files_host=50)
    assert list(checks.sampled(counters, (0, window_s * S))) == []


def test_nothing_is_said_without_engines() -> None:
    assert list(checks.sampled(Counters({}), (0, S))) == []
