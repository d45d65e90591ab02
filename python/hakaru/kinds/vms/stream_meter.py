"""Rates of plain TCP streams: live, and over a whole repetition."""

from __future__ import annotations

import math

from hakaru.analysis.counters import Counters
from hakaru.engine import contract
from hakaru.kinds.vms.entities import STREAM_ENGINE, STREAMS
from hakaru.run.meter import HostRates, Meter, Rates
from hakaru.store import Samples
from hakaru.wording import number

DELIVERED = "acked_bytes"
"""The counter from which rates are computed: data that the receiver's kernel acknowledged."""


class StreamMeter(Meter):
    """Bytes delivered per second over all hosts."""

    def __init__(self, hosts: int) -> None:
        self._hosts = HostRates(hosts, STREAMS, [DELIVERED])

    def add(self, node: str, sample: contract.Sample) -> Rates | None:
        """As `Meter.add`."""
        rates = self._hosts.add(node, sample)
        return _rates(*rates) if rates else None


def result_of(window: tuple[int, int], samples: Samples) -> Rates:
    """The rate of a repetition over its measuring phase, as in the report."""
    rate = delivered_bytes_per_s(Counters.of_table(samples.table()), window)
    return _rates(rate if math.isfinite(rate) else 0.0)


def delivered_bytes_per_s(counters: Counters, window: tuple[int, int]) -> float:
    """Bytes per second that TCP delivered for all streams; NaN if nothing was counted."""
    return counters.total_rate(window, engine=STREAM_ENGINE, entity=STREAMS, name=DELIVERED)


def _rates(bytes_per_s: float) -> Rates:
    mb_per_s = bytes_per_s / 1e6
    return Rates(f"{number(mb_per_s)} MB/s", {"mb_per_s": round(mb_per_s, 3)})
