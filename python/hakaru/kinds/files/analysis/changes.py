"""Events of a repetition that change what the files are on: their times, and the rates before,
meanwhile and after. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hakaru.analysis.run_data import Repetition
from hakaru.kinds.files import names

AFTERMATH_NS = 1_000_000_000
"""Time after a change that counts as a part of it: the array discards and synchronises new pages
then, and clients send again what was held.
"""
Change = dict[str, Any]
"""An event as `hakaru.run.events` records it."""


def of(repetition: Repetition, name: str) -> list[Change]:
    """Return the events of a name that were carried out, in order."""
    return [event for event in repetition.events if event["event"] == name]


def span(changes: Sequence[Change]) -> tuple[int, int]:
    """Return the instants of the first begin and of the last end."""
    return min(int(each["begun_ns"]) for each in changes), max(int(each["done_ns"]) for each in changes)


def longest_ms(changes: Sequence[Change]) -> float:
    """Return the time of the longest change."""
    return max((int(each["done_ns"]) - int(each["begun_ns"])) / 1e6 for each in changes)


def rates_around(repetition: Repetition, changes: Sequence[Change]) -> tuple[float, float, float]:
    """Return the files per second before the changes, from the first one to a second after the last
    one, and after that. NaN without samples.
    """
    begun, done = span(changes)
    start, end = repetition.window
    over = min(done + AFTERMATH_NS, end)
    return _rate(repetition, start, begun), _rate(repetition, begun, over), _rate(repetition, over, end)


def _rate(repetition: Repetition, begin_ns: int, end_ns: int) -> float:
    return sum(
        repetition.counters.total_rate((begin_ns, end_ns), engine="files", entity=names.ENTITY, name=name)
        for name in names.COUNTERS[names.RATE]
    )
