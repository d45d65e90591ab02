"""Published tables and expectations that results are compared with.

Shapes only; `hakaru.analysis.expectations` judges them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hakaru.study.part import FactorName, Id, Level, Line, Part, Text

Where = dict[FactorName, Level | None]
"""Factor → level that selects points; the points may have further factors.

A level `null` selects points that lack the factor and therefore have the value of the study.
"""


class Reference(Part):
    """A published table that results are compared with."""

    table: Id = Field(description="TABLE.csv in the study's folder, else in hakaru's own `reference/`")
    title: Text
    source: Line
    where: Where = Field(default_factory=dict, description="points that the table is compared with")
    over: str = Field(description="factor, and column of its levels")
    metrics: dict[str, str] = Field(min_length=1, description="metric of the study → column (same unit)")
    column: str | None = Field(default=None, description="column of the levels, if its name differs from `over`")
    levels: dict[str, Level] = Field(
        default_factory=dict, description="level of the study → level of the table, if they differ"
    )
    combine: Literal["sum"] | None = Field(
        default=None, description="how to combine several rows of a level into one value"
    )

    @property
    def goes_by(self) -> str:
        """The column of the table that holds the levels."""
        return self.column or self.over


class ExpectPeak(Part):
    """The metric's highest mean lies at a level between `low` and `high` of the factor `over`."""

    kind: Literal["peak"]
    metric: str
    over: str
    low: float
    high: float
    where: Where = Field(default_factory=dict)


class ExpectReference(Part):
    """The mean lies within `percent` of the published value at every point that the reference
    has.
    """

    kind: Literal["reference"]
    metric: str
    table: Id
    percent: float = Field(gt=0)
    where: Where = Field(default_factory=dict)


class ExpectBelowPeak(Part):
    """At the level `at` of the factor `over`, the metric's mean lies `low_percent` to
    `high_percent` below its highest mean.
    """

    kind: Literal["below_peak"]
    metric: str
    over: str
    at: float
    low_percent: float
    high_percent: float
    where: Where = Field(default_factory=dict)


def _bounded(at_least: float | None, at_most: float | None) -> None:
    if at_least is None and at_most is None:
        raise ValueError("give `at_least`, `at_most` or both")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ValueError("`at_least` is more than `at_most`")


class ExpectBound(Part):
    """The metric's mean is at least `at_least` and at most `at_most` at every point of `where`."""

    kind: Literal["bound"]
    metric: str
    at_least: float | None = None
    at_most: float | None = None
    where: Where = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_a_bound(self) -> ExpectBound:
        _bounded(self.at_least, self.at_most)
        return self


class ExpectRatio(Part):
    """The metric's mean at the point `of`, divided by that at the point `to`, is at least
    `at_least` and at most `at_most`.
    """

    kind: Literal["ratio"]
    metric: str
    of: Where = Field(min_length=1)
    to: Where = Field(min_length=1)
    at_least: float | None = Field(default=None, gt=0)
    at_most: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _has_a_bound(self) -> ExpectRatio:
        _bounded(self.at_least, self.at_most)
        return self


class ExpectLimiter(Part):
    """The bottleneck is one of `resources`."""

    kind: Literal["limiter"]
    resources: list[FactorName] = Field(min_length=1, description="bottlenecks, as the kind of the study names them")
    where: Where = Field(default_factory=dict)


Expect = Annotated[
    ExpectPeak | ExpectReference | ExpectBelowPeak | ExpectBound | ExpectRatio | ExpectLimiter,
    Field(discriminator="kind"),
]
