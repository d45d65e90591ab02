"""Rates of a load by VMs: live, and over a whole repetition."""

from __future__ import annotations

import math

from hakaru.analysis.counters import Counters
from hakaru.analysis.latency import Latencies, merge, percentiles_ms
from hakaru.engine import contract
from hakaru.kinds.vms.analysis import metrics
from hakaru.kinds.vms.entities import TOTAL
from hakaru.run.meter import HostRates, Meter, Rates
from hakaru.store import Histograms, Samples
from hakaru.wording import number


class VmsMeter(Meter):
    """Requests, bytes and the 99th percentile of latency over all hosts."""

    def __init__(self, hosts: int) -> None:
        self._hosts = HostRates(hosts, TOTAL, ["reads", "writes"], ["read_bytes", "write_bytes"])
        self._histograms: list[str] = []

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """As `Meter.add`."""
        self._histograms += [h.hdr for h in sample.histograms if h.entity == TOTAL]
        rates = self._hosts.add(node, sample)
        if rates is None:
            return None
        iops, bytes_per_s = rates
        p99 = _p99(self._histograms)
        self._histograms.clear()
        return rates_of(iops, bytes_per_s / 1e6, p99)


def rates_of(iops: float, mb_per_s: float, p99_ms: float | None) -> Rates:
    """Return the rates as text and as values. `p99_ms` is None if no request has finished."""
    p99 = f", p99 {number(p99_ms)} ms" if p99_ms is not None else ""
    values = {
        "iops": round(iops, 1),
        "mb_per_s": round(mb_per_s, 3),
        "latency_ms_p99": None if p99_ms is None else round(p99_ms, 3),
    }
    return Rates(f"{number(round(iops))} IOPS, {number(mb_per_s)} MB/s{p99}", values)


def result_of(window: tuple[int, int], samples: Samples, histograms: Histograms, *, has_closed_form: bool) -> Rates:
    """The rates of a repetition over its measuring phase. `has_closed_form`: all requests are of
    one kind and size, and their number outstanding is constant, so the rate of few, long requests
    follows from their latency (`metrics.by_latency`), as in the report. If none ended, the rate is
    0 here, and the report derives it from the bytes that TCP delivered.
    """
    values = metrics.counted(Counters.of_table(samples.table()), window)
    if has_closed_form:
        values |= metrics.by_latency(values, window)
    iops, mb_per_s = (values[name] if math.isfinite(values[name]) else 0.0 for name in ("iops", "mb_per_s"))
    (p99,) = percentiles_ms(Latencies.of_table(histograms.table(), window, TOTAL).all(), [99.0])
    return rates_of(iops, mb_per_s, p99 if math.isfinite(p99) else None)


def _p99(encoded: list[str]) -> float | None:
    (value,) = percentiles_ms(merge(encoded), [99.0])
    return value if math.isfinite(value) else None
