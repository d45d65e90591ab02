"""Timing model of an array with every parameter: controller, port, cache, RAID groups, drives.

Names, types and defaults are those of `crates/contract/src/drive.rs` (a test holds them equal to
schema/contract.schema.json); their meaning and sources are documented there. Bounds are those of
the crate hakaru-drive, which also checks dependencies between parameters. Used by `array` and, as
part of a study file, by `hakaru.study.storage`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hakaru.engine.contract.presets import DrivePreset

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
Percent = Annotated[float, Field(ge=0, le=100)]


def _require_power_of_two(name: str, value: int) -> None:
    if value & (value - 1):
        raise ValueError(f"{name} should be a power of two (found {value})")


class Parameters(BaseModel):
    """Base of every part of a model."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Controller(Parameters):
    """A controller, which delays every command before the drives receive it."""

    command_us: float = Field(ge=0, le=1e6)
    data_us_per_mib: float = Field(ge=0, le=1e6)
    latency_us: float = Field(default=0.0, ge=0, le=1e5)


class Port(Parameters):
    """A port, which limits each direction, or both together, to a rate."""

    rate_bytes_per_s: float = Field(ge=1e3, le=1e12)
    shared: bool = False
    command_us: float = Field(default=0.0, ge=0, le=1e4)


class Cache(Parameters):
    """A cache between the controller and the groups."""

    size_bytes: int = Field(ge=64 * 4 * KIB, le=(64 * KIB) << 22)
    segment_bytes: int = Field(default=16 * KIB, ge=4 * KIB, le=64 * KIB)
    write: Literal["back", "through"] = "back"
    nonvolatile: bool = True
    write_pending_limit_percent: float = Field(default=80.0, ge=1, le=100)
    destage_high_percent: Percent = 80.0
    destage_low_percent: Percent = 60.0
    destage_idle_ms: float = Field(default=1000.0, ge=0, le=3.6e6)
    destage_writes: int = Field(default=16, ge=1, le=256)
    destage_forced: float = Field(default=0.0, ge=0, le=16)
    destage_bytes_max: int = Field(default=MIB, ge=4 * KIB, le=16 * MIB)
    hit_us: float = Field(ge=0, le=1e6)
    read_ahead_bytes: int = Field(default=MIB, ge=0, le=16 * MIB, multiple_of=512)
    read_ahead_after: int = Field(default=3, ge=2, le=1000)

    @model_validator(mode="after")
    def _check_dependencies(self) -> Cache:
        _require_power_of_two("segment_bytes", self.segment_bytes)
        low, high = 64 * self.segment_bytes, self.segment_bytes << 22
        if not low <= self.size_bytes <= high:
            raise ValueError(f"size_bytes should be {low} to {high} with segments of {self.segment_bytes} bytes")
        if self.destage_low_percent > self.destage_high_percent:
            raise ValueError("destage_low_percent should be at most destage_high_percent")
        if self.destage_bytes_max < self.segment_bytes:
            raise ValueError("destage_bytes_max should be at least segment_bytes")
        return self


class PresetDrive(Parameters):
    """A drive that the engine knows by name."""

    kind: Literal["preset"]
    name: DrivePreset


class Hdd(Parameters):
    """A hard disk drive."""

    kind: Literal["hdd"]
    capacity_bytes: int = Field(ge=MIB, le=64 * TIB, multiple_of=512)
    rpm: float = Field(ge=1000, le=60_000)
    heads: int = Field(ge=1, le=64)
    rate_outer_bytes_per_s: float = Field(ge=1e6, le=1e10)
    rate_inner_bytes_per_s: float = Field(ge=1e6, le=1e10)
    zones: int = Field(default=16, ge=1, le=64)
    seek_track_ms: float = Field(ge=1e-3, le=100)
    seek_average_ms: float = Field(gt=0, le=1000)
    seek_full_ms: float = Field(ge=1e-3, le=1000)
    write_settle_ms: float = Field(ge=0, le=10)
    head_switch_ms: Annotated[float, Field(ge=0, le=10)] | None = None
    command_us: float = Field(default=0.0, ge=0, le=1e4)
    queue_depth: int = Field(ge=1, le=1024)
    age_limit_ms: float = Field(ge=0, le=60_000)
    overdue_every: int = Field(default=1, ge=1, le=1000)

    @model_validator(mode="after")
    def _check_dependencies(self) -> Hdd:
        if self.rate_inner_bytes_per_s > self.rate_outer_bytes_per_s:
            raise ValueError("rate_inner_bytes_per_s should be at most rate_outer_bytes_per_s")
        if not self.seek_track_ms <= self.seek_average_ms <= self.seek_full_ms:
            raise ValueError("seek_track_ms, seek_average_ms and seek_full_ms should rise in this order")
        return self


