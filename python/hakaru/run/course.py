"""The course of a run: which repetitions it has, and what becomes of their results.

`Run` executes a course. `StudyCourse` follows the schedule of a study; `hakaru.tune.run` has the
course of a tuning.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from hakaru import kind as kinds
from hakaru.caveats import Caveat
from hakaru.errors import DeviceError, GuestError, HakaruError, UnansweredError
from hakaru.run import plan as planned
from hakaru.run.outcome import Outcome
from hakaru.run.preparation import Prepared
from hakaru.run.progress import Watchers
from hakaru.run.schedule import schedule_of
from hakaru.store import RunWriter
from hakaru.study import Expanded, Point, Repetition
from hakaru.study.results import PointResults

UNANSWERED_MAX = 3
"""Repetitions in a row that the equipment of a site did not answer, after which the run ends. A lab
starts its storage anew for each repetition, a search measures levels that may be too high, and a
resumed run repeats those that were not answered.
"""


class Course(Protocol):
    """Decides on the repetitions of one run. The calls, in order: `begin`; for each repetition
    `next`, `complete` or `survive`, `take`; `describe` and the properties at any time.
    """

    @property
    def expanded(self) -> Expanded:
        """The study, with the points so far."""
        ...

    @property
    def most(self) -> int:
        """Repetitions at most, or the expected number if results decide."""
        ...

    def describe(self) -> dict[str, Any]:
        """Entries of run.json, besides those of every run."""
        ...

    def begin(self, writer: RunWriter, done: Collection[str], *, is_resumed: bool) -> None:
        """Write points.json, and learn the names of the finished repetitions. `done` grows with the
        run.
        """
        ...

    def next(self) -> Repetition | None:
        """The next repetition; None at the end."""
        ...

    def survive(self, error: HakaruError) -> list[Caveat] | None:
        """The caveats of a repetition that failed with this error, if the run continues; None if
        the error ends the run.
        """
        ...

    def complete(self, turn: Repetition, outcome: Outcome, seconds: float) -> None:
        """Add to the record of a repetition, before it is stored. `seconds`: its duration."""
        ...

    def take(self, turn: Repetition, outcome: Outcome, seconds: float, watch: Watchers) -> None:
        """Learn a repetition that is stored, and show its result."""
        ...

    def left_s(self) -> float:
        """Expected seconds until the report is written."""
        ...


class StudyCourse:
    """The repetitions that the schedule of a study asks for."""

    def __init__(self, prepared: Prepared) -> None:
        self.expanded = prepared.expanded
        self._schedule = schedule_of(prepared.expanded)
        self._remaining = _Remaining(prepared)
        self._done: Collection[str] = ()
        self._writer: RunWriter | None = None
        self._results: _Results | None = None
        self._is_site = prepared.site is not None
        self._has_result = self._may_end = False
        self._unanswered = 0

    @property
    def most(self) -> int:
        """As the schedule."""
        return self._schedule.most

    def describe(self) -> dict[str, Any]:
        """Nothing more."""
        return {}

    def begin(self, writer: RunWriter, done: Collection[str], *, is_resumed: bool) -> None:
        """Write points.json, unless the resumed run has it."""
        self._writer, self._done = writer, done
        self._results = _Results(self.expanded, writer.directory)
        self._has_result = bool(done)
        self._may_end = self._is_site and self._schedule.is_fixed and not is_resumed
        # A run that was killed while it was opened may lack the file.
        if not is_resumed or not self._schedule.is_fixed or not (writer.directory / "points.json").exists():
            self._write_points(writer)

    def _write_points(self, writer: RunWriter) -> None:
        """Write points.json: the points with their planned repetitions, or those that a search has
        measured so far.
        """
        described = []
        for point in self.expanded.points:
            times = self._schedule.planned(point, self._done)
            if times:
                described.append({"point": point.id, "factors": point.factors, "repetitions": times})
        writer.write("points.json", described)

    def next(self) -> Repetition | None:
        """As the schedule, by the results so far."""
        assert self._results is not None, "`begin` comes first"
        return self._schedule.next(self._done, self._results)

    def survive(self, error: HakaruError) -> list[Caveat] | None:
        """The caveat of a device or guest that failed, or of a load that was not answered; None for
        other errors. An unanswered load ends the run if the run has no result yet, or if the
        storage of a site seems to answer no more.
        """
        if isinstance(error, UnansweredError):
            self._unanswered += 1
            is_silent = self._may_end and self._unanswered >= UNANSWERED_MAX
            if is_silent or not self._has_result:
                return None
            return [Caveat("load_unanswered", {"error": error.message})]
        if not isinstance(error, DeviceError):
            return None
        name = "guest_failed" if isinstance(error, GuestError) else "device_failed"
        return [Caveat(name, {"error": error.message})]

    def complete(self, turn: Repetition, outcome: Outcome, seconds: float) -> None:
        """Add nothing."""

    def take(self, turn: Repetition, outcome: Outcome, seconds: float, watch: Watchers) -> None:
        """Write the points of a search, and show the rates."""
        assert self._writer is not None, "`begin` comes first"
        if outcome.record["status"] == "done":
            self._has_result, self._unanswered = True, 0
        if not self._schedule.is_fixed:
            self._write_points(self._writer)
        if outcome.rates is not None:
            watch.result(turn, outcome.rates)
        self._remaining.took(turn, seconds)

    def left_s(self) -> float:
        """By the durations of the repetitions so far."""
        return self._remaining.left_s(self._schedule.left(self._done))


class _Results:
    """Results of the points of a run in progress, as in its report. Each is computed once per
    repetition.
    """

    def __init__(self, expanded: Expanded, directory: Path) -> None:
        self._analysis = kinds.of(expanded.study).analysis
        self._directory = directory
        self._known: dict[tuple[str, int], PointResults | None] = {}

    def __call__(self, point: Point, times: int) -> PointResults | None:
        key = point.id, times
        if key not in self._known:
            raw = {"point": point.id, "factors": point.factors, "repetitions": times}
            self._known[key] = self._analysis.results(self._directory, raw)
        return self._known[key]


class _Remaining:
    """Remaining time of a run: planned at first, then scaled by the repetitions that have ended.
    Points that this machine cannot measure take none.
    """

    def __init__(self, prepared: Prepared) -> None:
        expanded, self._planned_s = prepared.expanded, dict[str, float]()
        for point in (point for point in expanded.points if point.id not in prepared.impossible):
            cost = planned.cost_of(expanded, point, prepared.lab)
            self._planned_s[point.id] = cost.seconds + planned.REPETITION_S
        self._took_s = self._planned_for_s = 0.0

    def took(self, turn: Repetition, seconds: float) -> None:
        """Record the duration of a repetition."""
        if turn.point.id in self._planned_s:
            self._took_s += seconds
            self._planned_for_s += self._planned_s[turn.point.id]

    def left_s(self, left: list[Repetition]) -> float:
        """Expected seconds until the report is written, with these repetitions left."""
        slower = self._took_s / self._planned_for_s if self._planned_for_s else 1.0
        return slower * sum(self._planned_s.get(turn.point.id, 0.0) for turn in left) + planned.REPORT_S
