"""Tables on stdout: what a run found, what a query gave."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from hakaru.report import kind

# As wide as a terminal, else wide enough that no cell of ours wraps in a file.
WIDTH_WITHOUT_TERMINAL = 160


def new_console() -> Console:
    """Stdout as a console."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)


def say(console: Console, text: str) -> None:
    """A paragraph: wrapped on a terminal, one line in a file."""
    console.print(text, markup=False, soft_wrap=not sys.stdout.isatty())


def print_summary(summary: dict[str, Any], reports: Sequence[Path]) -> None:
    """The points of a run, its findings and expectations, and where the report is."""
    console = new_console()
    factors = list(dict.fromkeys(name for point in summary["points"] for name in point["factors"]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in factors:
        words = any(isinstance(point["factors"].get(name), str) for point in summary["points"])
        table.add_column(name, justify="left" if words else "right", no_wrap=True)
    shown = kind.of(summary["run"]["kind"]).table(summary)
    for title in shown.columns:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    marks = {code: str(i) for i, code in enumerate(_caveats(summary), start=1)}
    for point, values in zip(summary["points"], shown.rows, strict=True):
        own = dict.fromkeys(c["caveat"] for c in point["caveats"])
        cells = [str(point["factors"].get(name, "")) for name in factors]
        table.add_row(*cells, *values, " ".join(marks[code] for code in own))
    console.print(table)
    for code, text in _caveats(summary).items():
        say(console, f"{marks[code]}  {text}")
    origins = sorted({point["origin"] for point in summary["points"]})
    say(console, f"origin: {', '.join(origins)}\n")
    for finding in summary["findings"]:
        say(console, finding["text"])
    _print_expectations(console, summary["expectations"])
    for path in reports:
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def _print_expectations(console: Console, expectations: Sequence[dict[str, Any]]) -> None:
    judged = [e for e in expectations if e["held"] is not None]
    if not expectations:
        return
    left = len(expectations) - len(judged)
    rest = f" ({left} cannot be judged from these points)" if left else ""
    say(console, f"expectations: {sum(e['held'] for e in judged)} of {len(judged)} hold{rest}")


def _caveats(summary: dict[str, Any]) -> dict[str, str]:
    """Caveat → its text at the first point that has it; points may differ in its numbers, which the report shows."""
    found: dict[str, str] = {}
    for point in summary["points"]:
        for caveat in point["caveats"]:
            found.setdefault(caveat["caveat"], f"{caveat['caveat']}: {caveat['text']}")
    return found


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows of a query."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*["" if value is None else str(value) for value in row])
    new_console().print(table, markup=False)
