"""Configuration of the tape library of an `array` engine."""

from __future__ import annotations

from typing import Literal

from hakaru.engine.contract.part import Message

TapeGeneration = Literal["lto3", "lto4", "lto5", "lto6"]


class TapeDriveConfig(Message):
    """A tape drive."""

    lun: int
    generation: TapeGeneration
    vendor: str | None = None
    product: str | None = None


class CartridgeConfig(Message):
    """A cartridge."""

    barcode: str
    slot: int
    write_protected: bool | None = None
    generation: TapeGeneration | None = None


class TapeTimesConfig(Message):
    """Times of the drives of a library, each as its generation has them."""

    compression: float = 1.0


class TapeLibraryConfig(Message):
    """A tape library: a medium changer and its drives."""

    lun: int
    vendor: str | None = None
    product: str | None = None
    drives: list[TapeDriveConfig]
    slots: int
    import_export: int = 0
    folder: str | None = None
    pool: str | None = None
    cartridges: list[CartridgeConfig]
    capacity_bytes: int
    early_warning_bytes: int
    times: TapeTimesConfig | None = None
