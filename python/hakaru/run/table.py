"""Tables on stdout: what a run found, what a query gave."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from hakaru.wording import number

# As wide as a terminal, else wide enough that no cell of ours wraps in a file.
WIDTH_WITHOUT_TERMINAL = 160


def _console() -> Console:
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False)


def print_summary(summary: dict[str, Any], reports: Sequence[Path]) -> None:
    """The points of a run, its findings and expectations, and where the report is."""
    console = _console()
    factors = list(dict.fromkeys(name for point in summary["points"] for name in point["factors"]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in factors:
        table.add_column(name, justify="right" if name != "pattern" else "left")
    for title in ("IOPS", "95 %", "MB/s", "mean ms", "p99 ms", "drives", "link", "origin"):
        table.add_column(title, justify="left" if title == "origin" else "right")
    table.add_column("caveats")
    for point in summary["points"]:
        table.add_row(*[str(point["factors"].get(name, "")) for name in factors], *_cells(point))
    console.print(table)
    for finding in summary["findings"]:
        console.print(finding["text"], markup=False)
    held = [e for e in summary["expectations"] if e["held"] is True]
    if summary["expectations"]:
        console.print(f"expectations: {len(held)} of {len(summary['expectations'])} hold", markup=False)
    for path in reports:
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def _cells(point: dict[str, Any]) -> list[str]:
    metrics, use = point["metrics"], point["utilisation"]
    iops = metrics.get("iops") or {}
    interval = f"{number(iops.get('low'))}–{number(iops.get('high'))}" if iops.get("low") is not None else "–"
    links = [u["mean"] for name, u in use.items() if name.startswith("link/") and u["mean"] is not None]
    return [
        number(iops.get("mean")),
        interval,
        _mean(metrics, "mb_per_s"),
        _mean(metrics, "latency_ms_mean"),
        _mean(metrics, "latency_ms_p99"),
        _percent((use.get("drives") or {}).get("mean")),
        _percent(max(links, default=None)),
        point["origin"],
        ", ".join(dict.fromkeys(c["caveat"] for c in point["caveats"])),
    ]


def _mean(metrics: dict[str, Any], name: str) -> str:
    return number((metrics.get(name) or {}).get("mean"))


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} %"


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows of a query."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*["" if value is None else str(value) for value in row])
    _console().print(table, markup=False)
