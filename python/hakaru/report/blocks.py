"""Blocks that a kind of study adds to a report: groups of figures, tables, and whole sections.

Blocks are data in one language. The template draws all kinds of blocks in the same way, so a kind
needs no markup, and texts from a study are never interpreted as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hakaru.report.figures import Figure
from hakaru.wording import MISSING

Look = Literal["number", "level", "words"]
"""Alignment of a column: `number` right, `level` left on one line, `words` left in several
lines.
"""


@dataclass(frozen=True)
class Cell:
    """A cell of a table, with optional small print below its text."""

    text: str
    small: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Column:
    """A column: title and alignment. Cells of a `header` column name their rows."""

    title: str
    look: Look = "number"
    header: bool = False


@dataclass(frozen=True)
class Row:
    """One row. `state` is "" or one of `peak`, `invalid`, `lossy`; `marks` are letters of
    caveats.
    """

    cells: Sequence[Cell | str]
    state: str = ""
    marks: Sequence[str] = ()


@dataclass(frozen=True)
class Across:
    """A row with one text across all columns: the heading of the rows below, or a remark."""

    text: str
    heading: bool


@dataclass(frozen=True)
class Table:
    """A table. Without columns, it is a list of names and values. `style` are CSS classes."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Row | Across]
    style: str = "numbers"
    caveats: bool = False
    """Whether rows end with the letters of their caveats."""


def without_empty_columns(tables: Sequence[Table]) -> list[Table]:
    """The tables without columns of numbers that no row has, and without tables of which only the
    names of the rows would remain.
    """
    trimmed = (_trimmed(table) for table in tables)
    return [table for table in trimmed if not table.columns or any(not column.header for column in table.columns)]


def _trimmed(table: Table) -> Table:
    rows = [row for row in table.rows if isinstance(row, Row)]
    kept = [
        i
        for i, column in enumerate(table.columns)
        if column.header or column.look != "number" or any(_has_value(row.cells[i]) for row in rows)
    ]
    if len(kept) == len(table.columns):
        return table
    cut = [replace(row, cells=[row.cells[i] for i in kept]) if isinstance(row, Row) else row for row in table.rows]
    return replace(table, columns=[table.columns[i] for i in kept], rows=cut)


def _has_value(cell: Cell | str) -> bool:
    return (cell if isinstance(cell, str) else cell.text or cell.small) not in ("", MISSING)


@dataclass(frozen=True)
class Group:
    """Figures about one sweep or one question, under a name if the report has several groups."""

    figures: Sequence[Figure]
    name: str = ""
    about: str = ""


@dataclass(frozen=True)
class Text:
    """Text to copy verbatim, and the file that it belongs to."""

    title: str
    file: str
    text: str


@dataclass(frozen=True)
class Section:
    """A section with heading `title`; `name` is its anchor."""

    name: str
    title: str
    about: str
    tables: Sequence[Table] = ()
    texts: Sequence[Text] = ()
    before_results: bool = False
