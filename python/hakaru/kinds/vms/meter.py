"""Rates of a load by VMs: live, and over a whole repetition."""

from __future__ import annotations

import math

from hakaru.analysis.counters import Counters
from hakaru.analysis.latency import Latencies, merge, percentiles_ms
from hakaru.engine import contract
from hakaru.kinds.vms.entities import TOTAL
from hakaru.run.meter import Meter, Rates, growth
from hakaru.store import Histograms, Samples
from hakaru.wording import number


class VmsMeter(Meter):
    """Requests, bytes and the 99th percentile of latency over all hosts."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._last: dict[str, contract.Sample] = {}
        self._fresh: dict[str, tuple[float, float]] = {}
        self._histograms: list[str] = []

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """Add a sample. Returns the rates of the last interval once every host has sent its
        sample.
        """
        last = self._last.get(node)
        self._last[node] = sample
        if last is not None and sample.at_ns > last.at_ns:
            seconds = (sample.at_ns - last.at_ns) / 1e9
            self._fresh[node] = (
                growth(last, sample, TOTAL, "reads", "writes") / seconds,
                growth(last, sample, TOTAL, "read_bytes", "write_bytes") / seconds,
            )
        self._histograms += [h.hdr for h in sample.histograms if h.entity == TOTAL]
        if len(self._fresh) < self._hosts:
            return None
        fresh = self._fresh.values()
        rates = rates_of(sum(r for r, _ in fresh), sum(b for _, b in fresh) / 1e6, _p99(self._histograms))
        self._fresh.clear()
        self._histograms.clear()
        return rates


def rates_of(iops: float, mb_per_s: float, p99_ms: float | None) -> Rates:
    """Return the rates as text and as values. `p99_ms` is None if no request has finished."""
    p99 = f", p99 {number(p99_ms)} ms" if p99_ms is not None else ""
    values = {
        "iops": round(iops, 1),
        "mb_per_s": round(mb_per_s, 3),
        "latency_ms_p99": None if p99_ms is None else round(p99_ms, 3),
    }
    return Rates(f"{number(round(iops))} IOPS, {number(mb_per_s)} MB/s{p99}", values)


def result_of(window: tuple[int, int], samples: Samples, histograms: Histograms) -> Rates:
    """The rates of a repetition over its measuring phase, as in the report."""
    counters = Counters.of_table(samples.table())
    rate = {
        name: counters.total_rate(window, engine="initiator", entity=TOTAL, name=name)
        for name in ("reads", "writes", "read_bytes", "write_bytes")
    }
    (p99,) = percentiles_ms(Latencies.of_table(histograms.table(), window, TOTAL).all(), [99.0])
    finite = {name: value if math.isfinite(value) else 0.0 for name, value in rate.items()}
    moved = finite["read_bytes"] + finite["write_bytes"]
    return rates_of(finite["reads"] + finite["writes"], moved / 1e6, p99 if math.isfinite(p99) else None)


def _p99(encoded: list[str]) -> float | None:
    (value,) = percentiles_ms(merge(encoded), [99.0])
    return value if math.isfinite(value) else None
