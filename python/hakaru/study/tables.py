"""Published tables that a study compares its results with: CSV files in its own folder, else in
hakaru's `reference/`.

A study names a table without a path, so that it cannot name a file outside these folders. A table
is a header line, then rows. Columns that are compared must be numbers; other columns may be text.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakaru.errors import UsageError
from hakaru.study.document import Document, Path_, dotted
from hakaru.study.part import Level, level_text
from hakaru.study.references import Reference, TableReference
from hakaru.study.where import same_level
from hakaru.suggest import listed

ROWS_MAX = 10_000
Row = dict[str, float | str]


def read_tables(document: Document, references: Sequence[Reference], folders: tuple[Path, ...]) -> dict[str, list[Row]]:
    """Table → rows, of all references. Raises UsageError with the reference's place in the
    study.
    """
    tables: dict[str, list[Row]] = {}
    compared: dict[tuple[str, ...], int] = {}
    for i, reference in enumerate(references):
        if not isinstance(reference, TableReference):
            continue
        table = _read_table(document, reference, folders, ("reference", i, "table"))
        _check_columns(document, reference, table, i)
        _check_levels(document, reference, table, i)
        _check_repeated(document, reference, table, i, compared)
        tables[reference.table] = table
    return tables


def levels_of(reference: TableReference, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Level, Level | None]]:
    """Levels of the study that are compared, in order, each with the level that the table writes;
    None if the table lacks it.
    """
    written = _written(reference, rows)
    if not reference.levels:
        return [(level, level) for level in written]
    return [
        (level, next((each for each in written if same_level(each, published)), None))
        for level, published in reference.levels.items()
    ]


def cells_of(
    reference: TableReference, rows: Sequence[Mapping[str, Any]], column: str
) -> list[tuple[Level, list[float]]]:
    """Level of the study → its numbers in a column, for each level that the table has: one number,
    or one per row with `combine`.
    """
    goes_by = reference.goes_by
    return [
        (level, [float(row[column]) for row in rows if reference.has_row(row) and same_level(row[goes_by], published)])
        for level, published in levels_of(reference, rows)
        if published is not None
    ]


def _check_columns(document: Document, reference: TableReference, table: list[Row], i: int) -> None:
    columns = set(table[0])
    for column in (reference.goes_by, *reference.select, *reference.metrics.values()):
        if column not in columns:
            hint = f"its columns are {', '.join(sorted(columns))}"
            place = document.place_of(("reference", i))
            raise document.error(place, f"reference[{i}]: {reference.table} has no column {column!r}", hint)


def _check_levels(document: Document, reference: TableReference, table: list[Row], i: int) -> None:
    """Every level that the reference names must be in the table, once unless rows are combined."""
    by_level = dict(levels_of(reference, table))
    hint = f"{reference.table} has {listed([level_text(each) for each in _written(reference, table)])}"
    for level, published in by_level.items():
        if published is None:
            path: Path_ = ("reference", i, "levels", str(level))
            message = f"{dotted(path)}: {reference.table} has no {reference.goes_by} {reference.levels[str(level)]}"
            raise document.error(document.place_of(path), message, hint)
    for metric, column in reference.metrics.items():
        for level, numbers in cells_of(reference, table, column):
            if len(numbers) > 1 and reference.combine is None:
                path = ("reference", i, "table")
                message = f"{dotted(path)}: {reference.table} has {len(numbers)} rows for {reference.over} {level}"
                raise document.error(document.place_of(path), message, "add them with `combine: sum`")
        calibrated = reference.calibrated.get(metric, [])
        for j, level in enumerate(calibrated if calibrated != "all" else []):
            if not any(same_level(level, known) for known in by_level):
                path = ("reference", i, "calibrated", metric, j)
                message = f"{dotted(path)}: no row of the scorecard has {reference.over} {level_text(level)}"
                known_levels = listed([level_text(known) for known in by_level])
                raise document.error(document.place_of(path), message, f"the rows have {known_levels}")


def _written(reference: TableReference, rows: Sequence[Mapping[str, Any]]) -> list[Level]:
    return list(dict.fromkeys(row[reference.goes_by] for row in rows if reference.has_row(row)))


def _check_repeated(
    document: Document, reference: TableReference, table: list[Row], i: int, compared: dict[tuple[str, ...], int]
) -> None:
    """A printed number is one row. `compared` has the cells that earlier references use."""
    for metric, column in reference.metrics.items():
        for level, _ in cells_of(reference, table, column):
            selected = (f"{name}={level_text(value)}" for name, value in sorted(reference.select.items()))
            cell = (reference.table, column, level_text(reference.levels.get(str(level), level)), *selected)
            if cell in compared:
                path: Path_ = ("reference", i, "metrics", metric)
                message = f"{dotted(path)}: reference[{compared[cell]}] already compares {column} at {level}"
                raise document.error(document.place_of(path), message, "a printed number is one row: keep one of them")
            compared[cell] = i


def _read_table(document: Document, reference: TableReference, folders: tuple[Path, ...], path: Path_) -> list[Row]:
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
