"""Expectations that results are compared with. Shapes only; `hakaru.analysis.expectations` judges
them.

An expectation of kind `reference` is taken from a publication and is two-sided. The other kinds are
expectations of the study's own.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hakaru.study.part import FactorName, Id, Part
from hakaru.study.where import Where


class ExpectPeak(Part):
    """The metric's highest mean lies at a level between `low` and `high` of the factor `over`."""

    kind: Literal["peak"]
    metric: str
    over: str
    low: float
    high: float
    where: Where = Field(default_factory=dict)


class ExpectReference(Part):
    """The result lies within `percent` of the published value, above or below it: at every level
    of a published table that was measured (`table` and `metric`), or in one row (`id`).
    """

    kind: Literal["reference"]
    table: Id | None = Field(default=None, description="a table of `reference`")
    metric: str | None = Field(default=None, description="a metric of that table")
    where: Where = Field(default_factory=dict, description="levels of the rows of that table; default: all rows")
    id: Id | None = Field(default=None, description="a single row of `reference`, instead of a table")
    percent: float = Field(gt=0)

    @model_validator(mode="after")
    def _names_rows_in_one_way(self) -> ExpectReference:
        if self.id is not None and (self.table is not None or self.metric is not None or self.where):
            raise ValueError("give either `id`, or `table` and `metric`")
        if self.id is None and (self.table is None or self.metric is None):
            raise ValueError("give `table` and `metric`, or the `id` of a row")
        return self


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
