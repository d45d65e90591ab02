"""What a study says: question, lab, storage, load or backup, variables, factors, expectations.

Field by field this is `studies/*/study.yaml`; `hakaru schema` prints it as JSON Schema. Sizes, rates and durations
are text with a unit (`hakaru.units`). Unknown fields are refused. The parts stand in modules of their own; here is the
whole. What several fields must agree on is checked by `hakaru.study.consistency`; where things stand in the file is
added by `hakaru.study.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from hakaru.lab.model import LabSpec
from hakaru.study.backup import Backup, BackupEnd
from hakaru.study.expectations import Expect, Reference
from hakaru.study.explain import known_keys
from hakaru.study.factors import Factors
from hakaru.study.iscsi import Iscsi
from hakaru.study.part import SECOND_NS, FactorName, Id, Level, Line, Part, Text
from hakaru.study.storage import ArrayModel, ArraySpec, InlineModel, Lu, NoModel, Placement, PresetModel
from hakaru.study.variables import Change, Changes, Variable, apply, changes_of
from hakaru.study.vms import Closed, Open, Pattern, SizeWeight, Vms
from hakaru.study.watch import Watch
from hakaru.units import Duration

POINTS_MAX = 1000
REPETITIONS_MAX = 100


class Measure(Part):
    """How long and how often. A backup is measured from its first read to its last write: it has no times here."""

    warmup: Duration | None = Field(
        default=None, ge=0, le=3600 * SECOND_NS, description="load that is not measured; of VMs"
    )
    time: Duration | None = Field(
        default=None, ge=SECOND_NS, le=86_400 * SECOND_NS, description="measuring time of one repetition; of VMs"
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
    """What `--quick` replaces."""

    _later: ClassVar[frozenset[str]] = frozenset({"changes"})

    factors: list[Factors] | None = Field(default=None, min_length=1, max_length=100)
    measure: Measure | None = None
    changes: Changes = Field(default_factory=dict, max_length=100, description="place in the study → its value")


class Study(Part):
    """A study file."""

    _later: ClassVar[frozenset[str]] = frozenset(
        {"array", "arrays", "vms", "patterns", "iscsi", "backup", "variables", "watch"}
    )

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
    vms: Vms | None = None
    patterns: dict[Id, Pattern] = Field(default_factory=dict, max_length=100)
    iscsi: Iscsi = Field(default=Iscsi(), description="of VMs: login keys, commands and sockets at both ends")
    backup: Backup | None = Field(default=None, description="instead of `vms` and `patterns`")
    variables: dict[FactorName, Variable] = Field(default_factory=dict, max_length=100)
    factors: list[Factors] = Field(min_length=1, max_length=100, description="blocks of points, one after the other")
    measure: Measure
    watch: Watch | None = Field(default=None, description="what is watched beyond the counters that always are")
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    quick: Quick | None = None
    reference: list[Reference] = Field(default_factory=list, max_length=20)
    expect: list[Expect] = Field(default_factory=list, max_length=100)

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Study:
        if self.backup is not None and (self.vms is not None or self.patterns):
            raise ValueError("a study has either `vms` and `patterns` or `backup`, not both")
        if self.backup is not None and self.iscsi != Iscsi():
            raise ValueError("`iscsi` is for studies of VMs: backups log in as the engine has it")
        if (self.array is None) == (not self.arrays):
            raise ValueError("a study has either `array` or `arrays`")
        if self.backup is None and self.arrays:
            raise ValueError("VMs load one array: write `array` instead of `arrays`")
        return self

    @property
    def kind(self) -> str:
        """Name of its kind."""
        return "vms" if self.backup is None else "copy"

    @property
    def only_array(self) -> ArraySpec:
        """The array that VMs load."""
        assert self.array is not None, "checked when the study was read: VMs load `array`"
        return self.array

    @property
    def seats(self) -> Vms:
        """Where the VMs' data lies."""
        assert self.vms is not None, "checked when the study was read: without `backup` there are VMs"
        return self.vms

    @cached_property
    def written(self) -> Mapping[str, Any]:
        """As it would be written; `Study.model_validate` takes it back. Made once: a study has hundreds of points."""
        return self.model_dump(mode="json", by_alias=True, exclude={"quick"})

    def changed(self, changes: list[Change]) -> Study:
        """With changes made. Raises `variables.PlaceError`, or ValidationError for a value that does not fit."""
        return Study.model_validate(self.with_changes(changes)) if changes else self

    def with_changes(self, changes: list[Change]) -> dict[str, Any]:
        """As it would be written with changes made; not validated. Raises `variables.PlaceError`."""
        return apply(self.written, changes, lambda path, data: known_keys(_schema(), path, data))

    def at(self, factors: Mapping[str, Level]) -> Study:
        """As it is at a point. Raises as `changed`."""
        return self.changed(changes_of(self.variables, factors))


@cache
def _schema() -> dict[str, Any]:
    return Study.model_json_schema()


def quick_form(study: Study) -> Study:
    """The study with what its quick form changes; its points and times are `expand`'s. Raises as `Study.changed`."""
    changes = study.quick.changes if study.quick else {}
    return study.changed([Change(place, value) for place, value in changes.items()])


__all__ = [
    "POINTS_MAX",
    "REPETITIONS_MAX",
    "ArrayModel",
    "ArraySpec",
    "Backup",
    "BackupEnd",
    "Closed",
    "Expect",
    "Factors",
    "Id",
    "InlineModel",
    "Iscsi",
    "Line",
    "Lu",
    "Measure",
    "NoModel",
    "Open",
    "Part",
    "Pattern",
    "Placement",
    "PresetModel",
    "Quick",
    "Reference",
    "SizeWeight",
    "Study",
    "Text",
    "Vms",
    "Watch",
    "quick_form",
]
