"""Rates by latency, for few and long requests."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hakaru.analysis.counters import Counters, Key, Series
from hakaru.analysis.latency import Latencies
from hakaru.kinds.vms.analysis import equipment
from hakaru.kinds.vms.analysis.metrics import RATES, by_latency, cpu_rate, of_repetition

# Eight requests of 4 MiB outstanding that take half a second each give 16 per second. 49 were
# counted in 3 s.
COUNTED = {"iops": 49 / 3, "mb_per_s": 49 / 3 * 4.194304, "outstanding_mean": 8.0, "latency_ms_mean": 500.0}
NONE = {"read_iops": 0.0, "read_mb_per_s": 0.0, "mib_per_s": 49 / 3 * 4, "errors_per_s": 0.0}
VALUES = COUNTED | NONE | {"write_iops": COUNTED["iops"], "write_mb_per_s": COUNTED["mb_per_s"]}
WINDOW = (10 * 10**9, 13 * 10**9)


def test_rate_by_latency_is_requests_outstanding_over_latency() -> None:
    rates = by_latency(VALUES, WINDOW)
    assert tuple(rates) == RATES
    assert rates["iops"] == pytest.approx(16) and rates["mb_per_s"] == pytest.approx(16 * 4.194304)
    assert rates["mib_per_s"] == pytest.approx(64) and rates["read_iops"] == 0


@pytest.mark.parametrize(
    "changed", [{"latency_ms_mean": math.nan}, {"iops": 0.0}, {"errors_per_s": 0.1}, {"outstanding_mean": math.nan}]
)
def test_rate_by_latency_is_missing_if_requests_failed_or_none_ended(changed: dict[str, float]) -> None:
    assert by_latency(VALUES | changed, WINDOW) == {}


def test_busy_polling_is_no_cpu_time_of_requests() -> None:
    at_ns = np.array([WINDOW[0], WINDOW[1]])

    def counted(engine: str, entity: str, **growths: float) -> dict[Key, Series]:
        series = {name: Series(at_ns, np.array([0.0, growth])) for name, growth in growths.items()}
        return {Key("host", engine, entity, name): each for name, each in series.items()}

    # In 3 s, the initiator polls in 2 of its 2.4 s of CPU time. The array does not poll.
    counters = Counters(
        counted("initiator", "process", cpu_user_ns=1.4e9, cpu_system_ns=1e9, busy_poll_ns=2e9)
        | counted("array", "process", cpu_user_ns=0.6e9, cpu_system_ns=0.3e9)
        | counted("initiator", "vms", reads=3e4, writes=0.0)
    )
    repetition = cast(Any, SimpleNamespace(counters=counters, window=WINDOW))
    assert cpu_rate(counters, WINDOW, "initiator") == pytest.approx(0.4e9 / 3)
    assert math.isnan(cpu_rate(counters, WINDOW, "fabric"))
    values = of_repetition(repetition, Latencies.none())
    assert values["initiator_cpu_us_per_io"] == pytest.approx(0.4e6 / 3e4)
    assert values["array_cpu_us_per_io"] == pytest.approx(0.9e6 / 3e4)
    assert equipment.of_repetition(repetition, {}, [], 1e4)["initiator_cpu_percent"] == pytest.approx(40 / 3)


def test_rate_by_latency_is_not_used_for_many_requests() -> None:
    """199 requests in 12.2 s are few, 201 in 12.3 s are many."""
    assert by_latency(VALUES, (0, 12_200_000_000)) != {}
    assert by_latency(VALUES, (0, 12_300_000_000)) == {}
