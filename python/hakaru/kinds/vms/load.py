"""The load of VMs: where their data lies, and which requests they make, when.

    load:
      kind: vms
      columns: [[0], [1]]
      image: 64 GiB
      patterns:
        random-32k:
          {sizes: [{size: 32 KiB}], read_percent: 70, random_percent: 100,
           load: {kind: closed, queue_depth: 32}}

`pattern`, `vms` and `queue_depth` are factors of every study of VMs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.kinds.vms.iscsi import Iscsi
from hakaru.study.any_load import Load
from hakaru.study.kind import load_of
from hakaru.study.model import Study
from hakaru.study.part import Id, Part
from hakaru.units import Size

VMS_MAX = 20_000
FACTORS = {"pattern": "load.pattern", "vms": "load.vms", "queue_depth": "load.queue_depth"}
"""Factor → its place in the study."""


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
    """The requests that a VM makes, and their times."""

    sizes: list[SizeWeight] = Field(min_length=1, max_length=64)
    read_percent: int = Field(ge=0, le=100)
    random_percent: int = Field(ge=0, le=100)
    align: Size | None = Field(default=None, description="alignment of random places; default: the request's size")
    load: Annotated[Closed | Open, Field(discriminator="kind")]


class VmsLoad(Load):
    """VMs that load the lab's array: VM i goes to column i mod columns, there to the next free
    image.
    """

    kind: Literal["vms"]
    columns: list[Annotated[list[int], Field(min_length=1, max_length=256)]] = Field(
        min_length=1, max_length=256, description="LUs; VMs are dealt to columns in turn and fill each LU by LU"
    )
    image: Size = Field(ge=1 << 20, description="space that a VM's disk image takes on its LU")
    region: Size | None = Field(
        default=None, description="part of its image, from the start, that a VM uses; default: all"
    )
    patterns: dict[Id, Pattern] = Field(min_length=1, max_length=100)
    iscsi: Iscsi = Field(default=Iscsi(), description="login keys, commands and sockets at both ends")
    pattern: Id | None = Field(default=None, description="a name under `patterns`; also a factor")
    vms: int | None = Field(default=None, ge=1, le=VMS_MAX, description="how many; also a factor")
    queue_depth: int | None = Field(
        default=None, ge=1, le=1024, description="instead of the pattern's own (closed load); also a factor"
    )

    @property
    def region_bytes(self) -> int:
        """Bytes of its image that a VM uses."""
        return self.image if self.region is None else self.region

    @property
    def asked(self) -> Pattern:
        """The pattern of a point, with its queue depth."""
        chosen = self.patterns[str(self.pattern)]
        if self.queue_depth is None or not isinstance(chosen.load, Closed):
            return chosen
        return chosen.model_copy(update={"load": chosen.load.model_copy(update={"queue_depth": self.queue_depth})})

    @property
    def count(self) -> int:
        """VMs of a point."""
        return self.vms or 0


def load_at(study: Study) -> VmsLoad:
    """The load of a study of VMs; at a point, `pattern` and `vms` are set."""
    return load_of(study, VmsLoad)
