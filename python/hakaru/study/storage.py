"""The storage of a study: arrays, their timing models, their LUs.

array: {target_name: …, model: {kind: preset, name: jdsf-2011}, lus: [{lun: 0, size: 512 GiB,
placement: {group: 0}}]}
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from hakaru.engine.contract import Model
from hakaru.study.part import Part
from hakaru.units import Size


class Placement(Part):
    """Place of an LU on the modelled drives."""

    group: int = Field(ge=0, le=63, description="RAID group, counted from 0")
    offset: Size = Field(default=0, description="first byte of the group's usable space")


class Fill(Part):
    """Initial contents of an LU: bytes that differ from block to block."""

    compressible_percent: int = Field(default=0, ge=0, le=100, description="share of each block that is zeros")


class Lu(Part):
    """A logical unit of an array."""

    lun: int = Field(ge=0, le=255)
    size: Size = Field(description="capacity; blocks that were never written take no memory")
    block: Literal[512, 4096] = Field(default=512, description="logical block length in bytes")
    store: Literal["memory"] = Field(default="memory", description="kind of store for the data")
    placement: Placement | None = Field(default=None, description="needed when the model has drives")
    fill: Fill | None = Field(default=None, description="contents from the start; default: zeros")


class ArraySpec(Part):
    """A storage array."""

    target_name: Annotated[
        str, StringConstraints(pattern=r"^(iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)[a-z0-9.:-]+$", max_length=223)
    ]
    model: Model
    lus: list[Lu] = Field(min_length=1, max_length=256)

    @model_validator(mode="after")
    def _luns_differ(self) -> ArraySpec:
        luns = [lu.lun for lu in self.lus]
        if len(set(luns)) < len(luns):
            raise ValueError(f"each LU needs a number of its own; the numbers are {sorted(luns)}")
        return self

    @property
    def luns(self) -> list[int]:
        """Numbers of its LUs, in order."""
        return sorted(lu.lun for lu in self.lus)

    def lu(self, lun: int) -> Lu:
        """Return the LU with a number. Raises KeyError if there is none."""
        for lu in self.lus:
            if lu.lun == lun:
                return lu
        raise KeyError(lun)
