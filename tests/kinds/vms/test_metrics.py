"""Rates by latency: what requests that are few and long come to."""

from __future__ import annotations

import math

import pytest
from hakaru.kinds.vms.analysis.metrics import RATES, by_latency

# Eight requests of 4 MiB outstanding, each of which takes half a second: 16 a second. In 3 s 49
# were counted.
COUNTED = {"iops": 49 / 3, "mb_per_s": 49 / 3 * 4.194304, "outstanding_mean": 8.0, "latency_ms_mean": 500.0}
NONE = {"read_iops": 0.0, "read_mb_per_s": 0.0, "mib_per_s": 49 / 3 * 4, "errors_per_s": 0.0}
VALUES = COUNTED | NONE | {"write_iops": COUNTED["iops"], "write_mb_per_s": COUNTED["mb_per_s"]}
WINDOW = (10 * 10**9, 13 * 10**9)


def test_rates_are_requests_outstanding_over_latency() -> None:
    found = by_latency(VALUES, WINDOW)
    assert tuple(found) == RATES
    assert found["iops"] == pytest.approx(16) and found["mb_per_s"] == pytest.approx(16 * 4.194304)
    assert found["mib_per_s"] == pytest.approx(64) and found["read_iops"] == 0


@pytest.mark.parametrize(
    "changed", [{"latency_ms_mean": math.nan}, {"iops": 0.0}, {"errors_per_s": 0.1}, {"outstanding_mean": math.nan}]
)
def test_no_rate_by_latency_where_requests_failed_or_none_ended(changed: dict[str, float]) -> None:
    assert by_latency(VALUES | changed, WINDOW) == {}


def test_many_requests_are_counted() -> None:
    """199 in 12.2 s, 201 in 12.3 s."""
    assert by_latency(VALUES, (0, 12_200_000_000)) != {}
    assert by_latency(VALUES, (0, 12_300_000_000)) == {}
