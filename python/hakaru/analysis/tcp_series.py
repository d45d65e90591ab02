"""Evaluation of a TCP series. Pure: takes the table of `RunReader.tcp` (docs/reference/watch.md).

timeouts(table)             every expiry of a retransmission timer, with silence and recovery
connections(table)          number of connections
recovering_ns(found, …)     time spent in recovery, without counting any instant twice
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

READING, STATE = "sock_diag", "state"
LOSS = "loss"


@dataclass(frozen=True)
class Timeout:
    """One expiry of a connection's retransmission timer."""

    node: str
    local: str
    peer: str
    at_ns: int
    """Instant of the expiry; if it was not traced, the instant of the first reading that shows it.
    """
    traced: bool
    """Whether a kernel event reported the expiry. If only the kernel's counter shows it, `at_ns` is
    late by up to one reading interval.
    """
    silent_ns: int | None
    """Time for which data was in flight and none was acknowledged, accurate to one reading
    interval; None if unknown.
    """
    over_ns: int | None
    """Instant at which congestion control left the state `loss`; None if it did not before the
    series of the connection ended.
    """
    last_ns: int
    """Instant of the connection's last row: that of its end, or of the end of the watch."""

    @property
    def connection(self) -> frozenset[str]:
        """Addresses of both ends, which are the same at either end."""
        return frozenset((self.local, self.peer))


def timeouts(table: pa.Table) -> list[Timeout]:
    """All timeouts in the order of time. Consecutive expiries are separate entries."""
    timeouts: list[Timeout] = []
    for key, rows in _connections(table):
        timeouts += _of_connection(key, rows)
    return sorted(timeouts, key=lambda timeout: timeout.at_ns)


def connections(table: pa.Table) -> int:
    """Number of connections. A connection that was watched at both ends counts once."""
    named = table.filter(pc.is_valid(table["socket"]))
    addresses = (named[end].to_pylist() for end in ("local", "peer"))
    return len({frozenset(pair) for pair in zip(*addresses, strict=True)})


def recovering_ns(found: Iterable[Timeout], window: tuple[int, int]) -> int:
    """Time within `window` in which a connection recovered from a timeout, in ns, summed over
    connections. `found`: in the order of time, as `timeouts` returns them.

    Consecutive expiries of a timer are part of one recovery, so their intervals overlap.
    """
    total_ns = 0
    counted_until: dict[frozenset[str], int] = {}
    for timeout in found:
        begin = max(timeout.at_ns, counted_until.get(timeout.connection, window[0]))
        # A connection that ends in the state `loss` does not recover any more.
        end = min(timeout.last_ns if timeout.over_ns is None else timeout.over_ns, window[1])
        if begin < end:
            total_ns += end - begin
            counted_until[timeout.connection] = end
    return total_ns


def _connections(table: pa.Table) -> Iterator[tuple[tuple[str, str, str], pa.Table]]:
    """`(node, local, peer)` and the rows of each connection. Connections are identified by node and
    socket cookie, because the watch may see both ends.
    """
    named = table.filter(pc.is_valid(table["socket"]))
    for pair in named.group_by(["node", "socket"]).aggregate([]).to_pylist():
        mask = pc.and_(pc.equal(named["node"], pair["node"]), pc.equal(named["socket"], pair["socket"]))
        rows = named.filter(mask).sort_by("at_ns")
        yield (pair["node"], rows["local"][0].as_py(), rows["peer"][0].as_py()), rows


def _of_connection(key: tuple[str, str, str], rows: pa.Table) -> Iterator[Timeout]:
    source = rows["source"].cast(pa.string())
    readings = rows.filter(pc.equal(source, READING))
    events = rows.filter(pc.equal(source, STATE))
    progress = _Progress(readings)
    lost = pc.equal(events["congestion_state"].cast(pa.string()), LOSS).to_numpy(zero_copy_only=False)
    at = _numbers(events, "at_ns")
    traced = at[lost]
    # A reading outside the state `loss` also ends the recovery, in case the event of that change is
    # missing.
    recovered = np.sort(np.concatenate([at[~lost], progress.at[progress.state != LOSS]]))
    expiries = [(int(at_ns), True) for at_ns in traced] + [(at_ns, False) for at_ns in _untraced(readings, traced)]
    last_ns = int(_numbers(rows, "at_ns")[-1])
    for at_ns, by_event in sorted(expiries):
        after = recovered[recovered > at_ns]
        yield Timeout(
            *key,
            at_ns=at_ns,
            traced=by_event,
            silent_ns=progress.silent_ns(at_ns),
            over_ns=int(after[0]) if len(after) else None,
            last_ns=last_ns,
        )


def _untraced(readings: pa.Table, traced: np.ndarray[Any, Any]) -> list[int]:
    """Instants of readings at which the counter of timeouts (or else of consecutive timeouts) had
    grown by more than the number of traced events.
    """
    for name in ("timeouts", "unanswered_timeouts"):
        if readings[name].null_count < len(readings):
            grown = np.nan_to_num(np.diff(_numbers(readings, name), prepend=np.nan)).clip(0).astype(np.int64)
            break
    else:
        return []
    instants, within = _numbers(readings, "at_ns"), np.nan_to_num(_numbers(readings, "within_ns")).astype(np.int64)
    # The kernel took a reading at some instant within its span, so the reading may include events
    # until the end of the span.
    explained = np.searchsorted(traced, instants + within, side="right") - np.searchsorted(
        traced, instants[:1], side="left"
    )
    missing = np.maximum.accumulate(np.cumsum(grown) - explained).clip(0)
    return [int(at_ns) for at_ns in np.repeat(instants, np.diff(missing, prepend=0))]


class _Progress:
    """The instants at which a connection's peer last acknowledged data, by its readings."""

    def __init__(self, readings: pa.Table) -> None:
        self.at = _numbers(readings, "at_ns")
        self.state = np.array(readings["congestion_state"].cast(pa.string()).to_pylist(), dtype=object)
        unacked, acked = _numbers(readings, "unacked_segments"), _numbers(readings, "acked_bytes")
        # Silence begins at the last reading at which data was acknowledged or none was in flight.
        moved = (np.diff(acked, prepend=np.nan) != 0) | (unacked == 0)
        self._moved_at = self.at[moved]

    def silent_ns(self, at_ns: int) -> int | None:
        """Silence before `at_ns`, ns; None if it began before the series."""
        before = self._moved_at[self._moved_at < at_ns]
        return int(at_ns - before[-1]) if len(before) else None


def _numbers(rows: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """A column as numbers, with NaN for null. Instants stay exact integers because they are never
    null.
    """
    column = rows[name]
    if column.null_count:
        column = column.cast(pa.float64(), safe=False)
    numbers: np.ndarray[Any, Any] = column.to_numpy()
    return numbers
