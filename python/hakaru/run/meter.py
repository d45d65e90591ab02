"""What a load does now: the samples of all hosts as one rate, about once a second. For display; stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hdrh.histogram import HdrHistogram

from hakaru.engine import contract

JOB = "backup/"


@dataclass(frozen=True)
class Now:
    """The last interval over all hosts. `latency_ms_p99` is None where no request ended, and for copies."""

    iops: float
    mb_per_s: float
    latency_ms_p99: float | None
    copied_percent: Mapping[str, float] | None = None
    """Job → how much of its image was copied; None: this is no copy."""


class Meter:
    """Turns the samples of all hosts into `Now`, once every host was heard again. `images`: bytes of each job."""

    def __init__(self, hosts: int, images: int | None = None) -> None:
        self._hosts = hosts
        self._image_bytes = images
        self._last: dict[str, contract.Sample] = {}
        self._fresh: dict[str, tuple[float, float]] = {}
        self._histogram = _empty()

    def add(self, node: str, sample: contract.Sample) -> Now | None:
        """`Now` once every host has been heard since the last one."""
        last = self._last.get(node)
        self._last[node] = sample
        if last is not None and sample.at_ns > last.at_ns:
            seconds = (sample.at_ns - last.at_ns) / 1e9
            self._fresh[node] = (
                _growth(last, sample, "vms", "reads", "writes") / seconds,
                # Of a copy what arrives counts, once.
                (
                    _growth(last, sample, "vms", "read_bytes", "write_bytes")
                    + _growth(last, sample, "backups", "written_bytes")
                )
                / seconds,
            )
        for histogram in sample.histograms:
            if histogram.entity == "vms":
                self._histogram.add(HdrHistogram.decode(histogram.hdr))
        if len(self._fresh) < self._hosts:
            return None
        p99 = self._histogram.get_value_at_percentile(99) / 1e6 if self._histogram.total_count else None
        rates = self._fresh.values()
        now = Now(sum(r for r, _ in rates), sum(b for _, b in rates) / 1e6, p99, self._copied())
        self._fresh.clear()
        self._histogram = _empty()
        return now

    def _copied(self) -> dict[str, float] | None:
        if self._image_bytes is None:
            return None
        return {
            entity.removeprefix(JOB): 100 * counters.get("read_bytes", 0.0) / self._image_bytes
            for sample in self._last.values()
            for entity, counters in sample.counters.items()
            if entity.startswith(JOB)
        }


def _empty() -> Any:
    return HdrHistogram(1, 3_600_000_000_000, 3)


def _growth(last: contract.Sample, sample: contract.Sample, entity: str, *names: str) -> float:
    before, after = last.counters.get(entity, {}), sample.counters.get(entity, {})
    return sum(after.get(name, 0.0) - before.get(name, 0.0) for name in names)
