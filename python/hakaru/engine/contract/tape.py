"""Configuration of the tape library of an `array` engine."""

from __future__ import annotations

from typing import Literal

from hakaru.engine.contract.part import Message
from hakaru.engine.contract.stores import Store

TapeGeneration = Literal["lto3", "lto4", "lto5", "lto6"]


class TapeDriveConfig(Message):
    """A tape drive."""

    lun: int
    generation: TapeGeneration


class CartridgeConfig(Message):
    """A cartridge."""

    barcode: str
    slot: int
    write_protected: bool = False


class TapeLibraryConfig(Message):
    """A tape library: a medium changer and its drives."""

    lun: int
    drives: list[TapeDriveConfig]
    slots: int
    import_export: int = 0
    cartridges: list[CartridgeConfig]
    capacity_bytes: int
    early_warning_bytes: int
    store: Store
