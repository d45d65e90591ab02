"""Copies over time: the figures continue until the last host has ended its copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hakaru.analysis.counters import Counters
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.copy.analysis.points import timeline
from hakaru.store import Histograms, Samples

from tests.analysis.run_files import SECOND

START = 1_000 * SECOND
MIB = 1 << 20


@dataclass(frozen=True)
class Hops:
    """A path without switches."""

    narrowest: Any = None


def repetition(mib_per_s: dict[str, list[float]]) -> Repetition:
    """Return a repetition. `mib_per_s`: host → the rate of each second until its engine ends."""
    samples, seconds = Samples(), max(len(rates) for rates in mib_per_s.values())
    for host, rates in mib_per_s.items():
        for second in range(len(rates) + 1):
            written = sum(rates[:second]) * MIB
            samples.add(host, "backup", START + second * SECOND, {"backups": {"written_bytes": written}})
    counters, window = Counters.of_table(samples.table()), (START, START + seconds * SECOND)
    return Repetition("p01", 1, 1, "done", None, window, "emulated", (), counters, Histograms().table())


@pytest.mark.parametrize("first", ["host-1", "host-2"])
def test_rate_over_time_continues_until_the_last_host_has_ended(first: str) -> None:
    other = {"host-1": "host-2", "host-2": "host-1"}[first]
    copies = repetition({first: [10.0, 20.0], other: [5.0, 5.0, 30.0, 40.0]})
    over = timeline(copies, cast(Any, Hops()))
    assert over["t_s"] == pytest.approx([1, 2, 3, 4])
    assert over["mib_per_s"] == pytest.approx([15, 25, 30, 40])
    assert over["measured_s"] == [0.0, 4.0]
