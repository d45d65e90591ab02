"""Cumulative counters of one repetition, and how much they grew between two instants.

Only this module computes rates. All instants are nanoseconds of `CLOCK_MONOTONIC`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

Floats = np.ndarray[Any, np.dtype[np.float64]]
Instants = np.ndarray[Any, np.dtype[np.int64]]

SELDOM = 1.5
"""Ratio of two intervals from which on they are not the same: samples may be late."""


class Key(NamedTuple):
    """Identity of a counter."""

    node: str
    engine: str
    entity: str
    name: str


@dataclass(frozen=True)
class Series:
    """One counter (cumulative) or gauge over time, in the order of time."""

    at_ns: Instants
    value: Floats

    def at(self, instant_ns: int) -> float:
        """Value at an instant, interpolated linearly between samples; before the first and after
        the last sample, the value of that sample.
        """
        # Relative to the first sample: absolute nanoseconds do not fit a float's 53 bits exactly.
        relative = (self.at_ns - self.at_ns[0]).astype(float)
        return float(np.interp(int(instant_ns) - int(self.at_ns[0]), relative, self.value))

    def clip(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """The part of a window that samples cover; empty (start = end) if they do not cover it."""
        start, end = max(start_ns, int(self.at_ns[0])), min(end_ns, int(self.at_ns[-1]))
        return (start, end) if start < end else (start_ns, start_ns)

    def increase(self, start_ns: int, end_ns: int) -> float:
        """Growth within the covered part of the window."""
        start, end = self.clip(start_ns, end_ns)
        return self.at(end) - self.at(start) if start < end else 0.0

    def rate(self, start_ns: int, end_ns: int) -> float:
        """Growth per second over the covered part of the window; NaN if no part is covered."""
        start, end = self.clip(start_ns, end_ns)
        return (self.at(end) - self.at(start)) / ((end - start) / 1e9) if start < end else float("nan")

    def grown(self, start_ns: int, end_ns: int) -> float:
        """Growth from the last sample before the window (else the first) to the first after it.

        Nothing is interpolated, so counts of frames stay whole numbers.
        """
        before = max(0, int(np.searchsorted(self.at_ns, start_ns, side="right")) - 1)
        after = min(len(self.at_ns) - 1, int(np.searchsorted(self.at_ns, end_ns, side="left")))
        return float(self.value[after] - self.value[before])

    def highest_rate(self, start_ns: int, end_ns: int) -> float:
        """Highest growth per second between two consecutive samples within the window; NaN if there
        are none.

        An engine may take an extra sample soon after another one. Over less than half the usual
        interval, the growth is no rate.
        """
        inside = (self.at_ns >= start_ns) & (self.at_ns <= end_ns)
        lengths = np.diff(self.at_ns[inside]).astype(float)
        long = lengths > self.interval_ns / 2
        if not long.any():
            return float("nan")
        return float(np.max(np.diff(self.value[inside])[long] / lengths[long])) * 1e9

    @property
    def interval_ns(self) -> float:
        """The usual interval between samples; 0 for a single sample."""
        lengths = np.diff(self.at_ns)
        return float(np.median(lengths)) if len(lengths) else 0.0

    def grows(self) -> bool:
        """Whether the value never falls and time never runs backwards."""
        return bool(np.all(np.diff(self.at_ns) >= 0) and np.all(np.diff(self.value) >= 0))


def common_window(window: tuple[int, int], series: Sequence[Series]) -> tuple[int, int]:
    """The part of a window in which the growths of counters of several engines may be compared.

    Between samples, a counter is only known as if it grew evenly. If one is sampled less often than
    the others, the part begins and ends with a sample of it, so that nothing of before or after the
    window counts. It is the whole window if all are sampled alike, or if fewer than two of these
    samples are in it.
    """
    seldom = max(series, key=lambda each: each.interval_ns, default=None)
    if seldom is None or seldom.interval_ns < SELDOM * min(each.interval_ns for each in series):
        return window
    inside = seldom.at_ns[(seldom.at_ns >= window[0]) & (seldom.at_ns <= window[1])]
    return (int(inside[0]), int(inside[-1])) if len(inside) > 1 else window


class Counters:
    """All counters of one repetition, by key. `guests`: nodes whose place a guest took, so that the
    counters of a machine that their watches report are those of the guest.
    """

    def __init__(self, series: dict[Key, Series], guests: Collection[str] = ()) -> None:
        self._series = series
        self._by_name: dict[str, list[Key]] = {}
        for key in series:
            self._by_name.setdefault(key.name, []).append(key)
        self.guests = frozenset(guests)

    @classmethod
    def of_table(cls, table: pa.Table, guests: Collection[str] = ()) -> Counters:
        """Build from a table with the columns `node, engine, entity, name, at_ns, value`, in any
        order of rows. `guests`: as of the class.
        """
        if table.num_rows == 0:
            return cls({}, guests)
        columns = [table.column(c).combine_chunks().dictionary_encode() for c in Key._fields]
        codes = [np.asarray(c.indices) for c in columns]
        names = [c.dictionary.to_pylist() for c in columns]
        instants, value = table.column("at_ns").to_numpy(), table.column("value").to_numpy()
        order = np.lexsort((instants, *reversed(codes)))
        sorted_codes = np.stack([c[order] for c in codes])
        borders = np.flatnonzero(np.any(np.diff(sorted_codes, axis=1) != 0, axis=0)) + 1
        series = {}
        for rows in np.split(order, borders):
            key = Key(*(n[c[rows[0]]] for n, c in zip(names, codes, strict=True)))
            series[key] = Series(instants[rows].astype(np.int64), value[rows].astype(float))
        return cls(series, guests)

    def get(self, node: str, engine: str, entity: str, name: str) -> Series | None:
        """One counter, or None."""
        return self._series.get(Key(node, engine, entity, name))

    def select(
        self, *, engine: str | None = None, entity: str, name: str, node: str | None = None
    ) -> Iterator[tuple[Key, Series]]:
        """Counters of this name. An `entity` that ends in `/` selects all entities with that
        prefix.
        """
        is_prefix = entity.endswith("/")
        for key in self._by_name.get(name, ()):
            fits = key.entity.startswith(entity) if is_prefix else key.entity == entity
            if fits and engine in (None, key.engine) and node in (None, key.node):
                yield key, self._series[key]

    def keys(self, *, engine: str) -> Iterator[Key]:
        """Identities of all counters of an engine."""
        return (key for key in self._series if key.engine == engine)

    def nodes(self, engine: str) -> list[str]:
        """Nodes on which an engine of this kind sampled."""
        return sorted({k.node for k in self._series if k.engine == engine})

    def total_rate(self, window: tuple[int, int], *, engine: str | None = None, entity: str, name: str) -> float:
        """Sum of the rates of all selected counters; NaN if there are none."""
        rates = [s.rate(*window) for _, s in self.select(engine=engine, entity=entity, name=name)]
        return float(sum(rates)) if rates else float("nan")

    def last_total(self, *, engine: str, entity: str, name: str) -> float | None:
        """Sum of the last values of all selected counters; None if there are none."""
        last = [float(s.value[-1]) for _, s in self.select(engine=engine, entity=entity, name=name)]
        return sum(last) if last else None
