"""Whether a lab that misses its rates is a defect or was disturbed by the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hakaru.caveats import Caveat

from . import undisturbed


def lines_of(error_percent: float, *caveats: Caveat) -> list[dict[str, Any]]:
    check = {"error_percent": error_percent, "as_asked": abs(error_percent) <= 1}
    return [{"lab": {"checks": [check]}, "caveats": [caveat.to_json() for caveat in caveats]}]


OFF = Caveat("link_off_rate", {"link": "a", "measured": "931.4 Mbit/s", "asked": "1 Gbit/s"})


def host_takes(monkeypatch: pytest.MonkeyPatch, percent: int) -> None:
    ticks: Iterator[tuple[int, int]] = ((n * percent, n * 100) for n in range(1000))
    monkeypatch.setattr(undisturbed, "_ticks", lambda: next(ticks))


def test_first_lab_at_its_rates_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    host_takes(monkeypatch, 10)
    labs = iter([lines_of(-2.0, OFF), lines_of(0.2), lines_of(-3.0, OFF)])
    assert undisturbed.undisturbed_lines(lambda: next(labs)) == lines_of(0.2)


def test_lab_off_its_rates_is_excused_only_if_the_host_stole_cpu_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host_takes(monkeypatch, 0)
    assert undisturbed.undisturbed_lines(lambda: lines_of(-2.0, OFF)) == lines_of(-2.0, OFF), "for the test to fail on"
    host_takes(monkeypatch, 1)
    with pytest.raises(pytest.skip.Exception, match=r"1\.0% to 1\.0%"):
        undisturbed.undisturbed_lines(lambda: lines_of(-2.0, OFF))


@pytest.mark.parametrize("lab", [lines_of(-2.0), lines_of(-6.0, OFF)], ids=["not said", "far off"])
def test_stolen_cpu_excuses_neither_a_missing_caveat_nor_a_large_error(
    monkeypatch: pytest.MonkeyPatch, lab: list[dict[str, Any]]
) -> None:
    host_takes(monkeypatch, 10)
    with pytest.raises(AssertionError):
        undisturbed.undisturbed_lines(lambda: lab)
