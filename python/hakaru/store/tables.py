"""Samples and histograms of one repetition: collected as columns, written as Parquet.

Called by the runner for every `sample` and `result` of an engine. Nothing is computed here:
counters stay cumulative, and histograms stay encoded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from hakaru.store.files import write_atomic

_NAME = pa.dictionary(pa.int32(), pa.string())

SAMPLES = pa.schema(
    [
        pa.field("node", _NAME, nullable=False),
        pa.field("engine", _NAME, nullable=False),
        pa.field("entity", _NAME, nullable=False),
        pa.field("name", _NAME, nullable=False),
        pa.field("at_ns", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)

HISTOGRAMS = pa.schema(
    [
        pa.field("node", _NAME, nullable=False),
        pa.field("engine", _NAME, nullable=False),
        pa.field("entity", _NAME, nullable=False),
        pa.field("name", _NAME, nullable=False),
        pa.field("at_ns", pa.int64(), nullable=True),
        pa.field("hdr", pa.string(), nullable=False),
    ]
)


class Samples:
    """Rows `node, engine, entity, name, at_ns, value`."""

    def __init__(self) -> None:
        self._columns: tuple[list[Any], ...] = tuple([] for _ in SAMPLES)

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, node: str, engine: str, at_ns: int, counters: Mapping[str, Mapping[str, float]]) -> None:
        """Add all counters of one engine at one instant of `CLOCK_MONOTONIC`, in nanoseconds."""
        nodes, engines, entities, names, instants, values = self._columns
        for entity, entity_counters in counters.items():
            # Every message has strings of its own, and drives may be sampled five times a second:
            # hundreds of thousands of rows in an hour.
            entity = sys.intern(entity)
            for name, value in entity_counters.items():
                nodes.append(node)
                engines.append(engine)
                entities.append(entity)
                names.append(sys.intern(name))
                instants.append(at_ns)
                values.append(float(value))

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        return _table(SAMPLES, self._columns)

    def write(self, path: Path) -> None:
        """Write them to `path`."""
        _write(path, self.table())


class Histograms:
    """Rows `node, engine, entity, name, at_ns, hdr`; `at_ns` is null for the entire measuring
    phase.
    """

    def __init__(self) -> None:
        self._columns: tuple[list[Any], ...] = tuple([] for _ in HISTOGRAMS)

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, node: str, engine: str, at_ns: int | None, histograms: Iterable[Mapping[str, str]]) -> None:
        """Add histograms of the interval that ends at `at_ns`; None: the entire measuring phase."""
        for histogram in histograms:
            row = (node, engine, histogram["entity"], histogram["name"], at_ns, histogram["hdr"])
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        return _table(HISTOGRAMS, self._columns)

    def write(self, path: Path) -> None:
        """Write them to `path`."""
        _write(path, self.table())


def _table(schema: pa.Schema, columns: tuple[list[Any], ...]) -> pa.Table:
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _write(path: Path, table: pa.Table) -> None:
    def fill(file: IO[bytes]) -> None:
        pq.write_table(table, file, compression="zstd")

    write_atomic(path, fill)
