"""The part of a kind that studies use: what a study of the kind may say, and what must fit together.

Implemented in `hakaru.kinds` and by other packages; asked for through `of`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, cast

from hakaru import kind

if TYPE_CHECKING:
    from hakaru.study.model import Study
    from hakaru.study.variables import Problem


class StudyKind(ABC):
    """What a study of this kind may say."""

    @abstractmethod
    def metrics(self, study: Study) -> Collection[str]:
        """Names of metrics that references and expectations may use."""

    @abstractmethod
    def verdicts(self, study: Study) -> Collection[str]:
        """Names of bottlenecks that an expectation of kind `limiter` may use."""

    @abstractmethod
    def problems(self, study: Study) -> Iterator[Problem]:
        """What does not fit together in the file as a whole, whatever the point."""

    @abstractmethod
    def point_problems(self, study: Study) -> Iterator[Problem]:
        """What does not fit together at one point; `study` has the changes of the point's levels made."""


def of(study: kind.HasKind) -> StudyKind:
    """The part of the study's kind."""
    return cast(StudyKind, kind.of(study).study)
