"""The part of a kind that analysis uses: it turns a run's samples into a summary.

Implemented in `hakaru.kinds` and by other packages; `of` returns it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

from hakaru import kind
from hakaru.analysis import direction
from hakaru.analysis.points import Point
from hakaru.analysis.rules.judge import Stages, verdicts_of
from hakaru.analysis.run_data import RunData
from hakaru.study.results import PointResults


@runtime_checkable
class PointAnalysis(Protocol):
    """An `AnalysisKind` that can analyse one point, also during the run. A search for a goal and a
    requested precision judge points by it, so studies of other kinds can have neither.
    """

    def point(self, run: RunData, raw: Mapping[str, Any]) -> Point:
        """Analyse one point. `raw`: its description in points.json."""
        ...


class AnalysisKind(ABC):
    """The part of a kind that analyses its runs."""

    @property
    def rules(self) -> Stages:
        """The possible bottlenecks, in the order in which they are evaluated. Default: none, so
        every point is undetermined.

        They determine the verdicts that an expectation may name, docs/methodology/limiter.md and
        the message ids.
        """
        return ()

    @property
    def verdicts(self) -> frozenset[str]:
        """Names of the verdicts that these rules can give. Follows from `rules`."""
        return verdicts_of(self.rules)

    def better(self, metric: str) -> Literal["higher", "lower"] | None:
        """Whether higher or lower values of a metric are better; None if neither. Default: by the
        words of its name (`hakaru.analysis.direction`).
        """
        return direction.better(metric)

    @property
    def judges_points(self) -> bool:
        """Whether single points can be analysed: whether this is a `PointAnalysis`."""
        return isinstance(self, PointAnalysis)

    def results(self, directory: Path, raw: Mapping[str, Any]) -> PointResults | None:
        """The results of one point of a run in progress; None if its numbers may not be used, or
        if the kind cannot analyse single points.
        """
        if not isinstance(self, PointAnalysis):
            return None
        point = self.point(RunData.read(directory), raw)
        return PointResults(point.metrics, point.chief) if point.valid else None

    @abstractmethod
    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run (docs/reference/report-json.md), as plain JSON without NaN."""


def of(run: kind.HasKind) -> AnalysisKind:
    """The analysis part of the run's kind."""
    return cast(AnalysisKind, kind.of(run).analysis)
