"""Trees on the disk of a virtual file server in a guest, which is a file on a thin LU.

    to:
      chain:
        disk: {format: vhd, subformat: dynamic, size: 512 MiB}
        host_file_system: xfs
        lu: {size: 2 GiB, pool: 1 GiB}

    LU ── open-iscsi ── file system ── image ── qemu-nbd ── file system ── load, or Samba

The load runs in the guest; with `smb` beside `chain`, its tools reach Samba in the guest from
another host of the lab.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import Field, model_validator

from hakaru.engine import contract
from hakaru.engine.contract import Model
from hakaru.fileserver import partition
from hakaru.fileserver.chain_spec import SHARE_PATH, ChainPlan, ChainSpec, FileSystem
from hakaru.fileserver.samba_settings import FileServer
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.lab.plan import LabPlan
from hakaru.run import pool_folder
from hakaru.run.configure import MS, drive_interval_ms
from hakaru.study.intervals import Intervals
from hakaru.study.model import Study
from hakaru.study.part import Part
from hakaru.study.variables import Problem
from hakaru.units import Size, format_size

IMAGE = "file-server"
"""Image of a guest that has the programs of a chain."""
MEMORY_MIN_BYTES = 1 << 30
"""Memory of such a guest: Samba and QEMU are in its root, which is in memory."""
FOLDER = f"{SHARE_PATH}/trees"
TARGET_NAME = "iqn.2011-10.example.hakaru:chain"
PORT = 3260
POOL, VOLUME, GROUP = "pool", "disk", "group"
METADATA_PERCENT: Mapping[FileSystem, int] = {"ext4": 12, "xfs": 12, "btrfs": 25}
"""Share of a file system for its own metadata, as far as plans are concerned: XFS has a log of
64 MiB at least, ext4 a journal of up to 1/16, btrfs two copies of its metadata, of up to 1/10 each.
"""
POOL_METADATA_PERCENT = 12
"""The same of a pool."""
THRESHOLD_PERCENT = 70
"""Use of a pool at which the array notifies its initiators."""
_MIB = 1 << 20
_PAGE_MIN_BYTES, _PAGE_MAX_BYTES = 64 << 10, 16 * _MIB
_SIZE_MIN_BYTES = 256 * _MIB
# mkfs.xfs(8) refuses less; mkfs.btrfs(8) refuses less than 109 MiB.
_MIN_BYTES: Mapping[FileSystem, int] = {"ext4": 0, "xfs": 300 * _MIB, "btrfs": 128 * _MIB}
_NAMES: Mapping[FileSystem, str] = {"ext4": "ext4", "xfs": "XFS", "btrfs": "btrfs"}


class LuSpec(Part):
    """The thin LU below the host's file system, and its pool of one RAID group."""

    size: Size = Field(default=4 << 30, ge=_SIZE_MIN_BYTES, le=1 << 46, description="size that the host sees")
    pool: Size = Field(
        default=2 << 30,
        ge=64 * _MIB,
        le=1 << 40,
        description="size of the RAID group of the pool, in this machine's memory; it may be less than `size`",
    )
    page: Size = Field(default=256 << 10, description="page of the pool, a power of two from 64 KiB to 16 MiB")
    write_back: bool = Field(default=True, description="write cache of the LU")
    model: Model = Field(
        default=contract.NoModel(kind="none"), description="timing model of the array, as of an array of a study"
    )
    array_write_back: bool = Field(
        default=True,
        description="write cache of the array; without it, the `cache` of its `model` passes writes to the drives",
    )

    @model_validator(mode="after")
    def _check_page(self) -> Self:
        if not _PAGE_MIN_BYTES <= self.page <= _PAGE_MAX_BYTES or self.page & (self.page - 1):
            raise ValueError(f"{format_size(self.page)} is not a page: a power of two from 64 KiB to 16 MiB")
        return self

    @model_validator(mode="after")
    def _check_cache(self) -> Self:
        has_cache = isinstance(self.model, contract.ArrayModel) and self.model.cache is not None
        if not self.array_write_back and not has_cache:
            raise ValueError("the array has no write cache to switch off; write a `model` of kind array with a `cache`")
        return self

    @property
    def timing(self) -> Model:
        """The timing model, whose cache only reads if the array has no write cache."""
        if self.array_write_back:
            return self.model
        assert isinstance(self.model, contract.ArrayModel) and self.model.cache is not None, "checked by the validator"
        return self.model.model_copy(update={"cache": self.model.cache.model_copy(update={"write": "through"})})


