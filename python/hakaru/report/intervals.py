"""The intervals between samples of a run, in words."""

from __future__ import annotations

from hakaru.study.intervals import Intervals
from hakaru.units import format_duration
from hakaru.wording import say


def in_words(intervals: Intervals, language: str) -> str:
    """`1 s`, or `10 s (arrays 60 s, drives 200 ms)`: the interval of hosts, with those that
    differ.
    """
    hosts = format_duration(intervals.hosts)
    defaults = {"arrays": intervals.hosts, "switches": intervals.hosts, "drives": intervals.arrays}
    others = [
        say(language, f"interval.{name}", {"interval": format_duration(getattr(intervals, name))})
        for name, default in defaults.items()
        if getattr(intervals, name) != default
    ]
    if not others:
        return hosts
    return say(language, "interval.each", {"hosts": hosts, "others": say(language, "list.separator").join(others)})
