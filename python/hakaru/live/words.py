"""Words of the views of a run, in one language at a time."""

from __future__ import annotations

from collections.abc import Sequence

from hakaru.analysis import sentences
from hakaru.live.state import Point, State
from hakaru.run.progress import duration
from hakaru.wording import has, number, say, with_note


def point_names(points: Sequence[Point], language: str) -> dict[str, str]:
    """Id of each point → its levels of the factors that vary: `random-32k, 7 VMs`. Of a single
    point, all levels.
    """
    levels: dict[str, set[str]] = {}
    for point in points:
        for factor, level in point.factors.items():
            levels.setdefault(factor, set()).add(str(level))
    varied = {factor for factor, found in levels.items() if len(found) > 1} or set(levels)
    return {
        point.id: sentences.series({f: v for f, v in point.factors.items() if f in varied}, language) or point.id
        for point in points
    }


def limiter(point: Point, language: str) -> str:
    """The bottleneck of a point so far; empty before the first analysis."""
    return "" if point.limiter is None else say(language, f"limiter.{point.limiter}")


def rate_name(name: str, language: str) -> str:
    """The name of a rate of the events `sample` and `result`; rates of other packages as they
    are.
    """
    return say(language, f"live.rate.{name}") if has(f"live.rate.{name}") else name


def queue_name(name: str, language: str) -> str:
    """The name of a queue of `hakaru.run.queues`."""
    return say(language, f"live.queue.{name}")


def result(point: Point) -> tuple[str, str]:
    """Title and value of the chief result of a point with its interval: `IOPS`, `3,280 ± 12`.
    Before the first analysis, the rate of its last repetition, without title.
    """
    if not point.cells:
        return "", "" if point.rate is None else number(point.rate)
    if len(point.columns) > 1 and point.columns[1] == "±":
        return point.columns[0], f"{point.cells[0]} ± {point.cells[1]}"
    return point.columns[0], point.cells[0]


def tail(point: Point) -> tuple[str, str]:
    """Title and value of the first column about the 99th percentile; empty if there is none."""
    return next(((t, c) for t, c in zip(point.columns, point.cells, strict=True) if "p99" in t), ("", ""))


def others(point: Point) -> list[tuple[str, str]]:
    """Title and value of the other columns."""
    shown = {result(point)[0], tail(point)[0], "±", "bottleneck"}
    return [(t, c) for t, c in zip(point.columns, point.cells, strict=True) if t not in shown]


def caveats(point: Point, language: str) -> list[str]:
    """The texts of the caveats of a point, the reasons why it is invalid first."""
    ordered = sorted(point.caveats, key=lambda caveat: caveat["severity"] != "invalid")
    return [str(caveat["text" if language == "en" else f"text_{language}"]) for caveat in ordered]


def status(state: State, language: str) -> str:
    """The status of the run and its phase: `running (load 3/12)`, `done`."""
    words = say(language, f"live.status.{state.status}")
    if state.phase == "load" and state.current is not None:
        place = f"{min(state.done + 1, state.total)}/{state.total}"
        return with_note(language, words, say(language, "live.load", {"place": place}))
    if state.phase and state.phase != "load" and (state.status == "running" or state.left_s):
        return with_note(language, words, say(language, f"live.phase.{state.phase}"))
    return words


def time_left(state: State, now: float, language: str) -> str:
    """Time left at `now` (seconds since the epoch); empty if the run has ended."""
    if not state.left_s:
        return ""
    return say(language, "live.left", {"time": duration(state.left_s - max(0.0, now - state.at))})


def value(amount: float | None, language: str) -> str:
    """A number of a series."""
    return number(amount, language)
