"""Published tables and expectations that results are compared with.

Shapes only; `hakaru.analysis.expectations` judges them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hakaru.study.part import FactorName, Id, Level, Line, Part, Text

Where = dict[FactorName, Level | None]
"""Factor → level of the points that something is about; points may have more factors than those.

A level `null`: points that lack the factor, so where it is as the study has it by itself.
"""


class Reference(Part):
    """A published table that our curve is laid over."""

    table: Id = Field(description="TABLE.csv in the study's folder, else in hakaru's own `reference/`")
    title: Text
    source: Line
    where: Where = Field(default_factory=dict, description="points that it is compared with")
    over: str = Field(description="factor and column that the rows go by")
    metrics: dict[str, str] = Field(min_length=1, description="our metric → its column (same unit)")
    column: str | None = Field(default=None, description="column that the rows go by, if it is not called as `over`")
    levels: dict[str, Level] = Field(
        default_factory=dict, description="our level → the table's, where they are not called alike"
    )
    combine: Literal["sum"] | None = Field(default=None, description="what makes one value of several rows of a level")

    @property
    def goes_by(self) -> str:
        """The column of the table that holds the level of a row."""
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
    """At `at`, the metric's mean lies `low_percent` to `high_percent` under its highest mean over
    `over`.
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
        raise ValueError("say `at_least`, `at_most` or both")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ValueError("`at_least` is more than `at_most`")


class ExpectBound(Part):
    """The metric's mean is at least and at most so much, at every point of `where`."""

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
    """The metric's mean at the point `of` is at least and at most so many times that at the point
    `to`.
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
