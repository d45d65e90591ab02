"""Checks of the intervals between samples. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.study.consistency_points import measures_of
from hakaru.study.intervals import Intervals, SampleIntervals
from hakaru.study.model import Study
from hakaru.study.variables import Problem
from hakaru.units import format_duration

INTERVALS_MIN = 2
"""Least number of intervals in a measuring time."""


def interval_problems(study: Study) -> Iterator[Problem]:
    """Problems of the intervals of both forms of a study. The default of one second is not checked:
    results say if it was too long.
    """
    for form, measure in measures_of(study):
        if "sample_interval" in measure.model_fields_set:
            for place, message, hint in _problems(measure.sample_interval, measure.time):
                yield (*form, "sample_interval", *place), message, hint


def _problems(intervals: SampleIntervals, time: int | None) -> Iterator[Problem]:
    """Problems of intervals of a measurement that lasts `time`; None if the load ends by itself.
    Their places are inside `sample_interval`.
    """
    written = {name: getattr(intervals, name) for name in Intervals._fields if name in intervals.model_fields_set}
    for name, interval in written.items():
        if time is not None and interval is not None and interval > time // INTERVALS_MIN:
            most = format_duration(time // INTERVALS_MIN)
            message = f"{format_duration(interval)} is too long to measure for {format_duration(time)}"
            yield _place(name, written), message, f"use at most {most}, or a longer `time`"
    _, arrays, _, drives = intervals.by_node
    of_array, of_drives = format_duration(arrays), format_duration(drives)
    if drives > arrays:
        message = f"{of_drives} is longer than the interval of the array, {of_array}"
        yield ("drives",), message, f"use at most {of_array}, or leave it out"
    elif arrays % drives:
        whole = format_duration(arrays // drives * drives)
        message = f"the interval of the array, {of_array}, is not a multiple of {of_drives}"
        yield ("drives",), message, f"use a divisor of it, or {whole} for the array"


def _place(name: str, written: dict[str, int | None]) -> tuple[str, ...]:
    """The place of an interval. A plain duration is that of hosts."""
    return () if list(written) == ["hosts"] else (name,)
