"""Rates and latencies of a load of VMs over time, for figures."""

from __future__ import annotations

import numpy as np

from hakaru.analysis.counters import Series
from hakaru.analysis.estimate import finite
from hakaru.analysis.latency import per_interval_ms
from hakaru.analysis.run_data import Repetition
from hakaru.kinds.vms.entities import TOTAL


def of_repetition(repetition: Repetition) -> dict[str, list[float | None]]:
    """Rates and latencies of all hosts between the samples of the first host, over the whole
    repetition. Seconds count from the start of the measuring phase.
    """
    counters, start = repetition.counters, repetition.window[0]
    names = ("reads", "writes", "read_bytes", "write_bytes", "read_latency_ns_sum", "write_latency_ns_sum")
    series_by_name: dict[str, list[Series]] = {
        n: [s for _, s in counters.select(engine="initiator", entity=TOTAL, name=n)] for n in names
    }
    if not series_by_name["reads"]:
        return {}
    instants = np.unique(series_by_name["reads"][0].at_ns)
    # After the measuring phase the last requests complete, which is no steady rate.
    instants = instants[instants <= repetition.window[1] + (repetition.window[1] - start) // 100]
    if len(instants) < 2:
        return {}
    steps = {
        n: np.diff(np.sum([[s.at(t) for t in instants] for s in series], axis=0))
        for n, series in series_by_name.items()
        if series
    }
    seconds = np.diff(instants) / 1e9
    requests = steps["reads"] + steps["writes"]
    with np.errstate(invalid="ignore", divide="ignore"):
        latency = (steps["read_latency_ns_sum"] + steps["write_latency_ns_sum"]) / requests / 1e6
    p99 = per_interval_ms(repetition.histograms, 99.0, TOTAL, [int(t) for t in instants])
    return {
        "t_s": [float(t) for t in (instants[1:] - start) / 1e9],
        "iops": [finite(v) for v in requests / seconds],
        "mb_per_s": [finite(v) for v in (steps["read_bytes"] + steps["write_bytes"]) / seconds / 1e6],
        "latency_ms_mean": [finite(v) for v in latency],
        "latency_ms_p99": [finite(v) for v in p99],
        "measured_s": [0.0, (repetition.window[1] - start) / 1e9],
    }
