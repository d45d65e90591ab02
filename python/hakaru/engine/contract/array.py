"""Configuration of the `array` engine."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine.contract.access import AccessConfig
from hakaru.engine.contract.drive import ArrayModel
from hakaru.engine.contract.initiator import LoginKeys, SocketOptions
from hakaru.engine.contract.part import Message
from hakaru.engine.contract.presets import ArrayPreset
from hakaru.engine.contract.stores import Store
from hakaru.engine.contract.tape import TapeLibraryConfig
from hakaru.login_defaults import TARGET


class Placement(Message):
    """Place of an LU on the modelled drives."""

    group: int
    offset_bytes: int


class PortGroupConfig(Message):
    """A target port group."""

    portals: list[int]
    preferred: bool = False


class LuConfig(Message):
    """A logical unit."""

    lun: int
    size_bytes: int
    block_bytes: int = 512
    physical_block_bytes: int | None = None
    store: Store
    placement: Placement | None = None
    read_only: bool = False
    thin: bool = False
    unmap_any_data: bool = False
    removable: bool = False
    sanitize: bool = False
    explicit_alua: bool = False


class GroupConfig(Message):
    """A RAID group of a pool."""

    name: str
    size_bytes: int
    placement: Placement | None = None


class PoolConfig(Message):
    """A thin-provisioned pool."""

    name: str
    directory: str
    page_bytes: int = 262_144
    soft_threshold_percent: int = 70
    hold_when_full_s: int = 0
    direct: bool = False
    groups: list[GroupConfig]


class NoModel(Message):
    """Every request completes as fast as the machine can."""

    kind: Literal["none"]


class PresetModel(Message):
    """A timing model that the engine knows by name."""

    kind: Literal["preset"]
    name: ArrayPreset


Model = Annotated[NoModel | PresetModel | ArrayModel, Field(discriminator="kind")]


class CapConfig(Message):
    """A cap on the rates of accesses."""

    name: str
    lun: int | None = None
    initiator_name: str | None = None
    iops: int | None = None
    bytes_per_s: int | None = None
    burst_ms: int = 10


class ShareClass(Message):
    """A class of accesses with a share."""

    name: str
    lun: int | None = None
    initiator_name: str | None = None
    share: int


class SharesConfig(Message):
    """A limit of the accesses in flight, and the shares of those that wait for it."""

    in_flight: int
    classes: list[ShareClass]
    others: int = 100


class ArrayConfig(Message):
    """The `array` engine."""

    engine: Literal["array"] = "array"
    target_name: str
    portals: list[str]
    port_groups: list[PortGroupConfig] = []
    pools: list[PoolConfig] = []
    lus: list[LuConfig]
    tape_library: TapeLibraryConfig | None = None
    model: Model
    caps: list[CapConfig] = []
    shares: SharesConfig | None = None
    state_directory: str | None = None
    access: AccessConfig = AccessConfig()
    allow_external: bool = False
    isolated_network: bool = False
    login: LoginKeys = LoginKeys(**TARGET._asdict())
    socket: SocketOptions = SocketOptions()
    seed: int = 0
    sample_interval_ms: int = 1000
    drive_sample_interval_ms: int | None = None
    sessions_max: int = 16_384
    spin_us: int = 0
