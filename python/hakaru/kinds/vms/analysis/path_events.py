"""Results of the events of paths: the gap in service after each one, its commands, and the time
until paths were used no longer, or again, beside the timers that cause it.

An event counts from the instant at which it was begun to that of the next event; the last one to
the end of the measuring phase. A gap is known exactly, by the clock of the VM's initiator. It
belongs to the event in whose time it ended, or lasted. Counts and the times of changes are those of
samples, so such a time is up to one sample interval too long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hakaru.analysis.counters import Series
from hakaru.analysis.estimate import finite
from hakaru.analysis.run_data import Repetition
from hakaru.caveats import Caveat
from hakaru.kinds.vms.analysis.failover import ENTITIES
from hakaru.kinds.vms.analysis.metrics import quotient
from hakaru.kinds.vms.entities import TOTAL
from hakaru.kinds.vms.events import RETURNS, TIMED, timers_of, tolerance_ms
from hakaru.kinds.vms.multipath import Multipath

NAN = float("nan")
UNITS: dict[str, str] = (
    {"failover_gap_s": "s"}
    | {f"{failure}_gap_s": "s" for failure in RETURNS}
    | {"link_down_gap_percent": "percent"}
    | {f"{failure}_failover_percent": "percent" for failure in TIMED}
    | {f"{end}_back_s": "s" for end in RETURNS.values()}
)
"""Metrics of loads with events, and their units, in the order of the report."""


@dataclass(frozen=True)
class PathLoad:
    """The properties of a load with events on which its gaps depend."""

    multipath: Multipath
    stands_still: bool
    """Whether a silent path stops its VMs: with a closed load and commands to all paths in turn,
    all requests soon wait for it.
    """
    transitions_ns: tuple[int, ...] = ()
    """Transition before the state of each event, in their order; 0 for each that is missing."""


@dataclass(frozen=True)
class EventResult:
    """Result of one event in one repetition; NaN for a value that it does not have."""

    event: str
    object: str
    at_s: float
    """Instant, seconds from the beginning of the measuring phase."""
    late_ms: float
    gap_ms: float
    """Longest time without a completed command of any VM that had some outstanding."""
    timers_ms: float
    """Sum of the timers behind it."""
    timers_are_most: bool
    """Whether the sum is a maximum."""
    changed_ms: float
    """Time until the last VM no longer used the path, or used it again."""
    failover_ms: float
    """Time from the last answer over a lost path until its commands were repeated on others; NaN if
    no path's were, because its session returned before or the next event began.
    """
    losses: float
    commands_repeated: float
    errors: float
    """Requests that failed."""
    usable_min: float
    """Fewest usable paths of a VM."""
    explained: bool | None
    """Whether timers explain gap and time to fail over; None if there is nothing to explain: no VM
    used the path, or no path was left to move to.
    """


def of_repetition(repetition: Repetition, load: PathLoad | None) -> list[EventResult]:
    """Result of every event, in order; empty without events."""
    if load is None or not repetition.events:
        return []
    transitions = dict(enumerate(load.transitions_ns))
    return [_result(repetition, load, i, transitions.get(i, 0)) for i in range(len(repetition.events))]


def _result(repetition: Repetition, load: PathLoad, index: int, transition_ns: int) -> EventResult:
    event, *later = repetition.events[index:]
    begin, is_last = int(event["begun_ns"]), not later
    end = repetition.window[1] if is_last else int(later[0]["begun_ns"])
    counters, name = repetition.counters, str(event["event"])

    def parts(counter: str, entity: str = ENTITIES) -> list[_Part]:
        selected = counters.select(engine="initiator", entity=entity, name=counter)
        # Of many VMs, only the last sample has counters of each one's paths.
        several = [series for _, series in selected if len(series.at_ns) > 1]
        return [_Part.of(series, begin, end, is_last=is_last) for series in several]

    def grown(counter: str, entity: str = ENTITIES) -> float:
        found = parts(counter, entity)
        return float(sum(part.growth for part in found)) if found else NAN

    is_failure = name in RETURNS
    timers = timers_of(name, load.multipath, transition_ns)
    timers_ms, failovers = timers.sum_ns / 1e6, grown("failovers")
    failover_ms = quotient(grown("failover_ns_sum"), failovers) / 1e6
    changes = parts("path_switches" if is_failure else "path_returns")
    gap_ms = max((part.most for part in parts("gap_ns_now")), default=NAN) / 1e6
    usable_min = min((part.least for part in parts("paths_usable_now")), default=NAN)
    # A path to a non-optimized port stays usable, so no counter shows that its commands move.
    moves = name == "port_non_optimized" or any(part.growth for part in changes)
    return EventResult(
        event=name,
        object=str(event["object"]),
        at_s=(begin - repetition.window[0]) / 1e9,
        late_ms=(begin - int(event["due_ns"])) / 1e6,
        gap_ms=gap_ms,
        timers_ms=timers_ms,
        timers_are_most=timers.is_most,
        changed_ms=max((part.last_change_ns - begin for part in changes if part.growth), default=NAN) / 1e6,
        failover_ms=failover_ms,
        losses=grown("path_losses"),
        commands_repeated=grown("commands_repeated"),
        errors=grown("errors", TOTAL),
        usable_min=usable_min,
        explained=_excess_ms(name, gap_ms, failover_ms, timers_ms, load, timers_ended=failovers != 0)
        <= tolerance_ms(timers_ms)
        if is_failure and moves and usable_min > 0
        else None,
    )


def _excess_ms(
    name: str, gap_ms: float, failover_ms: float, timers_ms: float, load: PathLoad, *, timers_ended: bool
) -> float:
    """Difference of a failure's times from its timers' sum, the larger one. A shorter gap is a
    difference only if other paths cannot serve the VMs meanwhile, because nothing shows yet that
    the path has failed, and if the timers ended: a session that returns before ends the gap.
    """
    gap = gap_ms - timers_ms
    if name == "link_down" and load.stands_still and timers_ended:
        gap = abs(gap)
    return gap if math.isnan(failover_ms) else max(gap, abs(failover_ms - timers_ms))


@dataclass(frozen=True)
class _Part:
    """The samples of a series from the last one before a time to the last one in it."""

    at_ns: Any
    value: Any

    @classmethod
    def of(cls, series: Series, begin: int, end: int, *, is_last: bool) -> _Part:
        """The part within a time. Neighbouring parts have no growth in common. The last part of a
        measuring phase ends with the first sample after it.
        """
        first = max(0, int(np.searchsorted(series.at_ns, begin, side="right")) - 1)
        last = int(np.searchsorted(series.at_ns, end, side="left" if is_last else "right")) - (not is_last)
        last = min(max(last, first), len(series.at_ns) - 1)
        return cls(series.at_ns[first : last + 1], series.value[first : last + 1])

    @property
    def growth(self) -> float:
        return float(self.value[-1] - self.value[0])

    @property
    def most(self) -> float:
        """Highest value of a gauge after the first sample."""
        return float(np.max(self.value[1:])) if len(self.value) > 1 else NAN

    @property
    def least(self) -> float:
        """Lowest value of a gauge after the first sample."""
        return float(np.min(self.value[1:])) if len(self.value) > 1 else NAN

    @property
    def last_change_ns(self) -> int:
        """Instant of the first sample with the last value."""
        return int(self.at_ns[int(np.argmax(self.value == self.value[-1]))])


def metrics_of(results: Sequence[EventResult]) -> dict[str, float]:
    """Metric → value of one repetition; NaN for a kind of event that it does not have. Gaps are
    those of failures that made a VM change its paths.
    """
    if not results:
        return {}
    failures = [result for result in results if result.explained is not None]
    values = dict.fromkeys(UNITS, NAN) | {"failover_gap_s": _most(result.gap_ms for result in failures) / 1e3}
    for failure, end in RETURNS.items():
        of_kind = [result for result in failures if result.event == failure]
        values[f"{failure}_gap_s"] = _most(result.gap_ms for result in of_kind) / 1e3
        if failure in TIMED:
            values[f"{failure}_failover_percent"] = _percent(of_kind, "failover_ms")
        if failure == "link_down":
            values["link_down_gap_percent"] = _percent(of_kind, "gap_ms")
        values[f"{end}_back_s"] = _most(result.changed_ms for result in results if result.event == end) / 1e3
    return values


def _percent(results: Sequence[EventResult], name: str) -> float:
    """A time in percent of the timers' sum, of the event with the largest difference."""
    percents = [100 * getattr(result, name) / result.timers_ms for result in results if result.timers_ms > 0]
    known = [percent for percent in percents if math.isfinite(percent)]
    return max(known, key=lambda percent: abs(percent - 100), default=NAN)


