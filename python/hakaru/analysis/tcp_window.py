"""The TCP window of a connection over time: congestion window, data in flight, and unsent data in
the send buffer.

The source is the series of the run's TCP watch (`tcp/POINT-R.parquet`), or the gauges that an
engine samples. Seconds count from the start of the measuring phase. The values are those of one
connection. From a watched series, it is the one with the largest congestion window.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hakaru.analysis import counters

SHOWN_MAX = 400
"""Approximate number of instants that a long series is thinned to; a figure has no more pixels."""
SPAN_RTTS = 60
"""A watched series is shown for this many round trips from the start of the measuring phase, at
least 1 s.
"""
GAUGES = {
    "window_congestion_mb": "congestion_window_bytes_now",
    "window_in_flight_mb": "unacked_bytes_now",
    "window_not_sent_mb": "not_sent_bytes_now",
}
"""Name in the report → gauge of an engine."""
WATCHED = {
    "window_congestion_mb": "congestion_window_bytes",
    "window_in_flight_mb": "unacked_bytes",
    "window_not_sent_mb": "not_sent_bytes",
    "window_buffered_mb": "send_queue_bytes",
}
"""Name in the report → column of the series (`hakaru.store.tcp.TCP`)."""

WindowSeries = dict[str, list[float | None]]
"""Values by name: `window_t_s` in seconds, and the names of `GAUGES` or `WATCHED` in MB."""
Window = tuple[int, int]


def of_gauges(gauges: Mapping[str, Sequence[counters.Series]], window: Window) -> WindowSeries:
    """The window over time from an engine's gauges, by the names in `GAUGES`. Only the first
    connection counts. Empty if no gauge was sampled.
    """
    values_by_name: WindowSeries = {}
    for name, series in gauges.items():
        if not series:
            continue
        instants = series[0].at_ns
        inside = (instants >= window[0]) & (instants <= window[1])
        if not np.any(inside):
            continue
        values_by_name.setdefault("window_t_s", [float(t) for t in (instants[inside] - window[0]) / 1e9])
        values_by_name[name] = [float(v) / 1e6 for v in series[0].value[inside]]
    lengths = {len(values) for values in values_by_name.values()}
    return values_by_name if len(values_by_name) > 1 and len(lengths) == 1 else {}


def growth(windows: Sequence[counters.Series], window: Window) -> float | None:
    """Mean congestion window in the last third of the measuring phase, divided by the mean in the
    first third, summed over all connections. None without samples.
    """
    start, end = window
    third = (end - start) // 3
    first = last = 0.0
    for series in windows:
        instants, value = series.at_ns, series.value
        early = value[(instants >= start) & (instants <= start + third)]
        late = value[(instants >= end - third) & (instants <= end)]
        if not len(early) or not len(late):
            return None
        first, last = first + float(np.mean(early)), last + float(np.mean(late))
    return last / first if first > 0 else None


def of_watch(table: pa.Table | None, window: Window, senders: Collection[str], rtt_s: float) -> WindowSeries:
    """The window over time from the run's TCP watch, for `SPAN_RTTS` round trips but at least 1 s.
    Empty if no connection of the nodes `senders` was watched.
    """
    if table is None or table.num_rows == 0:
        return {}
    needed = ("at_ns", "source", "node", "local", "peer", *WATCHED.values())
    columns: dict[str, Any] = {
        name: np.asarray(table.column(name).to_pylist(), dtype=object) for name in needed if name in table.column_names
    }
    start = window[0]
    span = int(max(1.0, SPAN_RTTS * rtt_s) * 1e9)
    instants = columns["at_ns"].astype(np.int64)
    selected = np.isin(columns["node"].astype(str), list(senders)) & (columns["source"] == "sock_diag")
    selected &= (instants >= start) & (instants <= min(window[1], start + span))
    if not np.any(selected):
        return {}
    order = _busiest(columns, instants, selected)
    values_by_name: WindowSeries = {"window_t_s": [float(t) for t in (instants[order] - start) / 1e9]}
    for name, column in WATCHED.items():
        if column in columns:
            values_by_name[name] = [None if v is None else float(v) / 1e6 for v in columns[column][order]]
    return values_by_name


def _busiest(columns: Mapping[str, Any], instants: Any, selected: Any) -> Any:
    """Row numbers of the connection with the largest congestion window, in the order of time,
    thinned to fewer than twice `SHOWN_MAX`.
    """
    ends = [f"{a} {b}" for a, b in zip(columns["local"], columns["peer"], strict=True)]
    connection = np.asarray(ends, dtype=object)
    windows = np.asarray([v or 0 for v in columns["congestion_window_bytes"]], dtype=float)
    busiest = max(set(connection[selected]), key=lambda end: float(np.max(windows[selected & (connection == end)])))
    rows = selected & (connection == busiest)
    order = np.flatnonzero(rows)[np.argsort(instants[rows], kind="stable")]
    return order[:: max(1, len(order) // SHOWN_MAX)]
