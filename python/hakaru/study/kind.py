"""The part of a kind that studies use: the model of its `load:`, and checks between fields.

Implemented in `hakaru.kinds` and by other packages; `of` returns it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Literal, TypeVar, cast

from hakaru import kind
from hakaru.study.any_load import Load
from hakaru.study.model import Study
from hakaru.study.variables import Problem


class StudyKind(ABC):
    """Fields, factors and metrics of studies of a kind."""

    extends_warm_up = False
    """Whether the warm-up of loads of this kind can last until their rate is steady."""

    @property
    @abstractmethod
    def load(self) -> type[Load]:
        """The model of `load:`."""

    @property
    def factors(self) -> Mapping[str, str]:
        """Factors that every study of this kind has without naming them under `variables`, and the
        place of each.

        `{"vms": "load.vms"}`: a level of the factor `vms` is the value of that place at its points.
        Default: none.
        """
        return {}

    @abstractmethod
    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""

    def can_search(self, study: Study) -> bool:
        """Whether studies of this kind may have a goal. Default: if the kind's analysis can judge
        single points.
        """
        return cast(bool, kind.of(study).analysis.judges_points)

    def better(self, study: Study, metric: str) -> Literal["higher", "lower"] | None:
        """Whether higher or lower values of a metric are better; None if neither.

        Default: as the kind's analysis says. Called only if a study has a goal, because this
        imports the analysis.
        """
        return cast(Literal["higher", "lower"] | None, kind.of(study).analysis.better(metric))

    def verdicts(self, study: Study) -> Collection[str]:
        """Names of bottlenecks that an expectation of kind `limiter` may use.

        Default: those of the rules that the kind's analysis lists. Called only if a study has such
        an expectation, because this imports the analysis.
        """
        return cast(Collection[str], kind.of(study).analysis.verdicts)

    def problems(self, study: Study) -> Iterator[Problem]:
        """Problems of the study as written, without the changes of any level. Default: none."""
        yield from ()

    def point_problems(self, study: Study) -> Iterator[Problem]:
        """Problems at one point; `study` has the changes of its levels. Default: as `problems`."""
        yield from self.problems(study)


def of(study: kind.HasKind) -> StudyKind:
    """Return this part of the study's kind."""
    return cast(StudyKind, kind.of(study).study)


Own = TypeVar("Own", bound=Load)


def load_of(study: Study, model: type[Own]) -> Own:
    """Return the study's load as the model of its kind. Raises TypeError if it is of another
    kind.
    """
    if not isinstance(study.load, model):
        raise TypeError(f"the load of {study.id} is a {type(study.load).__name__}, not a {model.__name__}")
    return study.load
