"""Tables of a report as CSV, in links that need neither a script nor a second file.

A number has no separators. An interval in the small print below a number has two columns of its
own, other small print has one.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from hakaru.report.blocks import Across, Cell, Column, Row, Table
from hakaru.wording import MISSING

Say = Callable[[str], str]
_NUMBER = re.compile(r"[-+]?\d{1,3}(?:,\d{3})*(?:\.\d+)?")
_INTERVAL = re.compile(rf"({_NUMBER.pattern})–({_NUMBER.pattern})")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings that a spreadsheet takes for a formula, also in their full-width forms. Texts of a
study may have them.
"""


def href(table: Table, say: Say) -> str:
    """The address of a link that saves the table: a `data:` URL. `say` translates the titles of
    additional columns.
    """
    # Spreadsheets recognise UTF-8 by the mark at the beginning.
    return f"data:text/csv;charset=utf-8,{quote(chr(0xFEFF) + text(table, say))}"


def text(table: Table, say: Say) -> str:
    """The table as CSV, lines ended by CR LF as RFC 4180 requires."""
    file = io.StringIO()
    writer = csv.writer(file)
    kinds = [_small(table, i) for i in range(_width(table))]
    has_groups = any(isinstance(row, Across) for row in table.rows)
    width = len(kinds) + sum({"interval": 2, "note": 1}.get(kind, 0) for kind in kinds) + table.caveats
    if table.columns:
        titles = [t for column, kind in zip(table.columns, kinds, strict=True) for t in _titles(column, kind, say)]
        heads = [say("csv.group")] if has_groups else []
        writer.writerow([*heads, *titles, *([say("table.caveats")] if table.caveats else [])])
    group = ""
    for row in table.rows:
        if isinstance(row, Across):
            if row.heading:
                group = row.text
            else:
                writer.writerow([_plain(group), _plain(row.text), *[""] * (width - 1)])
            continue
        cells = [value for cell, kind in zip(row.cells, kinds, strict=True) for value in _values(cell, kind)]
        marks = [" ".join(row.marks)] if table.caveats else []
        writer.writerow([*([_plain(group)] if has_groups else []), *cells, *marks])
    return file.getvalue()


def _width(table: Table) -> int:
    return len(table.columns) or max((len(row.cells) for row in table.rows if isinstance(row, Row)), default=0)


def _small(table: Table, index: int) -> str:
    """The content of the small print of a column: `interval`, `note`, or nothing."""
    texts = [small for cell in _column(table, index) if (small := getattr(cell, "small", ""))]
    if not texts:
        return ""
    return "interval" if all(_INTERVAL.fullmatch(small) for small in texts) else "note"


def _column(table: Table, index: int) -> Iterator[Cell | str]:
    return (row.cells[index] for row in table.rows if isinstance(row, Row))


def _titles(column: Column, kind: str, say: Say) -> Sequence[str]:
    title = _plain(column.title)
    if kind == "interval":
        return (title, f"{title}, {say('csv.low')}", f"{title}, {say('csv.high')}")
    return (title, f"{title}, {say('csv.note')}") if kind else (title,)


def _values(cell: Cell | str, kind: str) -> Sequence[str]:
    value, small = (cell, "") if isinstance(cell, str) else (cell.text, cell.small)
    if kind == "interval":
        interval = _INTERVAL.fullmatch(small)
        return (_plain(value), *(map(_plain, interval.groups()) if interval else ("", "")))
    return (_plain(value), _plain(small)) if kind else (_plain(value),)


def _plain(value: str) -> str:
    """A number without separators; other text as it is, unless a spreadsheet would evaluate it."""
    bare = value.replace("\u00a0", " ").strip()
    if bare == MISSING:
        return ""
    if _NUMBER.fullmatch(bare.removesuffix(" %")):
        return bare.replace(",", "")
    return f"'{bare}" if unicodedata.normalize("NFKC", bare[:1]).startswith(_FORMULA) else bare
