"""The course of a connection's window: what was in flight, what waited in the send buffer, what TCP
allowed itself.

From the series of the run's TCP watch (`tcp/POINT-R.parquet`) where it has one, else from the
samples of the engine that sends the data. Seconds count from the start of the measuring phase; the
values are of one connection, the busiest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hakaru.analysis.bounds import Op
from hakaru.analysis.distance.measures import sender_series
from hakaru.analysis.distance.setup import Setup
from hakaru.analysis.run_data import Repetition, RunData

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
WATCHED = {
    "window_congestion_mb": "congestion_window_bytes",
    "window_in_flight_mb": "unacked_bytes",
    "window_not_sent_mb": "not_sent_bytes",
    "window_buffered_mb": "send_queue_bytes",
}
"""What is shown → the column of the series that says it (`hakaru.store.tcp.TCP`)."""

Series = dict[str, list[float | None]]


def of_repetition(run: RunData, repetition: Repetition, setup: Setup, op: Op) -> Series:
    """`window_t_s` and, in MB, the congestion window, what is in flight, what waits unsent."""
    return _watched(run, repetition, setup, op) or _sampled(repetition, setup, op)


def window_growth(repetition: Repetition, setup: Setup, op: Op) -> float | None:
    """Mean congestion window of the last third of the measuring phase over that of the first; None
    without samples.
    """
    start, end = repetition.window
    third = (end - start) // 3
    first = last = 0.0
    for series in sender_series(repetition, setup, op, "congestion_window_bytes_now"):
        at, value = series.at_ns, series.value
        early = value[(at >= start) & (at <= start + third)]
        late = value[(at >= end - third) & (at <= end)]
        if not len(early) or not len(late):
            return None
        first, last = first + float(np.mean(early)), last + float(np.mean(late))
    return last / first if first > 0 else None


def _sampled(repetition: Repetition, setup: Setup, op: Op) -> Series:
    found: Series = {}
    for name, counter in GAUGES.items():
        series = sender_series(repetition, setup, op, counter)
        if not series:
            continue
        at = series[0].at_ns
        inside = (at >= repetition.window[0]) & (at <= repetition.window[1])
        if not np.any(inside):
            continue
        found.setdefault("window_t_s", [float(t) for t in (at[inside] - repetition.window[0]) / 1e9])
        found[name] = [float(v) / 1e6 for v in series[0].value[inside]]
    lengths = {len(values) for values in found.values()}
    return found if len(found) > 1 and len(lengths) == 1 else {}


def _watched(run: RunData, repetition: Repetition, setup: Setup, op: Op) -> Series:
    rows = run.tcp_series(repetition.point, repetition.number)
    if rows is None or rows.num_rows == 0:
        return {}
    needed = ("at_ns", "source", "node", "local", "peer", *WATCHED.values())
    columns: dict[str, Any] = {
        name: np.asarray(rows.column(name).to_pylist(), dtype=object) for name in needed if name in rows.column_names
    }
    start = repetition.window[0]
    span = int(max(1.0, SPAN_RTTS * setup.rtt_s) * 1e9)
    at = columns["at_ns"].astype(np.int64)
    senders = (setup.array,) if op == "read" else setup.hosts
    kept = np.isin(columns["node"].astype(str), senders) & (columns["source"] == "sock_diag")
    kept &= (at >= start) & (at <= min(repetition.window[1], start + span))
    if not np.any(kept):
        return {}
    ends = [f"{a} {b}" for a, b in zip(columns["local"], columns["peer"], strict=True)]
    of_one = np.asarray(ends, dtype=object)
    window = np.asarray([v or 0 for v in columns["congestion_window_bytes"]], dtype=float)
    busiest = max(set(of_one[kept]), key=lambda end: float(np.max(window[kept & (of_one == end)])))
    kept &= of_one == busiest
    order = np.flatnonzero(kept)[np.argsort(at[kept], kind="stable")]
    order = order[:: max(1, len(order) // SHOWN_MAX)]
    found: Series = {"window_t_s": [float(t) for t in (at[order] - start) / 1e9]}
    for name, column in WATCHED.items():
        if column in columns:
            found[name] = [None if v is None else float(v) / 1e6 for v in columns[column][order]]
    return found
