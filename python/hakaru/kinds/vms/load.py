"""The load of VMs: the location of their data, and their requests over time.

    load:
      kind: vms
      columns: [[0], [1]]
      image: 64 GiB
      patterns:
        random-32k:
          {sizes: [{size: 32 KiB}], read_percent: 70, random_percent: 100,
           load: {kind: closed, queue_depth: 32}}

`pattern`, `vms`, `queue_depth`, `rate_per_s`, `paths` and `paths_per_vm` are factors of every study
of VMs. A study with `groups` of VMs, each with a pattern and a number of its own, has only the last
two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hakaru.kinds.vms.events import EVENTS_MAX, PathEvent
from hakaru.kinds.vms.hypervisor import Hypervisor, NoHypervisor, limits_of
from hakaru.kinds.vms.iscsi import Iscsi
from hakaru.kinds.vms.multipath import Multipath
from hakaru.study.any_load import Load
from hakaru.study.kind import load_of
from hakaru.study.model import Study
from hakaru.study.part import Id, Part
from hakaru.units import Size

VMS_MAX = 20_000
FACTORS = {
    "pattern": "load.pattern",
    "vms": "load.vms",
    "queue_depth": "load.queue_depth",
    "rate_per_s": "load.rate_per_s",
    "paths": "load.paths",
    "paths_per_vm": "load.paths_per_vm",
}
"""Factor → place in the study."""


class SizeWeight(Part):
    """One request size and its relative frequency."""

    size: Size = Field(ge=512, le=16 << 20)
    weight: int = Field(default=1, ge=1, le=1_000_000)


class Closed(Part):
    """A closed load: a fixed number of requests is always outstanding per VM."""

    kind: Literal["closed"]
    queue_depth: int = Field(ge=1, le=1024)


class Open(Part):
    """An open load: requests are due at given instants, from which their latency counts."""

    kind: Literal["open"]
    rate_per_s: float = Field(gt=0, le=10_000_000, description="offered requests per second and VM")
    arrivals: Literal["uniform", "poisson"] = "poisson"
    in_flight_max: int = Field(default=256, ge=1, le=1024)


class Pattern(Part):
    """Sizes, directions, locations and timing of the requests of a VM."""

    sizes: list[SizeWeight] = Field(min_length=1, max_length=64)
    read_percent: int = Field(ge=0, le=100)
    random_percent: int = Field(ge=0, le=100)
    align: Size | None = Field(default=None, description="alignment of random offsets; default: the request's size")
    load: Annotated[Closed | Open, Field(discriminator="kind")]


Role = Literal["victim", "aggressor"]
ROLES: tuple[Role, ...] = ("victim", "aggressor")


class VmGroup(Part):
    """VMs with one pattern and a role. They are named after the group: `NAME-1`, `NAME-2`, …"""

    role: Role = Field(description="`victim`: VMs whose service is judged. `aggressor`: VMs that disturb them")
    vms: int = Field(ge=0, le=VMS_MAX, description="number of VMs; with 0, the others have the array to themselves")
    pattern: Id = Field(description="a name under `patterns`")
    columns: list[Annotated[list[int], Field(min_length=1, max_length=256)]] | None = Field(
        default=None, min_length=1, max_length=256, description="LUs of the group; default: `columns` of the load"
    )
    hosts: list[str] | None = Field(
        default=None, min_length=1, max_length=256, description="hosts of the lab that it runs on; default: all"
    )
    region: Size | None = Field(
        default=None,
        description="part of its image, from the start, that a VM of the group uses; default: `region` of the load",
    )


@dataclass(frozen=True)
class Member:
    """A VM of a point."""

    name: str
    group: str | None
    """Name of its group; None without groups."""
    pattern: Pattern
    columns: tuple[tuple[int, ...], ...]
    """LUs that its images are dealt to."""
    place: int
    """Its position, from 0, among the VMs that are dealt to the same columns."""
    turn: int
    """Its position, from 0, in its group, which determines its host and its path."""
    hosts: tuple[str, ...] | None
    """Hosts that its group runs on; None for all hosts of the lab."""
    region_bytes: int
    """Bytes of its image that it uses, from the start."""

    def host(self, lab_hosts: Sequence[str]) -> str:
        """The host that it runs on."""
        hosts = self.hosts or lab_hosts
        return hosts[self.turn % len(hosts)]


class VmsLoad(Load):
    """VMs that load the lab's array. VM i uses column i mod columns, and there the next free
    image.
    """

    kind: Literal["vms"]
    columns: list[Annotated[list[int], Field(min_length=1, max_length=256)]] = Field(
        min_length=1, max_length=256, description="LUs; VMs are dealt to columns in turn and fill each LU by LU"
    )
    image: Size = Field(ge=1 << 20, description="size of a VM's disk image on its LU")
    region: Size | None = Field(
        default=None, description="part of its image, from the start, that a VM uses; default: all"
    )
    patterns: dict[Id, Pattern] = Field(min_length=1, max_length=100)
    hypervisor: Hypervisor = Field(
        default=NoHypervisor(), description="queues of the VMs' disks, and sessions that the hosts own; default: none"
    )
    iscsi: Iscsi = Field(default=Iscsi(), description="login keys, commands and sockets at both ends")
    initiator: Literal["hakaru", "kernel"] = Field(
        default="hakaru",
        description="`hakaru`: the initiator of hakaru. `kernel`: that of Linux, open-iscsi, in the guest of "
        "`lab.load_guest`; VMs then load its disks past the page cache",
    )
    transport: Literal["iscsi", "stream"] = Field(
        default="iscsi",
        description="`stream`: plain TCP data to the array's address with the same socket options, one connection per "
        "session; it shows what the path carries without iSCSI and storage",
    )
    pattern: Id | None = Field(default=None, description="a name under `patterns`; also a factor")
    vms: int | None = Field(default=None, ge=1, le=VMS_MAX, description="number of VMs; also a factor")
    queue_depth: int | None = Field(
        default=None, ge=1, le=1024, description="overrides the queue depth of the pattern (closed load); also a factor"
    )
    rate_per_s: float | None = Field(
        default=None,
        gt=0,
        le=10_000_000,
        description="overrides the rate of the pattern (open load), requests per second and VM; also a factor",
    )
    paths: int | None = Field(
        default=None, ge=1, le=8, description="number of the lab's paths that the VMs use; default: all; also a factor"
    )
    paths_per_vm: int | None = Field(
        default=None,
        ge=1,
        le=8,
        description="number of paths that each VM uses at the same time, with one session over each; default: each "
        "VM uses one path and cannot survive its loss; also a factor",
    )
    multipath: Multipath = Field(
        default=Multipath(), description="choice of a path for each command and timers, with `paths_per_vm`"
    )
    events: list[PathEvent] = Field(
        default=[],
        max_length=EVENTS_MAX,
        description="changes of links and portals in the measuring phase of each repetition, with `paths_per_vm` of 2 "
        "or more; default: none",
    )
    groups: dict[Id, VmGroup] = Field(
        default={},
        max_length=16,
        description="groups of VMs with roles, instead of `pattern` and `vms`; their images are placed in this order",
    )

    @property
    def region_bytes(self) -> int:
        """Bytes of its image that a VM uses, from the start."""
        return self.image if self.region is None else self.region

    @property
    def point_pattern(self) -> Pattern:
        """The pattern of a point, with the queue depth or the rate of the point."""
        chosen = self.patterns[str(self.pattern)]
        name = "queue_depth" if isinstance(chosen.load, Closed) else "rate_per_s"
        value = getattr(self, name)
        if value is None:
            return chosen
        return chosen.model_copy(update={"load": chosen.load.model_copy(update={name: value})})

    def used_portals(self, portals: Sequence[str]) -> tuple[str, ...]:
        """Portals of the array that the VMs use: those of the first `paths` paths."""
        return tuple(portals if self.paths is None else portals[: self.paths])

    def sessions(self, hosts: int, paths: int) -> int:
        """Sessions of all VMs, at least one. VM i of a group runs on host i mod `hosts` and uses
        path i mod `paths`. VMs that share sessions have one per host and path.
        """
        count = max(1, self.count)
        if limits_of(self.hypervisor).host is None:
            return count * self.iscsi.initiator.sessions * (self.paths_per_vm or 1)
        if not self.groups:
            return len({(vm % hosts, vm % paths) for vm in range(count)})
        names = [str(host) for host in range(hosts)]
        return max(1, len({(member.host(names), member.turn % paths) for member in self.members()}))

    @property
    def count(self) -> int:
        """Number of VMs at a point; 0 if it is not set."""
        return sum(group.vms for group in self.groups.values()) if self.groups else self.vms or 0

    @property
    def used_patterns(self) -> dict[str, Pattern]:
        """Name → pattern of those that VMs of the point use, with the queue depth or the rate of
        the point.
        """
        if not self.groups:
            return {str(self.pattern): self.point_pattern}
        return {group.pattern: self.patterns[group.pattern] for group in self.groups.values() if group.vms}

    def members(self) -> list[Member]:
        """Every VM of a point, in order. Without groups, all are one."""
        columns = tuple(map(tuple, self.columns))
        if not self.groups:
            width, pattern = max(2, len(str(self.count))), self.point_pattern
            size = self.region_bytes
            return [Member(f"vm{i + 1:0{width}}", None, pattern, columns, i, i, None, size) for i in range(self.count)]
        members: list[Member] = []
        dealt: dict[tuple[tuple[int, ...], ...], int] = {}
        for name, group in self.groups.items():
            own = columns if group.columns is None else tuple(map(tuple, group.columns))
            hosts = None if group.hosts is None else tuple(group.hosts)
            for turn in range(group.vms):
                place = dealt.get(own, 0)
                dealt[own] = place + 1
                pattern, size = self.patterns[group.pattern], group.region or self.region_bytes
                members.append(Member(f"{name}-{turn + 1}", name, pattern, own, place, turn, hosts, size))
        return members

    def used_hosts(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Those hosts of the lab that run a VM, in order."""
        if not self.groups:
            return tuple(hosts[: self.count])
        used = {member.host(hosts) for member in self.members()}
        return tuple(host for host in hosts if host in used)


def load_at(study: Study) -> VmsLoad:
    """The load of a study of VMs; at a point, `pattern` and `vms` are set."""
    return load_of(study, VmsLoad)
