"""Rates by latency, for few and long requests."""

from __future__ import annotations

import math

import pytest
from hakaru.kinds.vms.analysis.metrics import RATES, by_latency

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


def test_rate_by_latency_is_not_used_for_many_requests() -> None:
    """199 requests in 12.2 s are few, 201 in 12.3 s are many."""
    assert by_latency(VALUES, (0, 12_200_000_000)) != {}
    assert by_latency(VALUES, (0, 12_300_000_000)) == {}
