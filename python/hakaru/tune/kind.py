"""The part of a kind that tuning uses: from a setup to the load of its study, from a trial to its
rate, and from a study to where to start.

Optional: a kind without it cannot be tuned. Implemented in `hakaru.kinds`; asked for through `of`
and `tunable`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, cast

from hakaru import kind
from hakaru.analysis.points import Point
from hakaru.analysis.run_data import Repetition, RunData
from hakaru.caveats import Caveat
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.study import Study
from hakaru.tune.knobs import Defaults, Settings
from hakaru.tune.setup import Setup


class TuneKind(ABC):
    """The part of a kind that tunes its studies."""

    @abstractmethod
    def load(self, setup: Setup, region: str) -> dict[str, Any]:
        """`load:` of the study whose points are trials: one request stream of the setup's
        conditions.

        `region`: size of the LU, as text. Knobs change its places by name (`Knob.places`).
        """

    @abstractmethod
    def factors(self, setup: Setup, settings: Settings) -> dict[str, Any]:
        """Levels of the kind's own factors at the point of a setting."""

    @abstractmethod
    def rate(
        self, run: RunData, repetition: Repetition, factors: Mapping[str, Any]
    ) -> tuple[float | None, list[Caveat]]:
        """MB/s of a finished repetition at a point with these levels, None where it has none; and
        the caveats of its checks.
        """

    @abstractmethod
    def points(self, run: RunData, described: Iterable[Mapping[str, Any]]) -> list[Point]:
        """Points of the run, analysed as those of any run of this kind."""

    @abstractmethod
    def defaults(self, study: Study) -> Defaults:
        """Settings that both ends of a study agree on: the start of a tuning with `--from`."""


def of(study: Study) -> TuneKind:
    """The part of the study's kind. Raises UsageError for a kind without it."""
    part = kind.of(study).tune
    if part is None:
        raise UsageError(
            f"study {study.id} is of kind {study.kind}, which has no settings to tune", "name another study"
        )
    return cast(TuneKind, part)


def of_run(run: RunData) -> TuneKind:
    """The part of the kind by whose load the run's study was made."""
    return cast(TuneKind, kind.of(run.study).tune)


def tunable() -> TuneKind:
    """The part of the first kind that has one. Raises EnvironmentError_ where none is installed."""
    part = next((one.tune for one in kind.of_studies().values() if one.tune is not None), None)
    if part is None:
        raise EnvironmentError_("no installed kind of study can be tuned", "reinstall hakaru")
    return cast(TuneKind, part)
