"""The state of a run in progress, from its events. Pure: it reads no file, socket or clock.

`apply` takes the events of `hakaru.live.feed`, `learn` the answers of `hakaru.live.analyst`.
docs/reference/command-line.md lists the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SERIES_MAX = 900
"""Samples that are kept of the current repetition: those of the last quarter of an hour."""
ENDED = ("done", "interrupted", "failed", "killed")

Status = Literal["running", "done", "interrupted", "failed", "killed"]


@dataclass
class Point:
    """One point of the study."""

    id: str
    factors: dict[str, Any]
    planned: int
    """Repetitions that the study asks for."""
    ended: dict[int, bool] = field(default_factory=dict)
    """Number of each repetition that has ended → whether it gave a result."""
    rate: float | None = None
    """Chief rate of the last repetition."""
    columns: Sequence[str] = ()
    cells: Sequence[str] = ()
    """Results over the repetitions so far, in the columns of the kind of study; empty before the
    first analysis.
    """
    limiter: str | None = None
    """The bottleneck so far, as in the report; None before the first analysis."""
    valid: bool = True
    caveats: list[dict[str, Any]] = field(default_factory=list)
    """As in the report: `{caveat, severity, text, text_ja, …}`."""

    @property
    def failed(self) -> int:
        """Repetitions that gave no result."""
        return sum(not succeeded for succeeded in self.ended.values())

    def to_json(self) -> dict[str, Any]:
        """The point as plain JSON."""
        return {**asdict(self), "done": len(self.ended), "failed": self.failed}


@dataclass
class Series:
    """Values of the current repetition over time. `at`: seconds since the epoch."""

    at: deque[float] = field(default_factory=lambda: deque(maxlen=SERIES_MAX))
    rates: dict[str, deque[float | None]] = field(default_factory=dict)
    queues: dict[str, deque[float | None]] = field(default_factory=dict)

    def add(self, at: float, rates: Mapping[str, float | None], queues: Mapping[str, float | None]) -> None:
        """Add one sample. A value that is missing becomes None, so that all series have the length
        of `at`.
        """
        for known, new in ((self.rates, rates), (self.queues, queues)):
            for name in new:
                if name not in known:
                    known[name] = deque([None] * len(self.at), maxlen=SERIES_MAX)
            for name, values in known.items():
                values.append(new.get(name))
        self.at.append(at)


@dataclass
class State:
    """A run. `at` of the newest event; `left_s` was expected then."""

    run: str
    study: str = ""
    kind: str = ""
    title: dict[str, str] = field(default_factory=dict)
    started: str = ""
    status: Status = "running"
    phase: str = ""
    detail: str = ""
    at: float = 0.0
    left_s: float | None = None
    done: int = 0
    total: int = 0
    points: dict[str, Point] = field(default_factory=dict)
    current: str | None = None
    """Point of the repetition in progress."""
    repetition: int | None = None
    text: str = ""
    """Current rates, for people."""
    series: Series = field(default_factory=Series)
    reports: list[str] = field(default_factory=list)

    @classmethod
    def of_files(
        cls,
        run: str,
        described: Mapping[str, Any],
        points: Sequence[Mapping[str, Any]],
        repetitions: Sequence[Mapping[str, Any]],
    ) -> State:
        """The state that the files of a run give: contents of run.json, of points.json, and of the
        files of repetitions that have ended.
        """
        state = cls(
            run,
            study=str(described.get("study", "")),
            kind=str(described.get("kind", "")),
            title=dict(described.get("title") or {}),
            started=str(described.get("started", "")),
            points={str(p["point"]): Point(str(p["point"]), dict(p["factors"]), int(p["repetitions"])) for p in points},
        )
        state.total = sum(point.planned for point in state.points.values())
        for record in repetitions:
            state._count(record, succeeded=record["status"] == "done")
        return state

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen to its repetitions."""
        return self.status in ENDED

    def learn(self, answer: Mapping[str, Any]) -> None:
        """Take an answer of the analyst about one point."""
        point = self.points.get(str(answer["point"]))
        if point is not None and "cells" in answer:
            point.columns, point.cells = answer["columns"], answer["cells"]
            point.limiter, point.valid = answer["limiter"], answer["valid"]
            point.caveats = list(answer["caveats"])

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take an event. Unknown events change nothing."""
        self.at = float(event.get("at", self.at))
        if "left_s" in event:
            self.left_s = float(event["left_s"])
        match event["event"]:
            case "run_started":
                self.total, self.done = int(event["repetitions"]), int(event["done"])
            case "phase":
                self.phase, self.detail = str(event["phase"]), str(event["detail"])
                self.text = ""
            case "repetition_started":
                self._begin(event)
            case "sample":
                self.text = str(event.get("text", ""))
                self.series.add(self.at, numbers(event), event.get("queues") or {})
            case "result":
                self._result(event)
            case "repetition":
                self._end(event)
            case "run_ended":
                self.status = event["status"]
                self.done, self.total = int(event["done"]), int(event["total"])
                self.current = self.repetition = None
                self.text = ""
            case "done":
                self.reports = list(event["reports"])
                self.phase = self.detail = ""
                self.left_s = 0.0
            case "closed":
                if not self.has_ended:
                    status = event.get("status")
                    self.status = status if status in ENDED else "killed"
                self.current = self.repetition = self.left_s = None

    def _begin(self, event: Mapping[str, Any]) -> None:
        name = str(event["point"])
        if name not in self.points:
            # A tuning chooses its points while it runs.
            self.points[name] = Point(name, dict(event["factors"]), 1)
        self.current, self.repetition = name, int(event["repetition"])
        self.points[name].planned = max(self.points[name].planned, self.repetition)
        self.done, self.total = int(event["done"]), int(event["total"])
        self.phase, self.detail = "load", str(event.get("label", ""))
        self.text, self.series = "", Series()

    def _result(self, event: Mapping[str, Any]) -> None:
        point = self.points.get(str(event["point"]))
        if point is not None:
            point.rate = next((rate for rate in numbers(event).values() if rate is not None), None)

    def _end(self, event: Mapping[str, Any]) -> None:
        self._count(event, succeeded=bool(event["measure"]["end_ns"]))
        self.done += 1
        self.current = self.repetition = None

    def _count(self, record: Mapping[str, Any], *, succeeded: bool) -> None:
        point = self.points.get(str(record["point"]))
        if point is not None:
            point.ended[int(record["repetition"])] = succeeded

    def to_json(self) -> dict[str, Any]:
        """The state as plain JSON, for a page."""
        series = {"at": list(self.series.at)}
        shown = {name: {k: list(v) for k, v in getattr(self.series, name).items()} for name in ("rates", "queues")}
        own = {name: value for name, value in vars(self).items() if name not in ("series", "points")}
        return own | {"points": [p.to_json() for p in self.points.values()], "series": series | shown}


def numbers(event: Mapping[str, Any]) -> dict[str, float | None]:
    """The rates of a `sample` or `result`: its numbers, and values that do not exist (None)."""
    other = ("at", "repetition", "left_s", "point", "event", "text", "queues", "error")
    return {
        name: value
        for name, value in event.items()
        if name not in other and (value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)))
    }