class ChainPart(Part):
    """The layers below the trees, from the top down."""

    guest_file_system: FileSystem = Field(default="ext4", description="file system on the virtual disk")
    guest_write_back: bool = Field(
        default=True, description="write cache of that file system; without it, every write waits for the disk"
    )
    partition_start: int | None = Field(
        default=None,
        ge=partition.START_MIN,
        le=partition.START_MAX,
        description="first sector of the partition of the virtual disk: 63 as until Windows Server 2003, 2048 as "
        "later; without it, the file system is on the whole disk",
    )
    disk: VirtualDisk = Field(description="the virtual disk")
    host_file_system: FileSystem = Field(default="xfs", description="file system on the LU")
    host_write_back: bool = Field(default=True, description="write cache of that file system")
    lu: LuSpec = Field(default_factory=LuSpec, description="the LU and its pool")

    @property
    def spec(self) -> ChainSpec:
        """The layers above the LU."""
        return ChainSpec(
            disk=self.disk,
            host_file_system=self.host_file_system,
            guest_file_system=self.guest_file_system,
            host_write_back=self.host_write_back,
            guest_write_back=self.guest_write_back,
            lu_write_back=self.lu.write_back,
            partition_start=self.partition_start,
        )


FACTORS = {
    "disk_format": "disk.format",
    "disk_subformat": "disk.subformat",
    "disk_preallocation": "disk.preallocation",
    "disk_cache": "disk.cache",
    "host_file_system": "host_file_system",
    "guest_file_system": "guest_file_system",
    "host_write_back": "host_write_back",
    "guest_write_back": "guest_write_back",
    "lu_write_back": "lu.write_back",
    "array_write_back": "lu.array_write_back",
    "partition_start": "partition_start",
}
"""Factors that need no variable → their places in `load.to.chain`."""


def plan(
    chain: ChainPart, lab: LabPlan, node: str, array: str, hosts: tuple[str, ...], server: FileServer | None
) -> ChainPlan:
    """Return the chain in the guest of a node, on an LU of an array. `hosts`: nodes of its loads.
    `server`: Samba on its disk, if any.
    """
    # Every host of a lab reaches every array.
    reachable = lab.reachable_addresses(node)
    portal = next(portal for portal in lab.portals(array, PORT) if portal.rpartition(":")[0] in reachable)
    folder = _pool_folder(array)
    return ChainPlan(node, chain.spec, array, portal, TARGET_NAME, 0, POOL, VOLUME, folder, server, hosts)


def _pool_folder(array: str) -> str:
    """A directory that no other array uses."""
    return f"{pool_folder.FOLDER}/{array}-{POOL}"


def array(chain: ChainPart, lab: LabPlan, node: str, *, seed: int, intervals: Intervals) -> contract.ArrayConfig:
    """Return the array in a node with the LU of a chain."""
    lu = chain.lu
    placement = None if lu.model.kind == "none" else contract.Placement(group=0, offset_bytes=0)
    pool = contract.PoolConfig(
        name=POOL,
        directory=_pool_folder(node),
        page_bytes=lu.page,
        soft_threshold_percent=THRESHOLD_PERCENT,
        groups=[contract.GroupConfig(name=GROUP, size_bytes=lu.pool, placement=placement)],
    )
    return contract.ArrayConfig(
        target_name=TARGET_NAME,
        portals=list(lab.portals(node, PORT)),
        isolated_network=True,
        pools=[pool],
        lus=[contract.LuConfig(lun=0, size_bytes=lu.size, store=contract.ThinStore(pool=POOL, volume=VOLUME))],
        model=lu.timing,
        seed=seed,
        sample_interval_ms=intervals.arrays // MS,
        drive_sample_interval_ms=drive_interval_ms(intervals, lu.model),
    )


