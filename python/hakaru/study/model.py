"""What a study says: question, lab, array, load, factors, expectations.

Field by field this is `studies/*/study.yaml`; `hakaru schema` prints it as JSON Schema. Sizes, rates and durations
are text with a unit (`hakaru.units`). Unknown fields are refused. Checks that need several fields stand in
`Study`; where things stand in the file is added by `hakaru.study.load`.
"""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from hakaru.lab.model import LabSpec
from hakaru.units import Duration, Size

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=64)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=4000)]

POINTS_MAX = 1000
REPETITIONS_MAX = 100
VMS_MAX = 20_000
SECOND_NS = 1_000_000_000


class Part(BaseModel):
    """Every part of a study: nothing unknown, nothing coerced, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Text(Part):
    """A text in both languages."""

    en: Line
    ja: Line


class NoModel(Part):
    """Every request completes as fast as the machine can."""

    kind: Literal["none"]


class PresetModel(Part):
    """A timing model that the engine knows by name."""

    kind: Literal["preset"]
    name: Id


class InlineModel(BaseModel):
    """A timing model with every parameter (`drive.config.ArrayModel` of the contract); the engine checks it."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True, allow_inf_nan=False)

    kind: Literal["array"]


ArrayModel = Annotated[NoModel | PresetModel | InlineModel, Field(discriminator="kind")]


class Placement(Part):
    """Where an LU lies on the modelled drives."""

    group: int = Field(ge=0, le=63, description="RAID group, counted from 0")
    offset: Size = Field(default=0, description="first byte of the group's usable space")


class Lu(Part):
    """A logical unit of the array."""

    lun: int = Field(ge=0, le=255)
    size: Size = Field(description="capacity; memory that was never written takes none")
    block: Literal[512, 4096] = Field(default=512, description="logical block length in bytes")
    store: Literal["memory"] = Field(default="memory", description="where its bytes are")
    placement: Placement | None = Field(default=None, description="needed when the model has drives")


class ArraySpec(Part):
    """The storage array."""

    target_name: Annotated[
        str, StringConstraints(pattern=r"^(iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)[a-z0-9.:-]+$", max_length=223)
    ]
    model: ArrayModel
    lus: list[Lu] = Field(min_length=1, max_length=256)

    @model_validator(mode="after")
    def _luns_differ(self) -> ArraySpec:
        luns = [lu.lun for lu in self.lus]
        if len(set(luns)) < len(luns):
            raise ValueError(f"each LU needs a number of its own; there are {sorted(luns)}")
        return self


class SizeWeight(Part):
    """One request size and how often it is drawn."""

    size: Size = Field(ge=512, le=16 << 20)
    weight: int = Field(default=1, ge=1, le=1_000_000)


class Closed(Part):
    """A fixed number of requests is always outstanding per VM."""

    kind: Literal["closed"]
    queue_depth: int = Field(ge=1, le=1024)


class Open(Part):
    """Requests are due at given instants; latency counts from those."""

    kind: Literal["open"]
    rate_per_s: float = Field(gt=0, le=10_000_000, description="offered requests per second and VM")
    arrivals: Literal["uniform", "poisson"] = "poisson"
    in_flight_max: int = Field(default=256, ge=1, le=1024)


class Pattern(Part):
    """Which requests a VM makes, and when."""

    sizes: list[SizeWeight] = Field(min_length=1, max_length=64)
    read_percent: int = Field(ge=0, le=100)
    random_percent: int = Field(ge=0, le=100)
    align: Size | None = Field(default=None, description="alignment of random places; default: the request's size")
    load: Annotated[Closed | Open, Field(discriminator="kind")]


class Vms(Part):
    """Where the VMs' data lies: VM i goes to column i mod columns, there to the next free image."""

    columns: list[Annotated[list[int], Field(min_length=1, max_length=256)]] = Field(
        min_length=1, max_length=256, description="LUs; VMs are dealt to columns in turn and fill each LU by LU"
    )
    image: Size = Field(ge=1 << 20, description="space that a VM's disk image takes on its LU")
    region: Size | None = Field(
        default=None, description="part of its image, from the start, that a VM uses; default: all"
    )

    @property
    def region_bytes(self) -> int:
        """Bytes of its image that a VM uses."""
        return self.image if self.region is None else self.region


