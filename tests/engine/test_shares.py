"""Shares of the array with real sessions: rates in proportion to the shares, and no limit of a
class while the other one is idle.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.engine.test_caps import measured, vm
from tests.peers.array import MIB, array, lu

pytestmark = pytest.mark.alone

COMMAND_US = 2000
"""Time of the controller for a command, which is the narrowest part of the array."""
SHARES = {
    "in_flight": 4,
    "classes": [{"name": "large", "lun": 0, "share": 300}, {"name": "small", "lun": 1, "share": 100}],
}
MODEL = {
    "kind": "array",
    "controller": {"command_us": COMMAND_US, "data_us_per_mib": 0},
    "groups": [
        {
            "raid": "raid0",
            "drives": 1,
            "stripe_unit_bytes": 65536,
            "drive": {"kind": "preset", "name": "nvme-ssd-2000"},
        }
    ],
}


def placed(lun: int) -> dict[str, Any]:
    return lu(lun, 64 * MIB, placement={"group": 0, "offset_bytes": lun * 64 * MIB})


Measured = tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]


def rates_and_counters(shares: dict[str, Any], *vms: dict[str, Any]) -> Measured:
    """Run the VMs against an array with two LUs; return rates by VM, and the array's counters."""
    with array(placed(0), placed(1), model=MODEL, shares=shares) as a:
        for number, each in enumerate(vms):
            each["destination"]["portal"], each["group"] = a.portal, number
        return measured(list(vms), [each["name"] for each in vms]), a.engine.counters()


@pytest.fixture(scope="module")
def found() -> dict[str, Measured]:
    """Results of three arrays at the same time. Each serves 500 accesses per second, so they leave
    the processors idle most of the time.
    """
    equal = {"in_flight": 4, "classes": [{"name": c, "lun": lun, "share": 100} for lun, c in enumerate("ab")]}
    # An access costs its bytes and 16 KiB, so one of 48 KiB costs as much as 3.2 of 4 KiB.
    long, short = vm("", "long", 0, size_bytes=48 << 10), vm("", "short", 1)
    with ThreadPoolExecutor() as threads:
        begun = {
            "rates": threads.submit(rates_and_counters, SHARES, vm("", "large", 0), vm("", "small", 1)),
            "costs": threads.submit(rates_and_counters, equal, long, short),
            "idle": threads.submit(rates_and_counters, SHARES, vm("", "small", 1)),
        }
        return {name: future.result() for name, future in begun.items()}


def test_rates_are_in_proportion_to_the_shares(found: dict[str, Measured]) -> None:
    rates, counters = found["rates"]
    assert rates["large"]["iops"] / rates["small"]["iops"] == pytest.approx(3, rel=0.03)
    for lun, name in enumerate(("large", "small")):
        share = counters[f"share/{name}"]
        assert share["accesses"] == counters[f"lu/{lun}"]["reads"] + counters[f"lu/{lun}"]["writes"]
        assert share["waiting_now"] == 0


def test_costs_and_not_accesses_are_in_proportion_to_the_shares(found: dict[str, Measured]) -> None:
    rates, _ = found["costs"]
    assert rates["short"]["iops"] / rates["long"]["iops"] == pytest.approx(64 / 20, rel=0.03)


def test_class_has_the_whole_rate_while_the_other_one_is_idle(found: dict[str, Measured]) -> None:
    rates, _ = found["idle"]
    # Its share beside the other one is a quarter. A machine that wakes the array up late takes some
    # of the rate, because only four accesses are in flight.
    assert 0.5 * 1e6 / COMMAND_US < rates["small"]["iops"] < 1.02 * 1e6 / COMMAND_US
