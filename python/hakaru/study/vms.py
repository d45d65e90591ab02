"""The load of VMs: where their data lies, and which requests they make, when.

The other kind of study copies instead of loading: `backup.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.study.part import Part
from hakaru.units import Size

VMS_MAX = 20_000


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
