"""Published tables that a study compares its results with: CSV files in its own folder, else in
hakaru's `reference/`.

A study names a table without a path, so that it cannot name a file outside these folders. A table
is a header line, then rows. Columns that are compared must be numbers; other columns may be text.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from hakaru.errors import UsageError
from hakaru.study.document import Document, Path_, dotted
from hakaru.study.expectations import Reference

ROWS_MAX = 10_000
Row = dict[str, float | str]


def read_tables(document: Document, references: list[Reference], folders: tuple[Path, ...]) -> dict[str, list[Row]]:
    """Table → rows, of all references. Raises UsageError with the reference's place in the
    study.
    """
    tables = {}
    for i, reference in enumerate(references):
        table = _read_table(document, reference, folders, ("reference", i, "table"))
        columns = set(table[0])
        for column in (reference.goes_by, *reference.metrics.values()):
            if column not in columns:
                hint = f"its columns are {', '.join(sorted(columns))}"
                place = document.place_of(("reference", i))
                raise document.error(place, f"reference[{i}]: {reference.table} has no column {column!r}", hint)
        tables[reference.table] = table
    return tables


def _read_table(document: Document, reference: Reference, folders: tuple[Path, ...], path: Path_) -> list[Row]:
    place = document.place_of(path)
    file = _find(folders, reference.table)
    if file is None:
        hint = f"put {reference.table}.csv into {folders[0]}"
        raise document.error(place, f"{dotted(path)}: no table {reference.table!r}", hint)
    try:
        rows = _rows(file.read_text(encoding="utf-8"))
        compared = set(reference.metrics.values()) | (set() if reference.levels else {reference.goes_by})
        for row in rows:
            for name in compared & row.keys():
                if isinstance(row[name], str):
                    raise ValueError(f"{name}: {row[name]!r}")
    except OSError as e:
        raise UsageError(f"{file}: {e.strerror}", "tables must be readable") from e
    except (ValueError, csv.Error) as e:
        message = f"{file}: not a table of numbers: {e}"
        raise document.error(place, message, "a header line, then numbers, separated by commas") from e
    if not 0 < len(rows) <= ROWS_MAX:
        raise document.error(place, f"{file}: {len(rows)} rows", f"1 to {ROWS_MAX} rows")
    return rows


def _find(folders: tuple[Path, ...], name: str) -> Path | None:
    for folder in folders:
        inside = folder.resolve()
        file = inside / f"{name}.csv"
        if file.is_file() and file.resolve().parent == inside:
            return file
    return None


def _rows(text: str) -> list[Row]:
    """Parse the rows of a CSV file; cells that are no numbers stay text. Raises ValueError for rows
    of unequal length and for numbers that are not finite.
    """
    rows: list[Row] = []
    reader = csv.reader(io.StringIO(text), strict=True)
    header = next(reader, [])
    for cells in reader:
        if len(cells) != len(header):
            raise ValueError(f"line {reader.line_num} has {len(cells)} cells, the header has {len(header)}")
        rows.append({name: _value(cell) for name, cell in zip(header, cells, strict=True)})
    return rows


def _value(cell: str) -> float | str:
    try:
        number = float(cell)
    except ValueError:
        return cell
    if not math.isfinite(number):
        raise ValueError(f"{cell} is not finite")
    return number
