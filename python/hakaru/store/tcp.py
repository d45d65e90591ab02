"""The TCP series of a repetition: conversion of the files that watches wrote to one Parquet file.

The first line of a watch's file describes its format (docs/reference/watch.md): the kinds of
records with their columns. A kind becomes the column `source`. A column that a kind lacks is null
in its rows, as is every number that the kernel does not report. Rows are ordered by time.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hakaru.errors import LostError
from hakaru.store.files import environment_error, write_atomic

FORMAT = "hakaru tcp series"
VERSION = 1
_HEADER_MAX = 1 << 16
_BLOCK = struct.Struct("<II")
_TYPES = {"u8": "<u1", "u32": "<u4", "u64": "<u8"}

_NAME = pa.dictionary(pa.int32(), pa.string())
STATES = (
    None,
    "established",
    "syn_sent",
    "syn_received",
    "fin_wait_1",
    "fin_wait_2",
    "time_wait",
    "closed",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
    "syn_received",
)
"""States of a connection, indexed by the kernel's number."""
CONGESTION_STATES = ("open", "disorder", "window_reduced", "recovery", "loss")
"""States of congestion control, indexed by the kernel's number."""
_WORDS: Mapping[str, tuple[str | None, ...]] = {"state": STATES, "congestion_state": CONGESTION_STATES}

_NUMBERS = (
    *("congestion_window_segments", "congestion_window_bytes"),
    *("slow_start_threshold_segments", "slow_start_threshold_bytes", "current_threshold_segments", "segment_bytes"),
    *("rtt_us", "rtt_variation_us", "rtt_us_min", "rto_us", "unanswered_timeouts", "backoff"),
    *("unacked_segments", "unacked_bytes", "not_sent_bytes", "sacked_segments", "lost_segments"),
    *("retransmits", "retransmitted_bytes", "timeouts", "timeout_recoveries", "timeout_wait_ns"),
    *("sent_bytes", "acked_bytes", "received_bytes", "segments_out", "segments_in", "out_of_order_segments"),
    *("ecn_echoes", "delivery_bytes_per_s", "app_limited", "pacing_bytes_per_s"),
    *("peer_window_bytes", "receive_window_bytes", "data_bytes"),
    *("send_queue_bytes", "send_memory_bytes", "send_buffer_bytes"),
    *("receive_queue_bytes", "receive_memory_bytes", "receive_buffer_bytes", "drops"),
    *("busy_ns", "receive_window_limited_ns", "send_buffer_limited_ns"),
    *("data_sent_ago_ms", "data_received_ago_ms", "ack_received_ago_ms", "lost_events"),
)

TCP = pa.schema(
    [
        pa.field("node", _NAME, nullable=False),
        pa.field("source", _NAME, nullable=False),
        pa.field("local", _NAME),
        pa.field("peer", _NAME),
        pa.field("socket", pa.uint64()),
        pa.field("congestion_control", _NAME),
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("within_ns", pa.int64()),
        pa.field("state", _NAME),
        pa.field("congestion_state", _NAME),
        *(pa.field(name, pa.int64()) for name in _NUMBERS),
    ]
)
"""`source`: `sock_diag`, `tcp_probe`, `retransmit`, `state` or `lost`; `socket`: the socket's
cookie, unique on the machine.
"""


@dataclass(frozen=True)
class Series:
    """The records of one watch, as arrays by kind. `cut`: the end is missing, because the writer
    was killed.
    """

    kinds: dict[str, np.ndarray[Any, Any]]
    cut: bool


def read_series(path: Path) -> Series:
    """Read a watch's file. Raises LostError if it is not a series of this version."""
    try:
        with path.open("rb") as file:
            header = _read_header(path, file.readline(_HEADER_MAX))
            body = file.read()
    except OSError as e:
        raise environment_error(path, "cannot read", e) from e
    columns = {kind["kind"]: (name, _record_type(kind["columns"])) for name, kind in header["kinds"].items()}
    blocks: dict[str, list[np.ndarray[Any, Any]]] = {name: [] for name in header["kinds"]}
    at = 0
    while at + _BLOCK.size <= len(body):
        kind, count = _BLOCK.unpack_from(body, at)
        if kind not in columns:
            raise _unreadable(path, f"it has a block of kind {kind}, which its first line does not name")
        name, record = columns[kind]
        end = at + _BLOCK.size + count * record.itemsize
        if end > len(body):
            break
        blocks[name].append(np.frombuffer(body, record, count, at + _BLOCK.size))
        at = end
    kinds = {
        name: np.concatenate(arrays) if (arrays := blocks[name]) else np.empty(0, record)
        for name, record in columns.values()
    }
    return Series(kinds, at != len(body))


