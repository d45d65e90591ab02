"""Readings of a series of TCP connections. Pure: takes the table of `RunReader.tcp`
(docs/reference/watch.md).

timeouts(table)     every firing of a retransmission timer: when, after what silence, until when
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

READING, STATE = "sock_diag", "state"
LOSS = "loss"


@dataclass(frozen=True)
class Timeout:
    """One firing of a connection's retransmission timer."""

    node: str
    local: str
    peer: str
    at_ns: int
    """When it fired; where it was not traced, when it was first seen."""
    traced: bool
    """Told by the kernel's event; else by its counter alone: `at_ns` is late by up to the distance
    of readings.
    """
    silent_ns: int | None
    """How long data had been under way and nothing of it acknowledged; to the distance of readings.
    None: not seen.
    """
    over_ns: int | None
    """When congestion control had left the state `loss`; None: not before the series ended."""


def timeouts(table: pa.Table) -> list[Timeout]:
    """In the order of their instants; several firings in a row are several."""
    timeouts: list[Timeout] = []
    for key, rows in _connections(table):
        timeouts += _of_connection(key, rows)
    return sorted(timeouts, key=lambda timeout: timeout.at_ns)


def _connections(table: pa.Table) -> Iterator[tuple[tuple[str, str, str], pa.Table]]:
    """(node, local, peer) and the rows of each connection, by node and cookie: a host may watch
    both ends.
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
    # What a reading shows to be over is over, also where the event that would have told of it is
    # missing.
    left = np.sort(np.concatenate([at[~lost], progress.at[progress.state != LOSS]]))
    fired = [(int(at_ns), True) for at_ns in traced] + [(at_ns, False) for at_ns in _untraced(readings, traced)]
    for at_ns, by_event in sorted(fired):
        after = left[left > at_ns]
        yield Timeout(
            *key,
            at_ns=at_ns,
            traced=by_event,
            silent_ns=progress.silent_ns(at_ns),
            over_ns=int(after[0]) if len(after) else None,
        )


def _untraced(readings: pa.Table, traced: np.ndarray[Any, Any]) -> list[int]:
    """Readings at which the counter of timeouts, or else of those in a row, had grown by more than
    events had told.
    """
    for name in ("timeouts", "unanswered_timeouts"):
        if readings[name].null_count < len(readings):
            grown = np.nan_to_num(np.diff(_numbers(readings, name), prepend=np.nan)).clip(0).astype(np.int64)
            break
    else:
        return []
    at, within = _numbers(readings, "at_ns"), np.nan_to_num(_numbers(readings, "within_ns")).astype(np.int64)
    # The kernel made a reading somewhere within its span: an event until the end of it may be in
    # it.
    told = np.searchsorted(traced, at + within, side="right") - np.searchsorted(traced, at[:1], side="left")
    missing = np.maximum.accumulate(np.cumsum(grown) - told).clip(0)
    return [int(at_ns) for at_ns in np.repeat(at, np.diff(missing, prepend=0))]


class _Progress:
    """The instants at which a connection's peer last acknowledged data, by its readings."""

    def __init__(self, readings: pa.Table) -> None:
        self.at = _numbers(readings, "at_ns")
        self.state = np.array(readings["congestion_state"].cast(pa.string()).to_pylist(), dtype=object)
        unacked, acked = _numbers(readings, "unacked_segments"), _numbers(readings, "acked_bytes")
        # A stretch of silence begins with the reading at which something was acknowledged or
        # nothing was under way.
        moved = (np.diff(acked, prepend=np.nan) != 0) | (unacked == 0)
        self._moved_at = self.at[moved]

    def silent_ns(self, at_ns: int) -> int | None:
        """Silence until `at_ns`."""
        before = self._moved_at[self._moved_at < at_ns]
        return int(at_ns - before[-1]) if len(before) else None


def _numbers(rows: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """A column; NaN where it is null. Instants stay exact: they are never null."""
    column = rows[name]
    if column.null_count:
        column = column.cast(pa.float64(), safe=False)
    numbers: np.ndarray[Any, Any] = column.to_numpy()
    return numbers