class Ssd(Parameters):
    """A flash drive."""

    kind: Literal["ssd"]
    capacity_bytes: int = Field(ge=64 * MIB, le=64 * TIB)
    over_provisioning_percent: float = Field(ge=1, le=1000)
    channels: int = Field(ge=1, le=64)
    dies_per_channel: int = Field(ge=1, le=64)
    planes: int = Field(ge=1, le=8)
    page_bytes: int = Field(ge=512, le=65_536)
    pages_per_block: int = Field(ge=16, le=16_384)
    read_us: float = Field(ge=0.1, le=1e4)
    program_us: float = Field(ge=0.1, le=1e5)
    erase_us: float = Field(ge=0.1, le=1e6)
    channel_bytes_per_s: float = Field(ge=1e6, le=1e11)
    mapping_bytes: int = Field(default=4096, ge=512, le=8 * 65_536)
    buffer_bytes: int = Field(ge=0, le=64 * GIB)
    interface_bytes_per_s: float = Field(ge=1e6, le=1e12)
    command_us: float = Field(ge=0, le=1e4)
    latency_us: float = Field(ge=0, le=1e5)
    queue_depth: int = Field(ge=1, le=65_536)
    preconditioned: bool = True

    @model_validator(mode="after")
    def _check_dependencies(self) -> Ssd:
        _require_power_of_two("planes", self.planes)
        _require_power_of_two("page_bytes", self.page_bytes)
        _require_power_of_two("mapping_bytes", self.mapping_bytes)
        page = self.page_bytes * self.planes
        if self.mapping_bytes > page:
            raise ValueError(f"mapping_bytes should be at most a page of all planes, {page} bytes")
        if self.capacity_bytes % self.mapping_bytes:
            raise ValueError("capacity_bytes should be a multiple of mapping_bytes")
        if self.buffer_bytes == 0 and self.mapping_bytes != page:
            raise ValueError(f"without a buffer, mapping_bytes should be a page of all planes, {page} bytes")
        if 0 < self.buffer_bytes < 2 * page:
            raise ValueError(f"buffer_bytes should be 0, or at least two pages of all planes, {2 * page} bytes")
        return self


Drive = Annotated[PresetDrive | Hdd | Ssd, Field(discriminator="kind")]


class Extents(Parameters):
    """Allocation of a group's space in extents that are not in order."""

    extent_bytes: int = Field(ge=1)
    span_bytes: int = Field(ge=1)

    @model_validator(mode="after")
    def _check_dependencies(self) -> Extents:
        if self.span_bytes % self.extent_bytes:
            raise ValueError("span_bytes should be a multiple of extent_bytes")
        return self


class Group(Parameters):
    """A RAID group."""

    raid: Literal["raid0", "raid1", "raid5"]
    drives: int = Field(ge=1, le=64)
    stripe_unit_bytes: int = Field(ge=512, le=16 * MIB, multiple_of=512)
    drive: Drive
    extents: Extents | None = None

    @model_validator(mode="after")
    def _check_dependencies(self) -> Group:
        if self.raid == "raid1" and self.drives % 2:
            raise ValueError(f"raid1 needs an even number of drives (found {self.drives})")
        if self.raid == "raid5" and self.drives < 3:
            raise ValueError(f"raid5 needs at least 3 drives (found {self.drives})")
        return self


class ArrayModel(Parameters):
    """A timing model with every parameter."""

    kind: Literal["array"]
    controller: Controller
    port: Port | None = None
    cache: Cache | None = None
    groups: list[Group] = Field(min_length=1, max_length=64)
