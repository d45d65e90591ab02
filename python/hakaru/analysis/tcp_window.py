"""The course of a connection's window: the congestion window, the data in flight, the data that
waits in the send buffer.

From the series of the run's TCP watch (`tcp/POINT-R.parquet`), or from the gauges that an engine
samples. Seconds count from the start of the measuring phase; the values are those of one
connection, of a watched series the busiest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hakaru.analysis import counters

SHOWN_MAX = 400
"""Instants kept of a long series: a figure has no more pixels."""
SPAN_RTTS = 60
"""A watched series is shown for this many round trips from the start of the measuring phase, at
least 1 s.
"""
GAUGES = {
    "window_congestion_mb": "congestion_window_bytes_now",
    "window_in_flight_mb": "unacked_bytes_now",
    "window_not_sent_mb": "not_sent_bytes_now",
}
"""Name in the report to the engines' gauge."""
WATCHED = {
    "window_congestion_mb": "congestion_window_bytes",
    "window_in_flight_mb": "unacked_bytes",
    "window_not_sent_mb": "not_sent_bytes",
    "window_buffered_mb": "send_queue_bytes",
}
"""Name in the report to the column of the series (`hakaru.store.tcp.TCP`)."""

Course = dict[str, list[float | None]]
"""`window_t_s`, and in MB the names of `GAUGES` or `WATCHED`."""
Window = tuple[int, int]


def of_gauges(gauges: Mapping[str, Sequence[counters.Series]], window: Window) -> Course:
    """The course by an engine's gauges, each by its name in `GAUGES`; empty where none was sampled.
    The first connection of each is shown.
    """
    found: Course = {}
    for name, series in gauges.items():
        if not series:
            continue
        at = series[0].at_ns
        inside = (at >= window[0]) & (at <= window[1])
        if not np.any(inside):
            continue
        found.setdefault("window_t_s", [float(t) for t in (at[inside] - window[0]) / 1e9])
        found[name] = [float(v) / 1e6 for v in series[0].value[inside]]
    lengths = {len(values) for values in found.values()}
    return found if len(found) > 1 and len(lengths) == 1 else {}


def growth(windows: Sequence[counters.Series], window: Window) -> float | None:
    """Mean congestion window of the last third of the measuring phase over that of the first, all
    connections together; None without samples.
    """
    start, end = window
    third = (end - start) // 3
    first = last = 0.0
    for series in windows:
        at, value = series.at_ns, series.value
        early = value[(at >= start) & (at <= start + third)]
        late = value[(at >= end - third) & (at <= end)]
        if not len(early) or not len(late):
            return None
        first, last = first + float(np.mean(early)), last + float(np.mean(late))
    return last / first if first > 0 else None


def of_watch(table: pa.Table | None, window: Window, senders: Collection[str], rtt_s: float) -> Course:
    """The course by the run's TCP watch, for `SPAN_RTTS` round trips; empty where no connection of
    the nodes `senders` was watched.
    """
    if table is None or table.num_rows == 0:
        return {}
    needed = ("at_ns", "source", "node", "local", "peer", *WATCHED.values())
    columns: dict[str, Any] = {
        name: np.asarray(table.column(name).to_pylist(), dtype=object) for name in needed if name in table.column_names
    }
    start = window[0]
    span = int(max(1.0, SPAN_RTTS * rtt_s) * 1e9)
    at = columns["at_ns"].astype(np.int64)
    kept = np.isin(columns["node"].astype(str), list(senders)) & (columns["source"] == "sock_diag")
    kept &= (at >= start) & (at <= min(window[1], start + span))
    if not np.any(kept):
        return {}
    order = _busiest(columns, at, kept)
    found: Course = {"window_t_s": [float(t) for t in (at[order] - start) / 1e9]}
    for name, column in WATCHED.items():
        if column in columns:
            found[name] = [None if v is None else float(v) / 1e6 for v in columns[column][order]]
    return found


def _busiest(columns: Mapping[str, Any], at: Any, kept: Any) -> Any:
    """Rows of the connection with the largest congestion window, in the order of time, at most
    `SHOWN_MAX` and some.
    """
    ends = [f"{a} {b}" for a, b in zip(columns["local"], columns["peer"], strict=True)]
    connection = np.asarray(ends, dtype=object)
    windows = np.asarray([v or 0 for v in columns["congestion_window_bytes"]], dtype=float)
    busiest = max(set(connection[kept]), key=lambda end: float(np.max(windows[kept & (connection == end)])))
    rows = kept & (connection == busiest)
    order = np.flatnonzero(rows)[np.argsort(at[rows], kind="stable")]
    return order[:: max(1, len(order) // SHOWN_MAX)]
