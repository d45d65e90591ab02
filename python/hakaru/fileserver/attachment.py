"""The virtual disk of a chain as a block device of its guest: qemu-nbd, and above it the device
mapper if the disk has a partition, or is to be extended while it is used.

    attached = Attachment(guest, IMAGE_PATH, extensible=True, partition_start=2048)
    await attached.attach(disk, new=True)
    attached.disk                                /dev/nbd0
    attached.device                              /dev/dm-0, or the disk without the device mapper
    held_ms = await attached.enlarge(larger)     below a mounted file system
    await attached.grow_partition(larger)        the same
    await attached.detach()

qemu-nbd serves the size that an image has when it is attached, so an image that has grown is
attached anew. The device mapper holds all requests meanwhile: the file system above waits, and sees
no error. An nbd device that something has open cannot be attached again, so two take turns.
"""

from __future__ import annotations

import shlex

from hakaru.fileserver import partition, virtual_disk
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.guest.machine import Guest

# Commands write whole disks, on an emulated processor of a busy machine.
_LONG_S = 600.0
_WAITS, _WAIT_US = 600, 50_000
_NAME = "virtual-disk"
"""Name of the disk in the device mapper."""


class Attachment:
    """The block device of one image. `path`: that of the image in the guest. `partition_start`:
    first sector of its partition; None: the whole disk is used.
    """

    def __init__(self, guest: Guest, path: str, *, extensible: bool, partition_start: int | None = None) -> None:
        self.guest = guest
        self.path = path
        self.extensible = extensible
        self.partition_start = partition_start
        self.device = ""
        """The disk or its partition, once `attach` has returned: the device of a file system."""
        self._number = 0

    @property
    def disk(self) -> str:
        """The block device of the whole disk."""
        return f"/dev/nbd{self._number}"

    async def attach(self, disk: VirtualDisk, path: str = "", *, new: bool = False) -> None:
        """Attach the image, which has the size of `disk`. A `new` one is empty, and gets its
        partition. `path`: that of an overlay to attach in its place.
        """
        script = [
            "set -e",
            # qemu-nbd keeps its socket there.
            "mkdir -p /var/lock",
            f"modprobe nbd max_part=0 nbds_max={2 if self.extensible else 1}",
            *_connect(disk, path or self.path, self.disk),
        ]
        if new and self.partition_start is not None:
            script.append(partition.write_command(self.partition_start, disk.size, self.disk))
        if not self._is_mapped:
            await self._run(*script)
            self.device = self.disk
            return
        script += ["modprobe dm_mod", f"{self._mapping(disk, self.disk)} | dmsetup create {_NAME} 2>&1"]
        script.append(f"cd /sys/block/{self.disk.removeprefix('/dev/')}/holders && echo dm-*")
        self.device = f"/dev/{(await self._run(*script)).split()[-1]}"

    async def enlarge(self, disk: VirtualDisk) -> float:
        """Give the attached image the size of a larger `disk`, and return the time for which
        requests were held, in milliseconds, to 10 ms. Its partition keeps its size.

        If a command fails, requests continue, and fail if the image is detached.
        """
        assert self.extensible, "the disk has no device mapper"
        other = 1 - self._number
        output = await self._run(
            "set -e",
            "read begun rest </proc/uptime",
            # Freezes the file system, which writes its data back before.
            f"dmsetup suspend {_NAME}",
            f"trap 'dmsetup resume {_NAME}' EXIT",
            *_disconnect(self.disk),
            shlex.join(virtual_disk.resize_command(disk, self.path)),
            *_connect(disk, self.path, f"/dev/nbd{other}"),
            f"{self._mapping(disk, f'/dev/nbd{other}')} | dmsetup reload {_NAME}",
            "trap - EXIT",
            f"dmsetup resume {_NAME}",
            "read ended rest </proc/uptime",
            'echo "held $begun $ended"',
        )
        self._number = other
        begun, ended = output.split()[-2:]
        return 1000 * round(float(ended) - float(begun), 2)

    async def grow_partition(self, disk: VirtualDisk) -> None:
        """Let the partition end with the attached `disk`, below a mounted file system."""
        assert self.partition_start is not None, "the disk has no partition"
        await self._run(
            "set -e",
            partition.write_command(self.partition_start, disk.size, self.disk),
            f"{self._mapping(disk, self.disk)} | dmsetup reload {_NAME}",
            f"dmsetup resume {_NAME}",
        )

    async def detach(self) -> None:
        """Detach the image if it is attached, and wait until qemu-nbd has closed it."""
        removed = f"if dmsetup info {_NAME} >/dev/null 2>&1; then dmsetup remove --retry {_NAME} || exit 1; fi"
        await self._run(*([removed] if self._is_mapped else []), *_disconnect(self.disk))

    @property
    def _is_mapped(self) -> bool:
        """Whether the device mapper is above the disk."""
        return self.extensible or self.partition_start is not None

    def _mapping(self, disk: VirtualDisk, nbd: str) -> str:
        """Return the command that prints the table of the device mapper: all sectors of an nbd
        device, or those of its partition.
        """
        if self.partition_start is not None:
            return partition.mapping_command(nbd)
        return f"echo 0 {disk.size // 512} linear {nbd} 0"

    async def _run(self, *lines: str) -> str:
        return await self.guest.run("\n".join(lines), timeout_s=_LONG_S)


def _connect(disk: VirtualDisk, path: str, nbd: str) -> list[str]:
    """Return commands that attach an image and wait until the kernel knows its size."""
    sized = f'[ "$(blockdev --getsize64 {nbd})" = {disk.size} ]'
    return [
        shlex.join(virtual_disk.attach_command(disk, path, nbd)),
        f"for i in $(seq {_WAITS}); do {sized} && break; usleep {_WAIT_US}; done",
        f"{sized} || {{ echo the size of {nbd} is not that of the disk; exit 1; }}",
    ]


def _disconnect(nbd: str) -> list[str]:
    """Return commands that detach an image if it is attached, and wait until it is closed."""
    return [
        f"qemu-nbd --disconnect {nbd} >/dev/null 2>&1 || true",
        f"for i in $(seq {_WAITS}); do pidof qemu-nbd >/dev/null || break; usleep {_WAIT_US}; done",
        "if pidof qemu-nbd >/dev/null; then echo qemu-nbd does not end; exit 1; fi",
    ]
