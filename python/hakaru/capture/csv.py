"""An analysis as rows of a CSV file: one for each kind of command and for each of its phases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

COLUMNS = (
    "session",
    "initiator",
    "target",
    "kind",
    "phase",
    "commands",
    "failed",
    "bytes",
    "sum_ns",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "max_ns",
)


def csv_rows(analysed: dict[str, Any]) -> Iterator[tuple[str | int, ...]]:
    """Yield the column titles, then the rows. The phase `all` is the entire command."""
    yield COLUMNS
    for count, session in enumerate(analysed["capture"]["sessions"], 1):
        for kind in ("reads", "writes", "others"):
            commands = session[kind]
            keys = (count, session["initiator"], session["target"], kind)
            counts = (commands["commands"], commands["failed"], commands["bytes"])
            yield *keys, "all", *counts, commands["latency_sum_ns"], *_spread(commands["latency"])
            for name, phase in commands["phases"].items():
                yield *keys, name, *counts, phase["sum_ns"], *_spread(phase)


def _spread(spread: dict[str, int]) -> tuple[int, ...]:
    return tuple(spread[name] for name in ("mean_ns", "p50_ns", "p99_ns", "max_ns"))
