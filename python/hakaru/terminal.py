"""Tables and paragraphs on stdout, wrapped to the width of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 160
"""Width in columns if stdout is not a terminal, chosen so that no table cell wraps in a file."""


def new_console() -> Console:
    """Return a rich console on stdout. It prints text as it is: addresses, notes and levels may
    contain what rich would take for markup (`[sync]`) or for an emoji (`:100:`).
    """
    width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def say(console: Console, text: str) -> None:
    """Print a paragraph: wrapped on a terminal, on one line in a file."""
    console.print(text, soft_wrap=not sys.stdout.isatty())


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; None becomes an empty cell."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*["" if value is None else str(value) for value in row])
    new_console().print(table)
