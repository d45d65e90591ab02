"""Description of a chain in a guest: its layers, and its place in a lab. Pure.

`ChainSpec` has the layers from the LU upwards; `ChainPlan` adds the LU, the array that has it, and
the guest. `hakaru.fileserver.chain` builds what they describe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hakaru.fileserver.samba_settings import FileServer
from hakaru.fileserver.virtual_disk import VirtualDisk

FileSystem = Literal["ext4", "xfs", "btrfs"]

HOST_PATH, SHARE_PATH = "/srv/host", "/srv/share"
"""Mount points, in the guest, of the file system on the LU and of the one on the virtual disk."""
SIZED_LAYERS = ("lu", "host_disk", "host_file_system", "virtual_disk", "partition", "guest_file_system")
"""Layers that have a size, from the LU upwards, as `hakaru.fileserver.extension` extends them. A
disk may have no partition.
"""


@dataclass(frozen=True)
class ChainSpec:
    """The layers of a chain, from the LU upwards."""

    disk: VirtualDisk
    host_file_system: FileSystem = "xfs"
    guest_file_system: FileSystem = "ext4"
    host_write_back: bool = True
    """Whether the host's file system caches writes; False: it is mounted with `sync`."""
    guest_write_back: bool = True
    """The same for the file system on the virtual disk."""
    lu_write_back: bool = True
    """Whether the LU's write cache is on (WCE of its caching mode page)."""
    extensible: bool = False
    """Whether the virtual disk can be extended while it is used: the device mapper is then between
    it and its file system.
    """
    partition_start: int | None = None
    """First sector of the partition that the file system on the virtual disk is in; None: it is on
    the whole disk (`hakaru.fileserver.partition`).
    """

    @property
    def file_systems(self) -> tuple[FileSystem, FileSystem]:
        """The file system on the LU and the one on the virtual disk."""
        return self.host_file_system, self.guest_file_system

    @property
    def sized_layers(self) -> tuple[str, ...]:
        """The layers of this chain that have a size."""
        return tuple(name for name in SIZED_LAYERS if name != "partition" or self.partition_start is not None)

    def describe(self) -> dict[str, Any]:
        """Return the description for the record of a run."""
        return {
            "disk": {**self.disk.model_dump(), "preallocation": self.disk.chosen_preallocation},
            "host_file_system": self.host_file_system,
            "guest_file_system": self.guest_file_system,
            "host_write_back": self.host_write_back,
            "guest_write_back": self.guest_write_back,
            "lu_write_back": self.lu_write_back,
            "extensible": self.extensible,
            "partition_start": self.partition_start,
        }


@dataclass(frozen=True)
class ChainPlan:
    """A chain in a lab: its guest, and the thin LU that it is on."""

    node: str
    """Node that the guest takes the place of."""
    spec: ChainSpec
    array: str
    """Node of the array."""
    portal: str
    target_name: str
    lun: int
    pool: str
    volume: str
    pool_folder: str
    """Directory of the pool. It holds a file system in memory while the chain exists."""
    server: FileServer | None = None
    """Samba on the virtual disk; None: the load runs in the guest."""
    hosts: tuple[str, ...] = ()
    """Nodes whose loads are on the disk: the clients of the server, or the guest itself."""