def held_bytes(chain: ChainPart, grown_bytes: int, extended_bytes: int) -> int:
    """Memory of the pool when it is full, after it has grown by `grown_bytes`, and its LU by
    `extended_bytes`.
    """
    return min(chain.lu.pool + grown_bytes, chain.lu.size + extended_bytes)


def problems(study: Study, chain: ChainPart, tree_bytes: int) -> Iterator[Problem]:
    """Requirements that the lab does not meet, and layers too small for the one above."""
    place, guest = ("load", "to", "chain"), study.lab.load_guest
    hint = f"add `load_guest: {{image: {IMAGE}, memory: 1 GiB}}` to the lab"
    if guest is None:
        yield place, "the disk is in a guest, and the lab has none", hint
    elif guest.image != IMAGE:
        message = f"the guest's image {guest.image!r} has no Samba and no virtual disks"
        yield ("lab", "load_guest", "image"), message, f"use `image: {IMAGE}`"
    elif guest.memory < MEMORY_MIN_BYTES:
        message = f"the image {IMAGE} is too large for {format_size(guest.memory)} of memory"
        yield ("lab", "load_guest", "memory"), message, "use at least 1 GiB"
    yield from size_problems(place, chain, tree_bytes)


def size_problems(place: tuple[str, ...], chain: ChainPart, tree_bytes: int) -> Iterator[Problem]:
    """Layers too small for the one above. `place`: that of the chain in the study."""
    for name, kind, size, field in (
        ("virtual disk", chain.guest_file_system, chain.disk.size, (*place, "disk", "size")),
        ("LU", chain.host_file_system, chain.lu.size, (*place, "lu", "size")),
    ):
        if size < (least := _MIN_BYTES[kind]):
            message = f"{_NAMES[kind]} needs more than a {name} of {format_size(size)}"
            yield field, message, f"use at least {format_size(least)}, or ext4"
    usable = chain.disk.size - (chain.partition_start or 0) * partition.SECTOR_BYTES
    usable = max(usable * (100 - METADATA_PERCENT[chain.guest_file_system]) // 100, 0)
    if chain.partition_start is not None and chain.disk.size > partition.DISK_MAX_BYTES:
        message = f"a disk of {format_size(chain.disk.size)} has more sectors than its partition table can count"
        yield (*place, "disk", "size"), message, "use less than 2 TiB, or leave `partition_start` out"
    if tree_bytes > usable:
        message = f"trees of {_rounded(tree_bytes)} do not fit on a disk of {format_size(chain.disk.size)}"
        yield (
            (*place, "disk", "size"),
            message,
            f"use a larger disk, or a smaller `load.tree` (at most {_rounded(usable)})",
        )
    usable = chain.lu.size * (100 - METADATA_PERCENT[chain.host_file_system]) // 100
    if chain.disk.size > usable:
        message = f"a disk of {format_size(chain.disk.size)} does not fit on an LU of {format_size(chain.lu.size)}"
        yield (*place, "lu", "size"), message, "use a larger LU: it is thin, and takes only what is written"
    if (
        chain.disk.chosen_preallocation == "full"
        and chain.disk.size > chain.lu.pool * (100 - POOL_METADATA_PERCENT) // 100
    ):
        message = f"a fixed disk of {format_size(chain.disk.size)} fills a pool of {format_size(chain.lu.pool)}"
        yield (*place, "lu", "pool"), message, "use a larger pool, or `preallocation: falloc`"


def _rounded(size: int) -> str:
    return format_size(-(-size // _MIB) * _MIB)
