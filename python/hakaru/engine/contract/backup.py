"""Configuration of the `backup` engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine.contract.access import ChapConfig
from hakaru.engine.contract.initiator import LoginKeys
from hakaru.engine.contract.part import Message


class Lu(Message):
    """An LU behind a portal, and the name of the initiator that logs in."""

    portal: str
    target_name: str
    lun: int
    initiator_name: str


class NoCompression(Message):
    """The destination receives the blocks unchanged."""

    kind: Literal["none"] = "none"


class Zstd(Message):
    """The destination receives one zstd frame per block, consecutively."""

    kind: Literal["zstd"] = "zstd"
    level: int = 3


Compression = Annotated[NoCompression | Zstd, Field(discriminator="kind")]


class TapeDestination(Message):
    """The writing of a copy to a tape drive, on a cartridge that the changer puts into it."""

    changer_lun: int
    drive: int
    cartridge: str
    append: bool = False
    fixed_block_bytes: int | None = None
    filemark_every_bytes: int | None = None
    immediate_filemarks: bool = False


class Disks(Message):
    """Paths of the disks that the kernel has for both LUs of a job, because it is their
    initiator.
    """

    source: str
    destination: str


class BackupJob(Message):
    """The copy of one disk image. `length_bytes` 0: up to the end of the source."""

    name: str
    source: Lu
    source_offset_bytes: int = 0
    destination: Lu
    destination_offset_bytes: int = 0
    length_bytes: int
    block_bytes: int = 262_144
    depth: int = 8
    streams: int = 1
    rate_limit_bytes_per_s: int | None = None
    compression: Compression = NoCompression()
    verify: bool = False
    tape: TapeDestination | None = None
    disks: Disks | None = None


class BackupConfig(Message):
    """The `backup` engine. `time_limit_s` 0: no limit."""

    engine: Literal["backup"] = "backup"
    jobs: list[BackupJob]
    login: LoginKeys = LoginKeys()
    chap: ChapConfig | None = None
    time_limit_s: float
    command_timeout_s: float = 30.0
    tape_command_timeout_s: float = 900.0
    sample_interval_ms: int = 1000
