"""Checks of repetitions and points that apply to every kind of load. Each returns caveats; nothing
is corrected or dropped silently. Checks of a single kind are in the package of that kind.

Limits (docs/methodology/checks.md):
    machine           under 95 % of its CPU used, under 2 % taken by the hypervisor
    repetitions       three or more, coefficient of variation at most 5 %
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

from hakaru.analysis.counters import Counters
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.utilisation import Use
from hakaru.caveats import Caveat

STOLEN_MAX_PERCENT = 2.0
CV_MAX = 0.05
REPETITIONS_MIN = 3


def machine(counters: Counters, window: tuple[int, int], use: dict[str, Use]) -> Iterator[Caveat]:
    """Check that this machine had CPU to spare, and that the hypervisor did not take it."""
    cpu = use.get("cpu/machine")
    if cpu is not None and cpu.percent > limit_of("cpu/machine"):
        yield Caveat("machine_saturated", {"percent": cpu.percent})
    kinds = ("user", "system", "irq", "softirq", "steal", "idle", "iowait")
    rates = {k: counters.total_rate(window, engine="watch", entity="machine", name=f"{k}_ns") for k in kinds}
    total = sum(r for r in rates.values() if math.isfinite(r))
    if total > 0 and math.isfinite(rates["steal"]) and 100 * rates["steal"] / total > STOLEN_MAX_PERCENT:
        yield Caveat("host_stolen", {"percent": 100 * rates["steal"] / total})


def dropped(counters: Counters, window: tuple[int, int]) -> Iterator[Caveat]:
    """Check that no interface of the lab dropped frames during the measurement. At most one caveat
    is returned.
    """
    for name in ("rx_dropped", "tx_dropped"):
        for key, series in counters.select(engine="watch", entity="nic/", name=name):
            frames = round(series.increase(*window))
            if frames > 0:
                yield Caveat(
                    "frames_lost",
                    {"frames": frames, "link": f"{key.node} {key.entity.removeprefix('nic/')} {name[:2]}"},
                )
                return


def of_point(values: dict[str, list[float]], planned: int, failed: int, metric: str = "iops") -> list[Caveat]:
    """Check a point's repetitions. `values`: metric → one value per repetition that gave a result.
    `metric` is the one whose variation is checked.
    """
    rates = [v for v in values.get(metric, []) if math.isfinite(v)]
    caveats = []
    if failed:
        caveats.append(Caveat("repetition_failed", {"failed": failed, "planned": planned}))
    if not rates:
        return [*caveats, Caveat("no_data")]
    if len(rates) < REPETITIONS_MIN:
        caveats.append(Caveat("few_repetitions", {"n": len(rates)}))
    if len(rates) > 1 and np.mean(rates) > 0:
        spread = float(stats.variation(rates, ddof=1))
        if spread > CV_MAX:
            caveats.append(Caveat("noisy", {"percent": 100 * spread}))
    return caveats
