"""Checks of repetitions and points that apply to every kind of load. Each returns caveats; nothing
is corrected or dropped silently. Checks of a single kind are in the package of that kind.

Limits (docs/methodology/checks.md):
    machine           under 95 % of its CPU used, under 2 % taken by the hypervisor
    repetitions       three or more, coefficient of variation at most 5 %
    samples           at least two intervals in the measuring phase
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hakaru.analysis.counters import Counters
from hakaru.analysis.rules.limits import MACHINE, is_machine, limit_of
from hakaru.analysis.utilisation import Use, machines_of, stolen_percent
from hakaru.caveats import Caveat

STOLEN_MAX_PERCENT = 2.0
CV_MAX = 0.05
REPETITIONS_MIN = 3
INTERVALS_MIN = 2
KERNEL_READ_BYTES_MAX = 1 << 20
"""A kernel that is an initiator reads the partition table of each disk that it finds: a few
pages.
"""
SAMPLED = ("array", "watch", "fabric")
"""Engines that keep to their interval when the measuring phase begins and ends."""


def machine(counters: Counters, window: tuple[int, int], use: dict[str, Use]) -> Iterator[Caveat]:
    """Check that every machine had CPU to spare, and that its hypervisor did not take it. At most
    one caveat of each name is returned, of the machine that is worst.
    """
    busy = {resource: used.percent for resource, used in use.items() if is_machine(resource)}
    worst = max(busy, key=lambda resource: busy[resource], default=None)
    if worst is not None and busy[worst] > limit_of(worst):
        yield saturated(worst, busy[worst])
    stolen = max((stolen_percent(counters, window, node) for node in machines_of(counters)), default=0.0)
    if stolen > STOLEN_MAX_PERCENT:
        yield Caveat("host_stolen", {"percent": stolen})


def saturated(resource: str, percent: float) -> Caveat:
    """The caveat of a machine whose CPUs were at their limit: this one, or a load host."""
    host = resource.removeprefix(MACHINE).removeprefix("/")
    values = {"percent": percent}
    return Caveat("load_host_saturated", {"host": host} | values) if host else Caveat("machine_saturated", values)


def sampled(counters: Counters, window: tuple[int, int]) -> Iterator[Caveat]:
    """Check that the engines beside the loads were sampled often enough for the measuring phase.
    Loads also sample at its start and at its end. At most one caveat is returned, of the engine
    with the longest interval.
    """
    intervals = [
        (series.interval_ns, key.node)
        for engine in SAMPLED
        for key, series in counters.select(engine=engine, entity="process", name="cpu_user_ns")
    ]
    interval, node = max(intervals, default=(0.0, ""))
    if interval * INTERVALS_MIN > window[1] - window[0]:
        seconds = {"interval_s": interval / 1e9, "window_s": (window[1] - window[0]) / 1e9}
        yield Caveat("sampled_rarely", {"node": node} | seconds)


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
        spread = float(np.std(rates, ddof=1) / np.mean(rates))
        if spread > CV_MAX:
            caveats.append(Caveat("noisy", {"percent": 100 * spread}))
    return caveats
