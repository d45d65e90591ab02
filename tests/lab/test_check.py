"""Verdicts and caveats of link checks. `test_lab.py` measures links."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hakaru.engine.process import LateStartError
from hakaru.lab.check import LinkCheck, links
from hakaru.lab.check.links import BRIEF, Effort
from hakaru.lab.plan import tcp_payload_bits_per_s


def check(to_array: float, from_array: float, asked_rate: int | None = 10**9) -> LinkCheck:
    """Return a check of a path that carried these multiples of 1 Gbit/s on the wire."""
    gigabit = tcp_payload_bits_per_s(10**9, 1500)
    return LinkCheck(
        hosts=("host-1",),
        array="array",
        path=0,
        mtu=1500,
        asked_bits_per_s=asked_rate,
        to_array_payload_bits_per_s=to_array * gigabit,
        from_array_payload_bits_per_s=from_array * gigabit,
        rtt_us_p50=60,
        rtt_us_p99=90,
    )


@pytest.mark.parametrize(
    ("to_array", "from_array", "error", "as_asked"),
    [(1, 1, 0, True), (0.991, 1.005, -0.009, True), (1, 0.989, -0.011, False), (1.011, 0.995, 0.011, False)],
)
def test_check_judges_the_worse_direction(to_array: float, from_array: float, error: float, as_asked: bool) -> None:
    measured = check(to_array, from_array)
    assert measured.error == pytest.approx(error)
    assert measured.as_asked is as_asked
    assert bool(measured.caveats()) is not as_asked


def test_link_off_its_rate_is_a_caveat_with_both_rates() -> None:
    (caveat,) = check(0.5, 1).caveats()
    assert caveat.to_json() == {
        "caveat": "link_off_rate",
        "severity": "warning",
        "values": {"link": "host-1 – array.0", "measured": "500.0 Mbit/s", "asked": "1 Gbit/s", "percent": 50.0},
    }


def test_unlimited_link_passes_the_check_at_any_rate() -> None:
    measured = check(20, 30, asked_rate=None)
    assert measured.error is None
    assert measured.as_asked
    assert measured.caveats() == []
    assert measured.describe()["asked_bits_per_s"] is None


def test_path_is_measured_again_after_a_late_start(monkeypatch: pytest.MonkeyPatch) -> None:
    efforts: list[Effort] = []
    results: list[LinkCheck | None] = [None, None, check(0.5, 0.5), check(1, 1)]

    async def measure(lab: Any, round_: Any, portal: str, effort: Effort) -> LinkCheck:
        efforts.append(effort)
        found = results.pop(0)
        if found is None:
            raise LateStartError("too late", "try again")
        return found

    monkeypatch.setattr(links, "_measure_path", measure)
    found = asyncio.run(links._check_path(None, None, "", BRIEF))  # type: ignore[arg-type]
    # Late starts are no measurements: the second measurement takes longer than the first.
    assert found.attempts == 2 and found.as_asked and results == []
    assert [effort == BRIEF for effort in efforts] == [True, True, True, False]
