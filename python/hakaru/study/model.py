"""Contents of a study: question, lab, storage, load, variables, factors, expectations.

Field by field this is `studies/*/study.yaml`; `hakaru schema` prints it as JSON Schema. Sizes,
rates and durations are text with a unit (`hakaru.units`). Unknown fields are refused. The parts
have modules of their own; this module has the study itself. `hakaru.study.consistency` checks
conditions between fields; `hakaru.study.load` adds places in the file to errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from hakaru import kind
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.steadiness import DRIFT_PERCENT_MAX, PARTS, RANGE_PERCENT_MAX
from hakaru.study.any_load import AnyLoad, Load
from hakaru.study.calibrated import Calibrated
from hakaru.study.expectations import Expect
from hakaru.study.explain import known_keys
from hakaru.study.factors import Factors
from hakaru.study.goal import Goal
from hakaru.study.intervals import Intervals, SampleIntervals
from hakaru.study.part import SECOND_NS, FactorName, Id, Level, Line, Part, Text
from hakaru.study.references import Publication, Reference
from hakaru.study.storage import ArraySpec, Lu, Placement
from hakaru.study.variables import Change, Changes, PlaceError, Sets, Variable, apply, changes_of
from hakaru.study.watch import Watch
from hakaru.units import Duration, Percent

POINTS_MAX = 1000
REPETITIONS_MAX = 100

MEASURED_PARTS = frozenset({"lab", "array", "arrays", "load", "variables", "measure", "watch"})
"""Fields of a study that affect what a point measures, with its times and recordings."""
JUDGING_PARTS = frozenset({"title", "question", "expectation", "calibrated", "publications", "reference", "expect"})
"""Fields of a study that explain and judge results."""
SCOPE_PARTS = frozenset({"format", "id", "origin", "factors", "goal", "seed", "quick"})
"""Fields of a study that choose points and their order."""


class Steady(Part):
    """Warm-up that lasts until the rate is steady, over a window divided into five parts."""

    within: Duration = Field(
        gt=0, le=86_400 * SECOND_NS, description="time under load after which measuring begins, steady or not"
    )
    window: Duration | None = Field(
        default=None,
        gt=0,
        description="time over which the rate is judged, after `warmup`; default: the measuring time, at most half "
        "of `within` less `warmup`, and at least five sample intervals",
    )
    range: Percent = Field(default=RANGE_PERCENT_MAX, gt=0, description="highest less lowest rate of the five parts")
    drift: Percent = Field(default=DRIFT_PERCENT_MAX, gt=0, description="rise or fall of the rate over the window")

    def window_of(self, measure: Measure) -> int:
        """Time over which the rate is judged, nanoseconds."""
        usual = min(measure.time_ns, (self.within - measure.warmup_ns) // 2)
        return self.window or max(usual, PARTS * measure.intervals.hosts)


class Measure(Part):
    """Times and number of repetitions. A load that ends by itself (a copy) has no times."""

    warmup: Duration | None = Field(
        default=None, ge=0, le=3600 * SECOND_NS, description="time under load before measuring begins"
    )
    steady: Steady | None = Field(
        default=None, description="extend the warm-up until the rate is steady; default: no extension"
    )
    time: Duration | None = Field(
        default=None, ge=SECOND_NS, le=86_400 * SECOND_NS, description="measuring time of one repetition"
    )
    repetitions: int = Field(ge=1, le=REPETITIONS_MAX)
    repetitions_max: int | None = Field(
        default=None,
        ge=1,
        le=REPETITIONS_MAX,
        description="repetitions of one point at most, where `goal` or `precision` adds some; default: `repetitions`",
    )
    precision: Percent | dict[str, Percent] | None = Field(
        default=None,
        description="repeat a point until half the 95 % interval of its chief metric, or of each metric named here, "
        "by the spread of the first repetitions, at least 3, is at most this share of the mean",
    )
    sample_interval: SampleIntervals = Field(
        default=SampleIntervals(), description="how often counters are read, 100 ms to 60 s; default: 1 s"
    )
    verify: bool = Field(
        default=False,
        description="stamp every block written and check every block read; wrong data ends the run with exit code 6",
    )

    @property
    def intervals(self) -> Intervals:
        """Intervals between samples by kind of node, nanoseconds."""
        return self.sample_interval.by_node

    @property
    def warmup_ns(self) -> int:
        """Time under load before measuring begins."""
        return self.warmup or 0

    @property
    def warmup_most_ns(self) -> int:
        """Time under load before measuring begins, at most."""
        return self.warmup_ns if self.steady is None else self.steady.within

    @property
    def warmup_least_ns(self) -> int:
        """Time under load before measuring begins, if the rate is steady at once."""
        return self.warmup_ns + (0 if self.steady is None else self.steady.window_of(self))

    @property
    def time_ns(self) -> int:
        """Measuring time of a load."""
        return self.time or 0

    def precisions(self, chief: str) -> dict[str, float]:
        """Metric → requested half width of its interval, percent of the mean; empty without a
        request. `chief`: the metric that a request without a name means.
        """
        if self.precision is None:
            return {}
        return dict(self.precision) if isinstance(self.precision, dict) else {chief: self.precision}

    @property
    def first_stage(self) -> int:
        """Repetitions whose spread decides how many a precision needs."""
        return min(max(3, self.repetitions), self.most)

    @property
    def most(self) -> int:
        """Repetitions of one point at most."""
        return max(self.repetitions, self.repetitions_max or 0)


class Quick(Part):
    """Parts of the study that `--quick` replaces."""

    factors: list[Factors] | None = Field(default=None, min_length=1, max_length=100)
    measure: Measure | None = None
    changes: Changes = Field(default_factory=dict, max_length=100, description="place in the study → its value")


class Study(Part):
    """A study file."""

    format: Literal[1]
    id: Id
    title: Text
    question: Text
    expectation: Text = Field(description="expected result and the reasons for it, written before the run")
    origin: Literal["measured", "emulated"] = Field(
        description="`emulated`: real protocol and time, modelled device or link"
    )
    lab: LabSpec
    array: ArraySpec | None = Field(default=None, description="the array of a lab that has only one")
    arrays: dict[str, ArraySpec] = Field(
        default_factory=dict, max_length=64, description="arrays by their names in the lab"
    )
    load: AnyLoad = Field(description="load on the lab, as the kind of the study defines it")
    variables: dict[FactorName, Variable] = Field(default_factory=dict, max_length=100)
    factors: list[Factors] = Field(min_length=1, max_length=100, description="blocks of points, in order")
    goal: Goal | None = Field(
        default=None, description="limits of metrics; each block of `factors` then has one range of levels to search"
    )
    measure: Measure
    watch: Watch | None = Field(default=None, description="recordings besides the counters, which are always recorded")
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    quick: Quick | None = None
    calibrated: list[Calibrated] = Field(
        default_factory=list, max_length=20, description="parameters chosen so that a published number is met"
    )
    publications: dict[Id, Publication] = Field(
        default_factory=dict, max_length=20, description="publications that `reference` names, by their ids"
    )
    reference: list[Reference] = Field(default_factory=list, max_length=200, description="published numbers")
    expect: list[Expect] = Field(default_factory=list, max_length=100)

    @model_validator(mode="after")
    def _arrays_are_named_once(self) -> Study:
        if self.array is not None and self.arrays:
            raise ValueError("write either `array`, where the lab has one array, or `arrays`, not both")
        return self

    @property
    def kind(self) -> str:
        """Name of the study's kind."""
        return self.load.kind

    @cached_property
    def storage(self) -> Mapping[str, ArraySpec]:
        """Every array by its name in the lab. Raises ImpossibleLabError if the lab cannot be
        built.
        """
        if self.array is None:
            return self.arrays
        return dict.fromkeys(plan_lab(self.lab).array_names, self.array)

    @cached_property
    def varied(self) -> Mapping[str, Variable]:
        """The study's variables, and the factors that its kind defines."""
        kind_factors = {name: Sets(sets=[place]) for name, place in kind.of(self).study.factors.items()}
        return {**kind_factors, **self.variables}

    @cached_property
    def written(self) -> Mapping[str, Any]:
        """The study as plain data, which `Study.model_validate` accepts. Cached, because a study
        may have hundreds of points.
        """
        return self.model_dump(mode="json", by_alias=True, exclude={"quick"})

    def changed(self, changes: list[Change]) -> Study:
        """Return the study with changes. Raises `variables.PlaceError`, or ValidationError for an
        invalid value.
        """
        return Study.model_validate(self.with_changes(changes)) if changes else self

    def with_changes(self, changes: list[Change]) -> dict[str, Any]:
        """Return the study with changes as plain data, not validated. Raises
        `variables.PlaceError`.
        """
        return apply(self.written, changes, self._known_keys)

    def _known_keys(self, path: tuple[str | int, ...], data: Any) -> list[str]:
        """Fields of the part at a path; of the load, those of this study's kind, so that no other
        kind is imported.
        """
        if not path:
            return sorted(Study.model_fields)
        name = str(path[0])
        part: Any = type(self.load) if name == "load" else Study.model_fields[name].annotation
        return known_keys(_schema(part), path[1:], data[name])

    def at(self, factors: Mapping[str, Level]) -> Study:
        """Return the study at a point. Raises as `changed`."""
        return self.changed(changes_of(self.varied, factors))


@cache
def _schema(part: Any) -> dict[str, Any]:
    return TypeAdapter(part).json_schema()


def quick_form(study: Study) -> Study:
    """Return the study with the changes of its quick form. `expand` applies its points and times.
    Raises as `Study.changed`.
    """
    changes = study.quick.changes if study.quick else {}
    return study.changed([Change(place, value) for place, value in changes.items()])


def valid_quick_form(study: Study) -> Study | None:
    """Return `quick_form`, or `None` if its changes are invalid. Checks of points report why."""
    try:
        return quick_form(study)
    except (PlaceError, ValidationError):
        return None


__all__ = [
    "POINTS_MAX",
    "REPETITIONS_MAX",
    "ArraySpec",
    "Expect",
    "Factors",
    "Goal",
    "Id",
    "Line",
    "Load",
    "Lu",
    "Measure",
    "Part",
    "Placement",
    "Publication",
    "Quick",
    "Reference",
    "Study",
    "Text",
    "Watch",
    "quick_form",
    "valid_quick_form",
]