def _most(values: Iterator[float]) -> float:
    return max((value for value in values if math.isfinite(value)), default=NAN)


def caveats_of(results: Sequence[EventResult]) -> Iterator[Caveat]:
    """A caveat for each failure whose times its timers do not explain."""
    for result in results:
        if result.explained is False:
            failover_ms = finite(result.failover_ms)
            times_ms = {"gap_ms": result.gap_ms, "failover_ms": failover_ms, "timers_ms": result.timers_ms}
            yield Caveat("gap_unexplained", {"event": result.event, "object": result.object} | times_ms)


def to_json(repetitions: Sequence[Sequence[EventResult]]) -> list[dict[str, Any]]:
    """The events of a point, each with its mean over the repetitions that carried it out."""
    described = []
    for i in range(max(map(len, repetitions), default=0)):
        results = [results[i] for results in repetitions if len(results) > i]
        first = results[0]

        def mean(name: str, results: Sequence[EventResult] = results) -> float | None:
            values = [getattr(result, name) for result in results]
            known = [value for value in values if math.isfinite(value)]
            return finite(float(np.mean(known))) if known else None

        judged = [result.explained for result in results if result.explained is not None]
        names = ("at_s", "gap_ms", "timers_ms", "changed_ms", "failover_ms", "losses", "commands_repeated", "errors")
        described.append(
            {"event": first.event, "object": first.object}
            | {name: mean(name) for name in names}
            | {
                "late_ms_max": finite(_most(result.late_ms for result in results)),
                "gap_ms_max": finite(_most(result.gap_ms for result in results)),
                "usable_min": finite(min((result.usable_min for result in results), default=NAN)),
                "timers_are_most": first.timers_are_most,
                "explained": all(judged) if judged else None,
                "n": len(results),
            }
        )
    return described


def over_time(repetition: Repetition, instants_s: Sequence[float | None]) -> dict[str, list[float | None]]:
    """Usable paths of a VM, mean over the VMs, at these seconds of the measuring phase, and the
    seconds of the events; empty without events.
    """
    gauges = repetition.counters.select(engine="initiator", entity=ENTITIES, name="paths_usable_now")
    all_series = [series for _, series in gauges]
    if not repetition.events or not all_series:
        return {}
    start = repetition.window[0]
    instants = [start + round(t * 1e9) for t in instants_s if t is not None]
    usable = [float(np.mean([_last(series, instant) for series in all_series])) for instant in instants]
    begins = [(int(event["begun_ns"]) - start) / 1e9 for event in repetition.events]
    return {"paths_usable": [*usable], "event_s": [*begins]}


def _last(series: Series, instant: int) -> float:
    return float(series.value[max(0, int(np.searchsorted(series.at_ns, instant, side="right")) - 1)])
