"""Contents of a study: question, lab, storage, load, variables, factors, expectations.

Field by field this is `studies/*/study.yaml`; `hakaru schema` prints it as JSON Schema. Sizes,
rates and durations are text with a unit (`hakaru.units`). Unknown fields are refused. The parts
stand in modules of their own; here is the whole. What several fields must agree on is checked by
`hakaru.study.consistency`; where things stand in the file is added by `hakaru.study.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal

from pydantic import Field, model_validator

from hakaru import kind
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.study.any_load import AnyLoad, Load
from hakaru.study.expectations import Expect, Reference
from hakaru.study.explain import known_keys
from hakaru.study.factors import Factors
from hakaru.study.part import SECOND_NS, FactorName, Id, Level, Line, Part, Text
from hakaru.study.storage import ArraySpec, Lu, Placement
from hakaru.study.variables import Change, Changes, Sets, Variable, apply, changes_of
from hakaru.study.watch import Watch
from hakaru.units import Duration

POINTS_MAX = 1000
REPETITIONS_MAX = 100


class Measure(Part):
    """Times and number of repetitions. A load that ends by itself (a copy) has no times here."""

    warmup: Duration | None = Field(default=None, ge=0, le=3600 * SECOND_NS, description="load that is not measured")
    time: Duration | None = Field(
        default=None, ge=SECOND_NS, le=86_400 * SECOND_NS, description="measuring time of one repetition"
    )
    repetitions: int = Field(ge=1, le=REPETITIONS_MAX)
    sample_interval: Duration = Field(default=SECOND_NS, ge=SECOND_NS // 10, le=60 * SECOND_NS)
    verify: bool = Field(
        default=False,
        description="stamp every block written and check every block read; wrong data ends the run with 6",
    )

    @property
    def warmup_ns(self) -> int:
        """Load that is not measured."""
        return self.warmup or 0

    @property
    def time_ns(self) -> int:
        """Measuring time of a load."""
        return self.time or 0


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
    expectation: Text = Field(description="what is expected and why, written before the run")
    origin: Literal["measured", "emulated"] = Field(
        description="`emulated`: real protocol and time, modelled device or link"
    )
    lab: LabSpec
    array: ArraySpec | None = Field(default=None, description="where the lab has one array")
    arrays: dict[str, ArraySpec] = Field(default_factory=dict, max_length=64, description="by their names in the lab")
    load: AnyLoad = Field(description="what is done to the lab, as the kind of the study has it")
    variables: dict[FactorName, Variable] = Field(default_factory=dict, max_length=100)
    factors: list[Factors] = Field(min_length=1, max_length=100, description="blocks of points, one after the other")
    measure: Measure
    watch: Watch | None = Field(default=None, description="what is watched beyond the counters that always are")
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    quick: Quick | None = None
    reference: list[Reference] = Field(default_factory=list, max_length=20)
    expect: list[Expect] = Field(default_factory=list, max_length=100)

    @model_validator(mode="after")
    def _arrays_are_named_once(self) -> Study:
        if self.array is not None and self.arrays:
            raise ValueError("write either `array`, where the lab has one array, or `arrays`, not both")
        return self

    @property
    def kind(self) -> str:
        """Name of its kind."""
        return self.load.kind

    @cached_property
    def storage(self) -> Mapping[str, ArraySpec]:
        """Every array by its name in the lab. Raises ImpossibleLabError where the lab cannot be."""
        if self.array is None:
            return self.arrays
        return dict.fromkeys(plan_lab(self.lab).array_names, self.array)

    @cached_property
    def varied(self) -> Mapping[str, Variable]:
        """The study's variables, and the factors that its kind brings."""
        own = {name: Sets(sets=[place]) for name, place in kind.of(self).study.factors.items()}
        return {**own, **self.variables}

    @cached_property
    def written(self) -> Mapping[str, Any]:
        """As it would be written; `Study.model_validate` takes it back. Made once: a study has
        hundreds of points.
        """
        return self.model_dump(mode="json", by_alias=True, exclude={"quick"})

    def changed(self, changes: list[Change]) -> Study:
        """With changes made. Raises `variables.PlaceError`, or ValidationError for a value that
        does not fit.
        """
        return Study.model_validate(self.with_changes(changes)) if changes else self

    def with_changes(self, changes: list[Change]) -> dict[str, Any]:
        """As it would be written with changes made; not validated. Raises
        `variables.PlaceError`.
        """
        return apply(self.written, changes, lambda path, data: known_keys(_schema(), path, data))

    def at(self, factors: Mapping[str, Level]) -> Study:
        """As it is at a point. Raises as `changed`."""
        return self.changed(changes_of(self.varied, factors))


@cache
def _schema() -> dict[str, Any]:
    return Study.model_json_schema()


def quick_form(study: Study) -> Study:
    """The study with what its quick form changes; its points and times are `expand`'s. Raises as
    `Study.changed`.
    """
    changes = study.quick.changes if study.quick else {}
    return study.changed([Change(place, value) for place, value in changes.items()])


__all__ = [
    "POINTS_MAX",
    "REPETITIONS_MAX",
    "ArraySpec",
    "Expect",
    "Factors",
    "Id",
    "Line",
    "Load",
    "Lu",
    "Measure",
    "Part",
    "Placement",
    "Quick",
    "Reference",
    "Study",
    "Text",
    "Watch",
    "quick_form",
]
