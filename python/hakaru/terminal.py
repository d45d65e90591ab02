"""Tables and paragraphs on stdout, as wide as the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 160
"""Columns where stdout is no terminal: wide enough that no cell of a table of ours wraps in a
file.
"""


def new_console() -> Console:
    """Stdout as a console of rich."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)


def say(console: Console, text: str) -> None:
    """Print a paragraph: wrapped on a terminal, one line in a file."""
    console.print(text, markup=False, soft_wrap=not sys.stdout.isatty())


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under the names of their columns."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*["" if value is None else str(value) for value in row])
    new_console().print(table, markup=False)
