"""The part of a kind that analysis uses: from a run's samples to its summary.

Implemented in `hakaru.kinds` and by other packages; asked for through `of`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

from hakaru import kind
from hakaru.analysis.rules.judge import Stages, verdicts_of
from hakaru.analysis.run_data import RunData


class AnalysisKind(ABC):
    """The part of a kind that analyses its runs."""

    @property
    def rules(self) -> Stages:
        """The possible bottlenecks, in the order in which they are looked at. Default: none, every
        point undetermined.

        The verdicts that an expectation may name, docs/methodology/limiter.md and the catalogue ids
        follow from them.
        """
        return ()

    @property
    def verdicts(self) -> frozenset[str]:
        """Names of the verdicts that these rules can give; follows from `rules`."""
        return verdicts_of(self.rules)

    @abstractmethod
    def analyse(self, run: RunData) -> dict[str, Any]:
        """The summary of a run (docs/reference/report-json.md), as plain JSON without NaN."""


def of(run: kind.HasKind) -> AnalysisKind:
    """The part of the run's kind."""
    return cast(AnalysisKind, kind.of(run).analysis)
