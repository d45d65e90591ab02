"""What `hakaru array` shows people: tables and sentences made of the JSON that the control socket gives."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from hakaru.run.table import WIDTH_WITHOUT_TERMINAL
from hakaru.units import format_size
from hakaru.wording import number

Json = dict[str, Any]

# Parts of a modelled array, in the order in which a request passes them.
STATIONS = ("port", "controller", "cache", "group", "drive")


def print_json_line(value: Any) -> None:
    """One line of JSON on stdout, at once."""
    print(json.dumps(value, ensure_ascii=False, allow_nan=False), flush=True)


def printable(text: str) -> str:
    """`text` with whatever could steer a terminal written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def serving(status: Json) -> list[str]:
    """What an operator who starts an array wants to read."""
    lines = [f"{status['target_name']} on {', '.join(status['portals'])}, process {status['pid']}"]
    lines += [f"  LU {lu['lun']}: {about(lu)}" for lu in status["lus"]]
    lines.append(f"  state in {status['state']}")
    if status["metrics"]:
        lines.append(f"  metrics at {status['metrics']}")
    lines.append("Ctrl-C stops it")
    return lines


def about(lu: Json) -> str:
    """An LU in a few words."""
    words = [format_size(lu["size_bytes"]), kept_in(lu)]
    if lu["read_only"]:
        words.append("read-only")
    return ", ".join(words)


def kept_in(lu: Json) -> str:
    """Where an LU's bytes are, in a word."""
    return str(lu["store"])


def print_status(status: Json) -> None:
    """The state of the array: sessions, LUs, pools, and of a modelled one how busy each part is."""
    console = Console(
        file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL, highlight=False, markup=False
    )
    sessions = status["counters"].get("sessions", {})
    print(f"{status['target_name']} on {', '.join(status['portals'])}")
    there = f"{sessions.get('sessions_now', 0):.0f} sessions on {sessions.get('connections_now', 0):.0f} connections"
    print(f"up {span(status['uptime_s'])}, {there}, process {status['pid']}")
    if status["metrics"]:
        print(f"metrics at {status['metrics']}")
    console.print(_lus(status))
    busy = [entity for entity in status["rates"] if entity.partition("/")[0] in STATIONS]
    busy = [entity for entity in busy if "busy_percent" in status["rates"][entity]]
    if busy:
        console.print(_stations(status, sorted(busy, key=_order)))


def _lus(status: Json) -> Table:
    rows = []
    for lu in status["lus"]:
        now = status["rates"].get(f"lu/{lu['lun']}", {})
        rows.append(
            (
                str(lu["lun"]),
                format_size(lu["size_bytes"]),
                kept_in(lu),
                *(number(now.get(f"{name}_per_s")) for name in ("reads", "writes")),
                *(_megabytes(now.get(f"{name}_bytes_per_s")) for name in ("read", "write")),
            )
        )
    return table(("LUN", "size", "store", "reads/s", "writes/s", "MB/s read", "MB/s written"), rows, left=(2,))


def _stations(status: Json, entities: Sequence[str]) -> Table:
    rows = []
    for entity in entities:
        now = status["rates"][entity]
        rows.append(
            (
                entity,
                f"{now['busy_percent']:.0f} %",
                number(now["queue"]),
                number(now["service_ms"]),
                *(number(now.get(f"{name}_per_s")) for name in ("reads", "writes")),
            )
        )
    return table(("part", "busy", "queue", "service ms", "reads/s", "writes/s"), rows, left=(0,))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> Table:
    """A table of the kind that every command prints; columns in `left` are text, the others numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, title in enumerate(titles):
        made.add_column(title, justify="left" if i in left else "right", overflow="fold")
    for row in rows:
        made.add_row(*(printable(cell) for cell in row))
    return made


def span(seconds: float) -> str:
    """`3 h 12 min`: two units are enough to know."""
    for unit, size, below, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit} {rest // part} {below}"
    return f"{int(seconds)} s"


def _megabytes(bytes_per_s: float | None) -> str:
    return number(None if bytes_per_s is None else bytes_per_s / 1e6)


def _order(entity: str) -> tuple[int, list[int]]:
    kind, _, instance = entity.partition("/")
    return STATIONS.index(kind), [int(part) for part in instance.split(".") if part.isdigit()]
