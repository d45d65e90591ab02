"""Latency distributions: HDR histograms are merged first, and percentiles computed from the sum."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hdrh.histogram import HdrHistogram

from hakaru.errors import UsageError

LOWEST_NS, HIGHEST_NS, DIGITS = 1, 3_600_000_000_000, 3
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
CURVE = (
    0.0,
    1.0,
    2.0,
    5.0,
    *(float(p) for p in range(10, 95, 5)),
    95.0,
    97.0,
    98.0,
    99.0,
    99.5,
    99.9,
    99.95,
    99.99,
    100.0,
)
NAMES = {"read": "read_latency_ns", "write": "write_latency_ns"}


def empty() -> HdrHistogram:
    """A histogram with room for 1 ns to 1 h at three significant digits."""
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)


def merge(encoded: Iterable[str]) -> HdrHistogram:
    """The sum of HdrHistogram V2 histograms (deflated, base64). Raises `UsageError` for invalid
    text.
    """
    total = empty()
    for text in encoded:
        try:
            histogram = HdrHistogram.decode(text)
        except Exception as e:  # hdrh raises many kinds, of several libraries
            raise UsageError(f"a latency histogram cannot be read: {e}", "the file was changed after the run") from e
        _add(total, histogram)
    return total


def _add(total: HdrHistogram, histogram: HdrHistogram) -> None:
    """Add a histogram like `HdrHistogram.add`, which loops over every counter in Python if the two
    differ in length.

    The engine truncates a histogram after its last value. With equal precision, the counters of
    both have the same order, so that arrays can be added.
    """
    same_precision = (total.unit_magnitude, total.sub_bucket_count) == (
        histogram.unit_magnitude,
        histogram.sub_bucket_count,
    )
    sums, counts = np.ctypeslib.as_array(total.counts), np.ctypeslib.as_array(histogram.counts)
    if not same_precision or len(counts) > len(sums):
        total.add(histogram)  # records each value again, or fails if it does not fit
        return
    sums[: len(counts)] += counts
    total.total_count += histogram.get_total_count()
    total.max_value = max(total.max_value, histogram.get_max_value())
    total.min_value = min(total.get_min_value(), histogram.get_min_value())


@dataclass(frozen=True)
class Latencies:
    """Separate histograms of reads and writes, of one measuring phase or merged from several."""

    read: HdrHistogram
    write: HdrHistogram

    @classmethod
    def none(cls) -> Latencies:
        """Return empty histograms."""
        return cls(empty(), empty())

    @classmethod
    def of_table(cls, table: pa.Table, window: tuple[int, int], entity: str) -> Latencies:
        """Latencies of an entity over the whole measuring phase. If an engine did not report those,
        the latencies of the intervals that end inside the window.
        """
        rows = [r for r in table.to_pylist() if r["entity"] == entity] if table.num_rows else []
        whole_phase = [r for r in rows if r["at_ns"] is None]
        chosen = whole_phase or [r for r in rows if window[0] < r["at_ns"] <= window[1]]
        return cls(*(merge(r["hdr"] for r in chosen if r["name"] == NAMES[kind]) for kind in ("read", "write")))

    def all(self) -> HdrHistogram:
        """Reads and writes together."""
        both = empty()
        both.add(self.read)
        both.add(self.write)
        return both

    def add(self, other: Latencies) -> None:
        """Merge in the latencies of `other`."""
        self.read.add(other.read)
        self.write.add(other.write)


def percentiles_ms(histogram: HdrHistogram, percents: Iterable[float]) -> list[float]:
    """Milliseconds at each percentile; NaN for an empty histogram.

    Equivalent to `HdrHistogram.get_value_at_percentile`, which loops over 23 000 counters in Python
    for each percentile. Here the counters are summed once.
    """
    wanted = list(percents)
    total = histogram.get_total_count()
    if total == 0:
        return [float("nan")] * len(wanted)
    reached = np.cumsum(np.ctypeslib.as_array(histogram.counts))
    counts = [max(1, int(min(p, 100.0) / 100 * total + 0.5)) for p in wanted]
    indices = np.searchsorted(reached, counts)
    values = [histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(i))) for i in indices]
    return [min(v, histogram.get_max_value()) / 1e6 for v in values]


def total_ns(histogram: HdrHistogram) -> int:
    """The sum of all values, each counted as the middle of its counter's range.

    Equivalent to `HdrHistogram.get_mean_value` times the number of values, which visits 23 000
    counters in Python. Here those that are 0 are left out at once.
    """
    counts = np.ctypeslib.as_array(histogram.counts)
    total = 0
    for index in np.flatnonzero(counts):
        lowest = histogram.get_value_from_index(int(index))
        total += int(counts[index]) * (lowest + (histogram.get_highest_equivalent_value(lowest) - lowest + 1) // 2)
    return total


def curve(histogram: HdrHistogram) -> list[list[float]]:
    """`[[percent, milliseconds], …]` at fixed percentiles; empty for an empty histogram."""
    if histogram.get_total_count() == 0:
        return []
    return [[p, ms] for p, ms in zip(CURVE, percentiles_ms(histogram, CURVE), strict=True)]


def per_interval_ms(table: pa.Table, percent: float, entity: str, borders: Sequence[int]) -> list[float]:
    """Percentile over reads and writes of an entity on all nodes, in ms, in each interval between
    consecutive `borders` (ns, ascending); NaN for an interval without requests.

    Every engine takes its samples at instants of its own, so intervals of two engines never have
    the same ends. The histogram of an interval counts in the interval of `borders` that contains
    its middle.
    """
    encoded: dict[tuple[str, str], dict[int, list[str]]] = {}
    for row in table.to_pylist() if table.num_rows else []:
        if row["entity"] == entity and row["at_ns"] is not None and row["name"] in NAMES.values():
            of_engine = encoded.setdefault((row["node"], row["engine"]), {})
            of_engine.setdefault(int(row["at_ns"]), []).append(row["hdr"])
    merged: list[list[str]] = [[] for _ in borders[1:]]
    for of_engine in encoded.values():
        ends = sorted(of_engine)
        # An engine's first sample only begins its first interval.
        for begin, end in pairwise([ends[0], *ends]):
            place = bisect_left(borders, begin + (end - begin) // 2) - 1
            if 0 <= place < len(merged):
                merged[place] += of_engine[end]
    return [percentiles_ms(merge(texts), [percent])[0] for texts in merged]
