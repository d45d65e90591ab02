"""Part of a kind that tuning uses: it builds the load of a tuning's study, computes the rate of a
trial, and reads the settings to start from out of a study.

The part is optional; a kind without it cannot be tuned. `hakaru.kinds` implements it. `of`,
`of_run` and `tunable` return it.
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
        """Return `load:` of the study whose points are trials: one request stream of the setup's
        conditions.

        `region`: size of the LU, as text. Knobs change its places by name (`Knob.places`).
        """

    @abstractmethod
    def factors(self, setup: Setup, settings: Settings) -> dict[str, Any]:
        """Return the levels of the kind's own factors at the point of a setting."""

    @abstractmethod
    def rate(
        self, run: RunData, repetition: Repetition, factors: Mapping[str, Any]
    ) -> tuple[float | None, list[Caveat]]:
        """Return the MB/s of a finished repetition at a point with these levels, None if it has no
        rate, and the caveats of its checks.
        """

    @abstractmethod
    def points(self, run: RunData, described: Iterable[Mapping[str, Any]]) -> list[Point]:
        """Return the points of the run, analysed as in any run of this kind."""

    @abstractmethod
    def defaults(self, study: Study) -> Defaults:
        """Return the settings that both ends of a study agree on, for `--from` and `--against`."""


def of(study: Study) -> TuneKind:
    """Return the part of the study's kind. Raises UsageError for a kind without it."""
    part = kind.of(study).tune
    if part is None:
        raise UsageError(
            f"study {study.id} is of kind {study.kind}, which has no settings to tune", "choose a study of another kind"
        )
    return cast(TuneKind, part)


def of_run(run: RunData) -> TuneKind:
    """Return the part of the kind of the run's study."""
    return cast(TuneKind, kind.of(run.study).tune)


def tunable() -> TuneKind:
    """Return the part of the first kind that can be tuned. Raises EnvironmentError_ if there is
    none.
    """
    part = next((study_kind.tune for study_kind in kind.of_studies().values() if study_kind.tune is not None), None)
    if part is None:
        raise EnvironmentError_("no installed kind of study can be tuned", "reinstall hakaru")
    return cast(TuneKind, part)
