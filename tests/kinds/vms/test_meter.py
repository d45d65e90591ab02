"""The line that follows each load."""

from __future__ import annotations

import pytest
from hakaru.kinds.vms.entities import TOTAL
from hakaru.kinds.vms.meter import result_of
from hakaru.store import Histograms, Samples

SECOND = 10**9
WINDOW = (10 * SECOND, 13 * SECOND)
REQUEST = 12 << 20
NOTHING = dict.fromkeys(("reads", "read_bytes", "read_latency_ns_sum", "errors"), 0.0)


def samples() -> Samples:
    """One write outstanding, of 1.2 s each: 2 of the 2.5 writes of 3 s have ended."""
    found = Samples()
    begin = NOTHING | dict.fromkeys(("writes", "write_bytes", "write_latency_ns_sum", "outstanding_ns"), 0.0)
    end = {"writes": 2, "write_bytes": 2 * REQUEST, "write_latency_ns_sum": 2.4e9, "outstanding_ns": 3e9}
    for at_ns, counters in zip(WINDOW, (begin, NOTHING | end), strict=True):
        found.add("host", "initiator", at_ns, {TOTAL: counters})
    return found


@pytest.mark.parametrize(("has_closed_form", "per_s"), [(True, 1 / 1.2), (False, 2 / 3)])
def test_rate_of_few_long_requests_follows_from_their_latency_as_in_the_report(
    has_closed_form: bool, per_s: float
) -> None:
    rates = result_of(WINDOW, samples(), Histograms(), has_closed_form=has_closed_form)
    assert rates.values["mb_per_s"] == pytest.approx(per_s * REQUEST / 1e6, abs=1e-3)
    assert rates.values["iops"] == pytest.approx(per_s, abs=0.05)
    assert rates.values["latency_ms_p99"] is None