def _read_header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
        identity = (header["format"], header["version"], header["byte_order"])
    except (ValueError, KeyError, TypeError):
        raise _unreadable(path, "its first line is no header") from None
    if identity != (FORMAT, VERSION, "little"):
        raise _unreadable(path, f"its first line says {identity}")
    return dict(header)


def _unreadable(path: Path, reason: str) -> LostError:
    return LostError(
        f"{path} is not a readable TCP series: {reason}", "install hakaru and hakaru-engine of the same version"
    )


def _record_type(columns: list[list[str]]) -> np.dtype[Any]:
    return np.dtype([(name, _TYPES.get(kind) or f"S{int(kind.removeprefix('s'))}") for name, kind in columns])


def series_table(node: str, series: Series) -> pa.Table:
    """A watch's records as rows of the Parquet file, ordered by time."""
    sockets = series.kinds["socket"]
    by_number = {int(row["socket"]): row for row in sockets}
    tables = [
        _rows(node, source, records, by_number)
        for source, records in series.kinds.items()
        if source != "socket" and len(records)
    ]
    table = pa.concat_tables(tables) if tables else TCP.empty_table()
    return table.unify_dictionaries().sort_by("at_ns")


def _rows(node: str, source: str, records: np.ndarray[Any, Any], by_number: Mapping[int, Any]) -> pa.Table:
    names = records.dtype.names or ()
    columns: dict[str, pa.Array] = {
        "node": _constant(node, len(records)),
        "source": _constant(source, len(records)),
    }
    if "socket" in names:
        columns |= _socket_columns(records["socket"], by_number)
    for field in TCP:
        if field.name in columns:
            continue
        if field.name not in names:
            columns[field.name] = pa.nulls(len(records), field.type)
        elif field.name in _WORDS:
            columns[field.name] = _words(records[field.name], _WORDS[field.name])
        else:
            columns[field.name] = _numbers(records[field.name])
    return pa.Table.from_arrays([columns[field.name] for field in TCP], schema=TCP)


def _constant(word: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([word]))


def _socket_columns(numbers: np.ndarray[Any, Any], by_number: Mapping[int, Any]) -> dict[str, pa.Array]:
    """Addresses, cookie and congestion control of the sockets, which the rows name by number."""
    order = sorted(by_number)
    positions = np.searchsorted(order, numbers).astype(np.int32)

    def text(column: str) -> pa.Array:
        words = [by_number[number][column].decode() or None for number in order]
        unique = sorted({word for word in words if word})
        index = pa.array([None if word is None else unique.index(word) for word in words], pa.int32())
        return pa.DictionaryArray.from_arrays(index.take(pa.array(positions)), pa.array(unique, pa.string()))

    cookies = pa.array([int(by_number[number]["cookie"]) for number in order], pa.uint64())
    return {
        "socket": cookies.take(pa.array(positions)),
        "local": text("local"),
        "peer": text("peer"),
        "congestion_control": text("congestion_control"),
    }


def _words(values: np.ndarray[Any, Any], words: tuple[str | None, ...]) -> pa.Array:
    known = [word for word in words if word is not None]
    first = {word: known.index(word) for word in known}
    index = np.array([-1 if word is None else first[word] for word in words], np.int32)
    unknown = values >= len(words)
    chosen = index[np.where(unknown, 0, values)]
    mask = unknown | (chosen < 0)
    return pa.DictionaryArray.from_arrays(pa.array(chosen, mask=mask), pa.array(known))


def _numbers(values: np.ndarray[Any, Any]) -> pa.Array:
    """Numbers of a column. All bits set means that the kernel does not report it: null."""
    return pa.array(values.astype(np.int64), pa.int64(), mask=values == np.iinfo(values.dtype).max)


def write_tcp(path: Path, series: Mapping[str, Path]) -> dict[str, bool]:
    """Write the series of all nodes (node → the watch's file) to `path`. Returns node → whether the
    end of its series is missing.
    """
    by_node = {node: read_series(file) for node, file in series.items()}
    tables = [series_table(node, records) for node, records in by_node.items()]
    table = pa.concat_tables(tables).unify_dictionaries() if tables else TCP.empty_table()

    def fill(file: IO[bytes]) -> None:
        pq.write_table(table, file, compression="zstd")

    write_atomic(path, fill)
    return {node: records.cut for node, records in by_node.items()}
