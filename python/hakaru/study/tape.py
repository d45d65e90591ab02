"""The tape library of an array of a study.

tape_library: {generation: lto5, cartridges: 4, capacity: 8 GiB}
tape_library:
  drives: [{generation: lto5}, {generation: lto6}]
  slots: 8
  cartridges: [{barcode: HAK001L5}, {barcode: HAK002L5, slot: 5, write_protected: true}]
  capacity: 8 GiB
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Discriminator, Field, Tag, model_validator

from hakaru.engine.contract import TapeGeneration
from hakaru.study.part import Id, Part
from hakaru.text import Form
from hakaru.units import Size

MIB = 1 << 20
DRIVES_MAX = 64
CARTRIDGES_MAX = 1000
SLOTS_MAX = 10_000

Barcode = Annotated[str, Form(r"[A-Z0-9]{1,32}", "a barcode of up to 32 capital letters and digits")]


class TapeDriveSpec(Part):
    """A tape drive."""

    generation: TapeGeneration | None = Field(
        default=None, description="generation of the drive; default: that of the library"
    )


class CartridgeSpec(Part):
    """A cartridge."""

    barcode: Barcode = Field(description="text on its label")
    slot: int | None = Field(
        default=None, ge=1, le=SLOTS_MAX, description="slot in which it starts; default: the first free one"
    )
    write_protected: bool = Field(default=False, description="writes are refused, so no copy goes to it")


def _form(value: object) -> str:
    """The form of a field that is a number or a list."""
    return "list" if isinstance(value, list) else "number"


# Of a value that is not valid, pydantic then names the faults of one form.
DriveCount = Annotated[int, Field(ge=1, le=DRIVES_MAX), Tag("number")]
DriveList = Annotated[list[TapeDriveSpec], Field(min_length=1, max_length=DRIVES_MAX), Tag("list")]
CartridgeCount = Annotated[int, Field(ge=1, le=CARTRIDGES_MAX), Tag("number")]
CartridgeList = Annotated[list[CartridgeSpec], Field(min_length=1, max_length=CARTRIDGES_MAX), Tag("list")]


class TapeLibrarySpec(Part):
    """A medium changer, with drives, and cartridges in memory or in a pool. The cartridges are
    empty at the start of every repetition, and the motions of the drives take time.
    """

    lun: int = Field(default=0, ge=0, le=254, description="LUN of the medium changer; its drives have the next ones")
    drives: Annotated[DriveCount | DriveList, Discriminator(_form)] = Field(
        default=1, description="number of tape drives, or a list of them"
    )
    generation: TapeGeneration = Field(
        default="lto5", description="generation of drives that have none of their own, which determines times"
    )
    slots: int | None = Field(
        default=None, ge=1, le=SLOTS_MAX, description="number of storage slots; default: as many as cartridges need"
    )
    import_export: int = Field(default=0, ge=0, le=255, description="number of import and export slots")
    cartridges: Annotated[CartridgeCount | CartridgeList, Discriminator(_form)] = Field(
        default=1, description="number of cartridges, each in a slot of its own, or a list of them"
    )
    capacity: Size = Field(
        ge=MIB,
        le=16 << 40,
        multiple_of=512,
        description="capacity of each cartridge on the tape, a multiple of 512 bytes",
    )
    early_warning: Size = Field(
        default=MIB, ge=0, le=1 << 40, description="space left on the tape at which writes report early warning"
    )
    pool: Id | None = Field(
        default=None, description="a name under `pools`, of which each cartridge is a thin volume; default: no pool"
    )
    compression: float = Field(
        default=1.0,
        ge=1,
        le=100,
        description="bytes of the initiator for each byte on the tape, which multiply rates and capacity",
    )

    @model_validator(mode="after")
    def _has_room(self) -> TapeLibrarySpec:
        if self.early_warning > self.capacity:
            raise ValueError("`early_warning` of the tape library exceeds `capacity`; make it smaller")
        if self.lun + self.drive_count > 255:
            raise ValueError("the LUNs of the drives follow that of the changer, and the largest LUN is 255")
        return self

    @model_validator(mode="after")
    def _cartridges_have_slots(self) -> TapeLibrarySpec:
        taken, barcodes = set[int](), set[str]()
        for slot, cartridge in self.placed:
            barcode = cartridge.barcode
            if slot > self.slot_count:
                raise ValueError(f"there is no slot for cartridge {barcode}; the library has {self.slot_count} slots")
            if slot in taken:
                raise ValueError(f"slot {slot} is given twice; each cartridge needs a slot of its own")
            if barcode in barcodes:
                raise ValueError(f"the barcode {barcode!r} is given twice; each cartridge needs its own")
            taken.add(slot)
            barcodes.add(barcode)
        return self

    @property
    def generations(self) -> list[TapeGeneration]:
        """The generation of each drive, in the order of their numbers."""
        if isinstance(self.drives, int):
            return [self.generation] * self.drives
        return [drive.generation or self.generation for drive in self.drives]

    @property
    def drive_count(self) -> int:
        """Number of drives."""
        return self.drives if isinstance(self.drives, int) else len(self.drives)

    @property
    def drive_luns(self) -> list[int]:
        """LUNs of the drives, in the order of their numbers."""
        return [self.lun + 1 + i for i in range(self.drive_count)]

    @property
    def luns(self) -> list[int]:
        """LUNs of the changer and its drives."""
        return [self.lun, *self.drive_luns]

    @property
    def placed(self) -> list[tuple[int, CartridgeSpec]]:
        """The cartridges, each with its slot. Those of a number have labels `HAK001L5`, after the
        generation of the library.
        """
        if isinstance(self.cartridges, int):
            labels = [f"HAK{i + 1:03}L{self.generation[-1]}" for i in range(self.cartridges)]
            return [(i + 1, CartridgeSpec(barcode=label)) for i, label in enumerate(labels)]
        slots = slots_of([cartridge.slot for cartridge in self.cartridges])
        return list(zip(slots, self.cartridges, strict=True))

    @property
    def slot_count(self) -> int:
        """Number of storage slots."""
        return max(slot for slot, _ in self.placed) if self.slots is None else self.slots

    @property
    def writable(self) -> list[str]:
        """Barcodes of the cartridges that can be written, in the order of the study."""
        return [cartridge.barcode for _, cartridge in self.placed if not cartridge.write_protected]


def slots_of(given: Sequence[int | None]) -> list[int]:
    """The slot of each cartridge: the given one, else the first one that is not given to another.
    Slots beyond those of a library mean that it has too few.
    """
    taken = set(given)
    free = (slot for slot in range(1, 2 * len(given) + 1) if slot not in taken)
    return [next(free) if slot is None else slot for slot in given]
