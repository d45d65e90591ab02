"""Published numbers that a study compares its results with, and the publications that printed them.

Shapes only; `hakaru.analysis.reference` compares. Each printed number is one row of the scorecard.
A row is *calibrated* if the number was used to choose a parameter of the study, otherwise
*predicted*. A row that follows from others, or from what the study configures, holds *by
definition* and is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from hakaru.study.part import Id, Level, Line, Part, Text
from hakaru.study.where import Where, same_level


class Publication(Part):
    """A publication whose numbers a study compares its results with. Reports cite it."""

    title: Text = Field(description="short name, as figures and tables show it")
    source: Line = Field(description="author, title, date and place, as a report cites it")


class Needs(Part):
    """Properties of a machine that a comparison with a publication requires."""

    kvm: bool = Field(default=False, description="guests whose processors are not emulated")
    cpus: int | None = Field(default=None, ge=1, description="number of processors")
    hardware: Text | None = Field(default=None, description="equipment that no lab of hakaru has")


class _Compared(Part):
    """Fields of every kind of reference."""

    needs: Needs | None = Field(default=None, description="without these, the row is shown, but not judged")
    publication: Id = Field(description="one of the study's `publications`")
    note: Text | None = Field(default=None, description="reason for the error, or what limits the comparison")


class TableReference(_Compared):
    """A published table: one row of the scorecard per metric and level."""

    kind: Literal["table"]
    table: Id = Field(description="TABLE.csv in the study's folder, else in hakaru's own `reference/`")
    where: Where = Field(default_factory=dict, description="points that the table is compared with")
    over: str = Field(description="factor, and column of its levels")
    metrics: dict[str, str] = Field(min_length=1, description="metric of the study → column (same unit)")
    column: str | None = Field(default=None, description="column of the levels, if its name differs from `over`")
    levels: dict[str, Level] = Field(
        default_factory=dict, description="level of the study → level of the table, if they differ"
    )
    select: dict[str, Level] = Field(
        default_factory=dict, description="column → value: compare only the rows of the table with these values"
    )
    combine: Literal["sum"] | None = Field(
        default=None, description="how to combine several rows of a level into one value"
    )
    calibrated: dict[str, list[Level] | Literal["all"]] = Field(
        default_factory=dict, description="metric → levels of the study whose numbers chose a parameter, or `all`"
    )
    by_definition: list[str] = Field(
        default_factory=list, description="metrics that follow from other rows, or from what the study configures"
    )

    @property
    def goes_by(self) -> str:
        """The column of the table that holds the levels."""
        return self.column or self.over

    def has_row(self, row: Mapping[str, object]) -> bool:
        """Whether a row of the table is compared."""
        return all(same_level(row.get(column), value) for column, value in self.select.items())

    def is_calibrated(self, metric: str, level: Level) -> bool:
        """Whether the published value of a metric at a level of the study chose a parameter."""
        levels = self.calibrated.get(metric, [])
        return levels == "all" or any(same_level(level, each) for each in levels)


class _Single(_Compared):
    """Fields of every reference that is a single row."""

    id: Id = Field(description="name of the row, unique in the study")
    name: Text = Field(description="what was published, as the report shows it")
    metric: str
    calibrated: bool = Field(default=False, description="whether the published number chose a parameter")
    by_definition: bool = Field(
        default=False, description="whether the number follows from other rows, or from what the study configures"
    )


class ValueReference(_Single):
    """The mean of `metric` at the only point of `where`."""

    kind: Literal["value"]
    where: Where = Field(default_factory=dict)
    published: float


class RatioReference(_Single):
    """The mean of `metric` at the only point of `of`, divided by that at the only point of `to`."""

    kind: Literal["ratio"]
    of: Where = Field(min_length=1)
    to: Where = Field(min_length=1)
    mean_over: str | None = Field(
        default=None, description="factor; instead of one point each, the mean over the points with its levels counts"
    )
    published: float = Field(gt=0)


class DifferenceReference(_Single):
    """The mean of `metric` at the only point of `of`, minus that at the only point of `to`."""

    kind: Literal["difference"]
    of: Where = Field(min_length=1)
    to: Where = Field(min_length=1)
    published: float


class PeakReference(_Single):
    """The level of `over` with the highest mean of `metric`."""

    kind: Literal["peak"]
    over: str
    where: Where = Field(default_factory=dict)
    published: Level


class ExtremeReference(_Single):
    """The highest or the lowest mean of `metric` over the points of `where`."""

    kind: Literal["extreme"]
    where: Where = Field(default_factory=dict)
    which: Literal["highest", "lowest"]
    published: float


class ReachesReference(_Single):
    """The first level of `over` from which on the mean of `metric` is at least `at_least`.

    The published level is correct if it lies above the level before, and at or below the first
    level found: 9 between 8 and 10.
    """

    kind: Literal["reaches"]
    over: str
    where: Where = Field(default_factory=dict)
    at_least: float
    published: float


class RankingReference(_Single):
    """The order of the points by `metric`, highest first."""

    kind: Literal["ranking"]
    over: str
    where: Where = Field(default_factory=dict)
    mean_over: str | None = Field(
        default=None, description="factor; the mean over the points with its levels counts for each level of `over`"
    )
    published: list[Level] = Field(min_length=2, max_length=100, description="levels of `over`, highest first")

    @model_validator(mode="after")
    def _levels_are_named_once(self) -> RankingReference:
        for i, level in enumerate(self.published):
            if any(same_level(level, earlier) for earlier in self.published[:i]):
                raise ValueError(f"the level {level} is given twice")
        return self


SingleReference = (
    ValueReference
    | RatioReference
    | DifferenceReference
    | PeakReference
    | ExtremeReference
    | ReachesReference
    | RankingReference
)
"""References that are a single row, with an id."""

Reference = Annotated[TableReference | SingleReference, Field(discriminator="kind")]
