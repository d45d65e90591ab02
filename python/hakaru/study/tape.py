"""The tape library of an array of a study.

tape_library: {generation: lto5, cartridges: 4, capacity: 8 GiB}
"""

from __future__ import annotations

from pydantic import Field, model_validator

from hakaru.engine.contract import TapeGeneration
from hakaru.study.part import Id, Part
from hakaru.units import Size

MIB = 1 << 20
DRIVES_MAX = 64


class TapeLibrarySpec(Part):
    """A medium changer, with drives of one generation and cartridges in memory or in a pool. The
    cartridges are empty at the start of every repetition, and the motions of the drives take time.
    """

    lun: int = Field(default=0, ge=0, le=254, description="LUN of the medium changer; its drives have the next ones")
    drives: int = Field(default=1, ge=1, le=DRIVES_MAX, description="number of tape drives")
    generation: TapeGeneration = Field(default="lto5", description="generation of the drives, which determines times")
    cartridges: int = Field(default=1, ge=1, le=1000, description="number of cartridges, each in a slot of its own")
    capacity: Size = Field(
        ge=MIB, le=16 << 40, multiple_of=512, description="capacity of each cartridge, a multiple of 512 bytes"
    )
    early_warning: Size = Field(
        default=MIB, ge=0, le=1 << 40, description="space left at which writes report early warning"
    )
    pool: Id | None = Field(
        default=None, description="a name under `pools`, of which each cartridge is a thin volume; default: no pool"
    )
    compression: float = Field(
        default=1.0, ge=1, le=100, description="bytes of the initiator for each byte on the tape"
    )

    @model_validator(mode="after")
    def _has_room(self) -> TapeLibrarySpec:
        if self.early_warning > self.capacity:
            raise ValueError("`early_warning` of the tape library exceeds `capacity`; make it smaller")
        if self.lun + self.drives > 255:
            raise ValueError("the LUNs of the drives follow that of the changer, and the largest LUN is 255")
        return self

    @property
    def drive_luns(self) -> list[int]:
        """LUNs of the drives, in the order of their numbers."""
        return [self.lun + 1 + i for i in range(self.drives)]

    @property
    def luns(self) -> list[int]:
        """LUNs of the changer and its drives."""
        return [self.lun, *self.drive_luns]

    def barcode(self, number: int) -> str:
        """The text on the label of a cartridge, counted from 0: `HAK001L5`."""
        return f"HAK{number + 1:03}L{self.generation[-1]}"
