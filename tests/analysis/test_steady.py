"""Whether counts that scatter are called steady."""

from __future__ import annotations

import numpy as np
import pytest
from hakaru.analysis import steady
from hakaru.analysis.counters import Counters, Key, Series
from hakaru.caveats import Caveat


def of_reads(counters: Counters, window: tuple[int, int]) -> list[Caveat]:
    """The caveats of reads and writes together."""
    return [*steady.while_measured(counters, window, engine="initiator", entity="vms", names=("reads", "writes"))]


def counted(host_instants: dict[str, list[float]], count: dict[str, list[float]]) -> Counters:
    """Return counters of requests: instants in seconds, and totals at them."""
    series: dict[Key, Series] = {}
    for host, instants in host_instants.items():
        at_ns = np.round(np.array(instants) * 1e9).astype(np.int64)
        series[Key(host, "initiator", "vms", "reads")] = Series(at_ns, np.array(count[host]))
        series[Key(host, "initiator", "vms", "writes")] = Series(at_ns, np.zeros(len(at_ns)))
    return Counters(series)


def test_short_last_interval_is_no_sample() -> None:
    """An engine takes its last sample when it ends."""
    window = (0, 5_000_000_000)
    instants, reads = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.02], [0.0, 100.0, 200.0, 300.0, 400.0, 500.0, 500.0]
    assert of_reads(counted({"h": instants}, {"h": reads}), window) == []
    short = counted({"h": [0.0, 1.0, 2.0, 3.0, 4.0, 4.02]}, {"h": [*reads[:5], 400.0]})
    assert of_reads(short, window) == [Caveat("too_short_to_judge", {"samples": 4})]


def test_hosts_that_balance_each_other_are_steady_together() -> None:
    instants = [float(second) for second in range(11)]
    late = [second + 0.3 for second in instants]
    rising = [0.0, *np.cumsum(np.linspace(500, 1500, 10))]
    falling = [0.0, *np.cumsum(np.linspace(1500, 500, 10))]
    window = (0, 10_000_000_000)
    both = counted({"a": instants, "b": late}, {"a": rising, "b": falling})
    assert of_reads(both, window) == []
    (found,) = of_reads(counted({"a": instants}, {"a": rising}), window)
    assert found.name == "not_steady" and found.values["drift_percent"] > 50


def verdicts(rate_per_s: float, seconds: int, drift: float, runs: int = 2000) -> float:
    """Share of seeded runs with Poisson arrivals that are not steady. `drift`: growth of the rate
    over the measurement, as a share of its mean.
    """
    random = np.random.default_rng([round(rate_per_s), seconds, round(100 * drift)])
    growth = 1 + drift * ((np.arange(seconds) + 0.5) / seconds - 0.5)
    instants, window = [float(second) for second in range(seconds + 1)], (0, seconds * 1_000_000_000)
    not_steady = 0
    for _ in range(runs):
        reads = [0.0, *np.cumsum(random.poisson(rate_per_s * growth)).astype(float)]
        not_steady += any(c.name == "not_steady" for c in of_reads(counted({"h": instants}, {"h": reads}), window))
    return not_steady / runs


@pytest.mark.parametrize("seconds", [8, 20, 60])
@pytest.mark.parametrize("rate_per_s", [20, 30, 100, 400, 3000])
def test_a_constant_rate_is_called_unsteady_in_fewer_than_one_of_20_runs(rate_per_s: float, seconds: int) -> None:
    assert verdicts(rate_per_s, seconds, 0.0) < 0.05


@pytest.mark.parametrize(("rate_per_s", "seconds"), [(400, 8), (3000, 8), (150, 20), (50, 60), (3000, 60)])
def test_a_drift_of_30_percent_is_found_if_the_counts_can_show_it(rate_per_s: float, seconds: int) -> None:
    """A part of the window has 600 requests or more."""
    assert verdicts(rate_per_s, seconds, 0.3) > 0.95
