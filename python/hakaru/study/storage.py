"""The storage of a study: arrays, their timing models, their LUs.

array: {target_name: …, model: {kind: preset, name: jdsf-2011}, lus: [{lun: 0, size: 512 GiB,
placement: {group: 0}}]}
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from hakaru.engine.contract import Model, NoModel
from hakaru.study.part import Id, Part
from hakaru.study.port_groups import GROUPS_MAX, PortGroup
from hakaru.study.tape import TapeLibrarySpec
from hakaru.units import Duration, Rate, Size

MS_NS = 1_000_000
CAPS_MAX = 256
POOL_PAGE_MIN = 64 << 10
SHARE_MAX = 1_000_000


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
    pool: Id | None = Field(
        default=None, description="a name under `pools`, of which the LU is a thin volume; default: no pool"
    )
    placement: Placement | None = Field(
        default=None, description="needed when the model has drives, except for an LU of a pool"
    )
    fill: Fill | None = Field(default=None, description="contents from the start; default: zeros")


class PoolGroup(Part):
    """A RAID group of a pool."""

    size: Size = Field(ge=2 * POOL_PAGE_MIN, description="space of the pool in the group, in memory of this machine")
    placement: Placement | None = Field(default=None, description="needed when the model has drives")


class Pool(Part):
    """A thin-provisioned pool. Its LUs get pages at the first write, in turn from each group."""

    name: Id = Field(description="name of the pool; its counters are those of pool/NAME")
    page: Size = Field(default=256 << 10, ge=POOL_PAGE_MIN, le=16 << 20, description="allocation unit, a power of two")
    groups: list[PoolGroup] = Field(min_length=1, max_length=16)

    @model_validator(mode="after")
    def _has_pages(self) -> Pool:
        if self.page & (self.page - 1):
            raise ValueError(f"the page of pool {self.name!r} has to be a power of two, such as 256 KiB")
        if any(group.size < 2 * self.page for group in self.groups):
            raise ValueError(f"each group of pool {self.name!r} needs space for at least two pages")
        return self

    @property
    def data_bytes(self) -> int:
        """Space for data. The first page of each group has none."""
        return sum((group.size // self.page - 1) * self.page for group in self.groups)


class Cap(Part):
    """A token bucket: a cap on the accesses of some initiators to some LUs, all together."""

    name: Id = Field(description="name of the cap; its counters are those of cap/NAME")
    lun: int | None = Field(default=None, ge=0, le=255, description="logical unit; default: all")
    initiator_name: Annotated[str, StringConstraints(min_length=1, max_length=223)] | None = Field(
        default=None, description="iSCSI name of the initiator; default: all"
    )
    iops: int | None = Field(default=None, ge=1, le=10_000_000, description="accesses per second; default: no limit")
    rate: Rate | None = Field(
        default=None,
        ge=8 * 4096,
        le=8 * 10**12,
        description="data per second, for instance 20 MB/s; default: no limit",
    )
    burst: Duration = Field(
        default=10 * MS_NS,
        ge=0,
        le=60_000 * MS_NS,
        multiple_of=MS_NS,
        description="content of a full bucket, as time at the capped rate: accesses of this time pass at once after an "
        "idle time",
    )

    @model_validator(mode="after")
    def _has_a_rate(self) -> Cap:
        if self.iops is None and self.rate is None:
            raise ValueError(f"cap {self.name!r} has no rate; add `iops: 200`, `rate: 20 MB/s`, or both")
        return self


class ShareClass(Part):
    """Accesses of some initiators to some LUs, with a share."""

    name: Id = Field(description="name of the class, not `others`; its counters are those of share/NAME")
    lun: int | None = Field(default=None, ge=0, le=255, description="logical unit; default: all")
    initiator_name: Annotated[str, StringConstraints(min_length=1, max_length=223)] | None = Field(
        default=None, description="iSCSI name of the initiator; default: all"
    )
    share: int = Field(ge=1, le=SHARE_MAX, description="relative to the shares of the other classes")


class SharesSpec(Part):
    """A limit of the accesses in flight; those that wait for it are dispatched in proportion to the
    shares of their classes.
    """

    in_flight: int = Field(
        ge=1, le=4096, description="few make the shares exact, many keep the drives busy; no default"
    )
    classes: list[ShareClass] = Field(
        min_length=1, max_length=64, description="an access belongs to the first class that it matches"
    )
    others: int = Field(default=100, ge=1, le=SHARE_MAX, description="share of all other accesses together")

    @model_validator(mode="after")
    def _names_differ(self) -> SharesSpec:
        names = ["others", *(each.name for each in self.classes)]
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f"the class name {name!r} is taken; each class needs a name of its own")
        return self


def repeated_cap(caps: list[Cap]) -> int | None:
    """Position of the first cap whose name an earlier one has; None if all names differ."""
    names = [cap.name for cap in caps]
    return next((i for i, name in enumerate(names) if name in names[:i]), None)


class ArraySpec(Part):
    """A storage array."""

    target_name: Annotated[
        str, StringConstraints(pattern=r"^(iqn\.[0-9]{4}-[0-9]{2}\.|eui\.|naa\.)[a-z0-9.:-]+$", max_length=223)
    ]
    port_groups: list[PortGroup] = Field(
        default=[],
        max_length=GROUPS_MAX,
        description="portals that share an access state (ALUA); default: each portal is a group of its own",
    )
    model: Model
    pools: list[Pool] = Field(
        default=[], max_length=16, description="thin-provisioned pools, empty at the start of every repetition"
    )
    lus: list[Lu] = Field(default=[], max_length=256, description="disks; at least one, except with a tape library")
    tape_library: TapeLibrarySpec | None = Field(default=None, description="tape library; default: none")
    caps: list[Cap] = Field(
        default=[], max_length=CAPS_MAX, description="caps on rates; an access passes every one that applies to it"
    )

    shares: SharesSpec | None = Field(
        default=None, description="shares of the accesses in flight, behind the caps; default: no limit of them"
    )

    @model_validator(mode="after")
    def _caps_apply(self) -> ArraySpec:
        repeated = repeated_cap(self.caps)
        if repeated is not None:
            raise ValueError(f"cap {self.caps[repeated].name!r} is given twice; each cap needs a name of its own")
        for each in (*self.caps, *(self.shares.classes if self.shares else ())):
            if each.lun is not None and each.lun not in self.luns:
                raise ValueError(f"{each.name!r} names LUN {each.lun}; the numbers of the LUs are {self.luns}")
        return self

    @model_validator(mode="after")
    def _has_units(self) -> ArraySpec:
        if not self.lus and self.tape_library is None:
            raise ValueError("the array has no LU; add `lus: [{lun: 0, size: 1 GiB}]`")
        library = self.tape_library
        if library is not None and library.pool is None and not isinstance(self.model, NoModel):
            raise ValueError(
                "cartridges in memory have no disks to model; write `model: {kind: none}`, or put them into a `pool`"
            )
        return self

    @model_validator(mode="after")
    def _luns_differ(self) -> ArraySpec:
        luns = [lu.lun for lu in self.lus] + (self.tape_library.luns if self.tape_library else [])
        if len(set(luns)) < len(luns):
            raise ValueError(f"each LU needs a number of its own; the numbers are {sorted(luns)}")
        return self

    @model_validator(mode="after")
    def _pools_exist(self) -> ArraySpec:
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError(f"each pool needs a name of its own; the names are {sorted(names)}")
        for lu in self.lus:
            if lu.pool is None:
                continue
            if lu.pool not in names:
                raise ValueError(f"LU {lu.lun} is in pool {lu.pool!r}; the names of the pools are {names}")
            if lu.placement is not None or lu.fill is not None:
                raise ValueError(f"LU {lu.lun} of pool {lu.pool!r} has no `placement` and no `fill`; remove them")
        library = self.tape_library
        if library is not None and library.pool is not None and library.pool not in names:
            raise ValueError(f"the cartridges are in pool {library.pool!r}; the names of the pools are {names}")
        return self

    def pool(self, name: str) -> Pool:
        """Return the pool with a name. Raises KeyError if there is none."""
        return {pool.name: pool for pool in self.pools}[name]

    @property
    def luns(self) -> list[int]:
        """Numbers of its disks, in order."""
        return sorted(lu.lun for lu in self.lus)

    def lu(self, lun: int) -> Lu:
        """Return the LU with a number. Raises KeyError if there is none."""
        for lu in self.lus:
            if lu.lun == lun:
                return lu
        raise KeyError(lun)