class Measure(Part):
    """How long and how often."""

    warmup: Duration = Field(ge=0, le=3600 * SECOND_NS, description="load that is not measured")
    time: Duration = Field(ge=SECOND_NS, le=86_400 * SECOND_NS, description="measuring time of one repetition")
    repetitions: int = Field(ge=1, le=REPETITIONS_MAX)
    sample_interval: Duration = Field(default=SECOND_NS, ge=SECOND_NS // 10, le=60 * SECOND_NS)
    verify: bool = Field(
        default=False,
        description="stamp every block written and check every block read; wrong data ends the run with 6",
    )


class Factors(Part):
    """A block of points: every combination of these levels."""

    pattern: list[Id] = Field(min_length=1, max_length=100, description="names under `patterns`")
    vms: list[Annotated[int, Field(ge=1, le=VMS_MAX)]] = Field(min_length=1, max_length=1000)
    queue_depth: list[Annotated[int, Field(ge=1, le=1024)]] | None = Field(
        default=None, min_length=1, max_length=100, description="instead of the pattern's own (closed load)"
    )

    def points(self) -> list[dict[str, Any]]:
        """Factor → level of every combination, in the order written."""
        named = [(name, levels) for name, levels in self if levels is not None]
        return [
            dict(zip((n for n, _ in named), combination, strict=True))
            for combination in product(*(v for _, v in named))
        ]


class Quick(Part):
    """What `--quick` replaces."""

    factors: list[Factors] | None = Field(default=None, min_length=1, max_length=100)
    measure: Measure | None = None


class Reference(Part):
    """A published table that our curve is laid over."""

    table: Id = Field(description="TABLE.csv in the study's folder, else in hakaru's own `reference/`")
    title: Text
    source: Line
    where: dict[Id, str | int] = Field(default_factory=dict, description="points that it is compared with")
    over: str = Field(description="factor and column that the rows go by")
    metrics: dict[str, str] = Field(min_length=1, description="our metric → its column (same unit)")


class ExpectPeak(Part):
    """The metric's highest mean lies at a level between `low` and `high` of the factor `over`."""

    kind: Literal["peak"]
    metric: str
    over: str
    low: float
    high: float
    where: dict[str, str | int] = Field(default_factory=dict)


class ExpectReference(Part):
    """The mean lies within `percent` of the published value at every point that the reference has."""

    kind: Literal["reference"]
    metric: str
    table: Id
    percent: float = Field(gt=0)
    where: dict[str, str | int] = Field(default_factory=dict)


class ExpectBelowPeak(Part):
    """At `at`, the metric's mean lies `low_percent` to `high_percent` under its highest mean over `over`."""

    kind: Literal["below_peak"]
    metric: str
    over: str
    at: float
    low_percent: float
    high_percent: float
    where: dict[str, str | int] = Field(default_factory=dict)


Limiter = Literal["drives", "port", "link", "controller", "generator_cpu", "array_cpu", "machine_cpu", "undetermined"]


class ExpectLimiter(Part):
    """What gives out first is one of `resources`."""

    kind: Literal["limiter"]
    resources: list[Limiter] = Field(min_length=1)
    where: dict[str, str | int] = Field(default_factory=dict)


Expect = Annotated[ExpectPeak | ExpectReference | ExpectBelowPeak | ExpectLimiter, Field(discriminator="kind")]


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
    array: ArraySpec
    vms: Vms
    patterns: dict[Id, Pattern] = Field(min_length=1, max_length=100)
    factors: list[Factors] = Field(min_length=1, max_length=100, description="blocks of points, one after the other")
    measure: Measure
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    quick: Quick | None = None
    reference: list[Reference] = Field(default_factory=list, max_length=20)
    expect: list[Expect] = Field(default_factory=list, max_length=100)
