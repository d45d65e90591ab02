"""The chain of a virtual file server in one guest, which is both the host and the virtual machine.

    LU ── iscsi_tcp ── /dev/sdX ── file system ── image ── qemu-nbd ── /dev/nbd0 ── file system ──
    array              └──────────── the host ───────────────────┘     └── the virtual machine ──

    async with await Chain.build(guest, spec, portal, target_name) as chain:
        await chain.serve(server)               Samba in the guest, on the share at SHARE_PATH
        layers = await chain.layers(counters)   bytes as seen by each layer
        await chain.trim_guest(); await chain.trim_host()
        await chain.check()                     errors that kernel, file systems or image have found

All of it is real software; only the second kernel of a virtual machine is missing. A command that
fails is a GuestCommandError with its output; missing programs are an EnvironmentError_.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hakaru.errors import EnvironmentError_, HakaruError, LostError
from hakaru.fileserver import partition, virtual_disk
from hakaru.fileserver.attachment import Attachment
from hakaru.fileserver.chain_spec import HOST_PATH, SHARE_PATH, ChainSpec, FileSystem
from hakaru.fileserver.image_map import ImageMap, parse_map
from hakaru.fileserver.layers import ArrayCounters, Layers, layers_of
from hakaru.fileserver.samba_settings import FOLDERS, FileServer, configuration, group, passwd
from hakaru.fileserver.virtual_disk import QemuImg, VirtualDisk
from hakaru.guest.machine import Guest, GuestCommandError
from hakaru.guest.open_iscsi import OpenIscsi

IMAGE_PATH = f"{HOST_PATH}/disk.image"
_SAMBA_FOLDER = "/run/samba"
_UID = 1000
# `-K`, `nodiscard`: a new LU has no data, and TRIM of a whole LU is slow on an emulated processor.
_MAKE: dict[FileSystem, str] = {
    "ext4": "mkfs.ext4 -q -F -E nodiscard",
    "xfs": "mkfs.xfs -q -f -K",
    "btrfs": "mkfs.btrfs -q -f -K",
}
# ext4 would write its inode tables in the background for minutes. btrfs of newer kernels would trim
# freed space by itself, unlike the others.
_MOUNT_OPTIONS: dict[FileSystem, tuple[str, ...]] = {
    "ext4": ("rw", "noinit_itable"),
    "xfs": ("rw",),
    "btrfs": ("rw", "nodiscard"),
}
_PROGRAMS = ("qemu-img", "qemu-nbd", "smbd", "pdbedit")
# Commands copy whole disks, on an emulated processor of a busy machine.
_LONG_S = 600.0
_WAITS, _WAIT_US = 600, 50_000


class Chain:
    """A chain that has been built. Created by `build`."""

    def __init__(self, guest: Guest, spec: ChainSpec, initiator: OpenIscsi) -> None:
        self.guest = guest
        self.spec = spec
        """The layers as they are: `enlarge` and `hakaru.fileserver.compaction` change the disk."""
        self.initiator = initiator
        self.lu_device = ""
        """The LU's disk in the guest: `/dev/sda`."""
        self._attachment = Attachment(
            guest, IMAGE_PATH, extensible=spec.extensible, partition_start=spec.partition_start
        )
        self._server: FileServer | None = None

    @classmethod
    async def build(
        cls,
        guest: Guest,
        spec: ChainSpec,
        portal: str,
        target_name: str,
        *,
        initiator_name: str = "iqn.2026-01.org.hakaru:file-server",
        lun: int = 0,
    ) -> Self:
        """Build all layers up to the mounted file system on the virtual disk. The LU is
        overwritten.

        `guest`: booted from the image `file-server`. Raises EnvironmentError_ if its qemu-img
        cannot create the disk.
        """
        programs = {_MAKE[kind].split()[0] for kind in spec.file_systems}
        refusal = virtual_disk.refusal(spec.disk, await examine(guest, programs))
        if refusal is not None:
            raise EnvironmentError_(f"guest {guest.name}: {refusal.reason}", refusal.hint)
        chain = cls(guest, spec, OpenIscsi(guest, initiator_name))
        await chain.initiator.begin()
        try:
            session = await chain.initiator.log_in(portal, target_name)
            chain.lu_device = await session.disk(lun)
            await chain._make_host()
            await chain._create_image()
            await chain._attachment.attach(spec.disk, new=True)
            await chain._make_share()
        except HakaruError:
            # The first error matters, not those of layers that were never built. After a
            # cancellation the guest still executes a script, so nothing can be taken down.
            with contextlib.suppress(HakaruError):
                await chain.close()
            raise
        return chain

    async def serve(self, server: FileServer) -> None:
        """Start Samba in the guest and wait until it listens. All shares must be at SHARE_PATH or
        below.
        """
        files = {
            f"{_SAMBA_FOLDER}/smb.conf": configuration(server, _SAMBA_FOLDER),
            "/etc/passwd": passwd(server.users, _UID),
            "/etc/group": group(_UID),
        }
        folders = " ".join(f"{_SAMBA_FOLDER}/{name}" for name in FOLDERS)
        lines = ["set -e", f"mkdir -p {folders}"]
        lines += [f"printf %s {shlex.quote(text)} >{path}" for path, text in files.items()]
        for user in server.users:
            add = f"pdbedit --configfile={_SAMBA_FOLDER}/smb.conf --create --password-from-stdin -u {user.name}"
            lines.append(f"printf '%s\\n%s\\n' {shlex.quote(user.password)} {shlex.quote(user.password)} | {add}")
        lines += [f"chown {_UID}:{_UID} {SHARE_PATH}", f"smbd --daemon --configfile={_SAMBA_FOLDER}/smb.conf"]
        # 01BD is port 445, 0A the state of a listening socket.
        listening = "grep -q ':01BD [0:]* *0A' /proc/net/tcp /proc/net/tcp6 2>/dev/null"
        lines.append(f"for i in $(seq {_WAITS}); do {listening} && exit 0; usleep {_WAIT_US}; done")
        lines += ["echo 'Samba does not listen'", f"cat {_SAMBA_FOLDER}/log", "exit 1"]
        await self._run(*lines)
        self._server = server

    async def stop_serving(self) -> None:
        """End Samba and all of its sessions, if it runs."""
        self._server = None
        pid = f"{_SAMBA_FOLDER}/pid/smbd.pid"
        gone = f"pidof smbd >/dev/null || exec rm -rf {_SAMBA_FOLDER}"
        await self._run(
            f"[ -f {pid} ] || exit 0",
            f"kill $(cat {pid}) 2>/dev/null",
            f"for i in $(seq {_WAITS}); do {gone}; usleep {_WAIT_US}; done",
            "echo Samba did not end; exit 1",
        )

    async def layers(self, read_counters: Callable[[], Awaitable[ArrayCounters]]) -> Layers:
        """Write everything back, and return the bytes in use as seen by each layer.

        `read_counters` asks the array, once nothing is left to be written (`array_counters`).
        """
        traits = virtual_disk.FORMATS[self.spec.disk.format]
        # One script, because an emulated guest needs a tenth of a second to begin one.
        script = [_WRITE_BACK, _REPORT, *([_map_command(traits.driver)] if traits.has_map else [])]
        lines = (await self._run(*script)).splitlines()
        report = dict(line.split("=", 1) for line in lines[:_REPORTED])
        image_map = parse_map("\n".join(lines[_REPORTED:])) if traits.has_map else None
        begin = (self.spec.partition_start or 0) * partition.SECTOR_BYTES
        return layers_of(report, image_map, await read_counters(), begin=begin)

    async def write_back(self) -> None:
        """Write the data of all layers back to the LU, and flush its cache."""
        await self._run(_WRITE_BACK)

    async def empty_caches(self) -> None:
        """Write the data of all layers back, and empty the caches of the guest's kernel: pages,
        folders and inodes of both file systems, and those of the image. Reads then reach the LU.
        """
        await self._run(_WRITE_BACK, "echo 3 >/proc/sys/vm/drop_caches")

    async def map(self) -> ImageMap | None:
        """Return the map of the image (`qemu-img map`); None if QEMU has none for its format."""
        traits = virtual_disk.FORMATS[self.spec.disk.format]
        if not traits.has_map:
            return None
        return parse_map(await self._run(_map_command(traits.driver)))

    async def trim_guest(self) -> int:
        """Trim the file system on the virtual disk; return the bytes that it has trimmed."""
        return await self._trim(SHARE_PATH)

    async def trim_host(self) -> int:
        """Trim the file system on the LU; return the bytes that it has trimmed."""
        return await self._trim(HOST_PATH)

    async def delete_files(self) -> None:
        """Delete all files of the share."""
        await self._run(f"find {SHARE_PATH} -xdev -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -rf {{}} +")

    async def check(self) -> str:
        """Return the report of `qemu-img check` on the image, and the errors in the kernel's log;
        empty if there are none. VHD and raw images cannot be checked.

        Raises LostError with the end of its log if Samba serves no longer.
        """
        if self._server is not None:
            running = f"kill -0 $(cat {_SAMBA_FOLDER}/pid/smbd.pid) 2>/dev/null && exit 0"
            if (log := await self._run(running, f"echo lost; tail -n 5 {_SAMBA_FOLDER}/log")).startswith("lost"):
                raise LostError(
                    f"file server {self._server.name} in guest {self.guest.name} was lost: Samba has ended",
                    f"the end of its log: {' / '.join(log.split(chr(10))[1:]).strip(' /') or 'empty'}",
                )
        driver = virtual_disk.FORMATS[self.spec.disk.format].driver
        found = await self._run("dmesg | grep -iE 'error|corrupt|abort' || true")
        if self.spec.disk.format in ("qcow2", "vhdx"):
            try:
                await self.write_back()
                await self._run(f"qemu-img check -q --force-share -f {driver} {IMAGE_PATH}")
            except GuestCommandError as error:
                found += error.output
        return found.strip()

    async def describe(self) -> dict[str, Any]:
        """Return the layers as built, for the record of a run: the description, the versions of
        Debian's packages, and the options with which the file systems are mounted.
        """
        mounts = [line.split() for line in (await self._run("cat /proc/mounts")).splitlines()]
        options = {words[1]: words[3] for words in mounts}
        return {
            **self.spec.describe(),
            "kernel": self.guest.kernel_version,
            "qemu_nbd": self.guest.spec.image.version("qemu-utils"),
            "samba": self.guest.spec.image.version("samba"),
            "host_mount": options[HOST_PATH],
            "guest_mount": options[SHARE_PATH],
        }

    @property
    def disk_device(self) -> str:
        """The block device of the virtual disk."""
        return self._attachment.disk

    @property
    def share_device(self) -> str:
        """The block device of the file system on the virtual disk: the disk, or its partition."""
        return self._attachment.device

    async def mount_host(self) -> None:
        """Mount the file system of the LU, which recovers its log after a power cut."""
        await self._mount(self.lu_device, HOST_PATH, self.spec.host_file_system, self.spec.host_write_back)

    async def attach_share(self, overlay: str = "") -> None:
        """Attach the image, or an overlay of it, and mount the file system on it."""
        disk = virtual_disk.overlaid(self.spec.disk) if overlay else self.spec.disk
        await self._attachment.attach(disk, overlay)
        await self._mount_share()

    async def detach_share(self) -> None:
        """Unmount the file system on the virtual disk, if it is mounted, and detach the image.
        Samba must have ended.
        """
        await self._unmount(SHARE_PATH)
        await self.detach()

    async def enlarge(self, disk: VirtualDisk) -> float:
        """Give the image the size of a larger `disk` while its file system is mounted. Returns the
        time for which requests were held, in milliseconds. The chain must be extensible.
        """
        held_ms = await self._attachment.enlarge(disk)
        self.spec = replace(self.spec, disk=disk)
        return held_ms

    async def grow_partition(self) -> None:
        """Let the partition end with the enlarged disk, while its file system is mounted."""
        await self._attachment.grow_partition(self.spec.disk)

    async def detach(self) -> None:
        """Detach the image, and wait until qemu-nbd has closed it."""
        await self._attachment.detach()

    async def close(self) -> None:
        """Take all layers down, whatever of them exists."""
        await self.stop_serving()
        await self.detach_share()
        await self._unmount(HOST_PATH)
        await self.initiator.log_out_all()
        await self.initiator.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the block is more important than a guest that cannot be tidied up.
        try:
            if self.guest.emulator.running:
                await self.close()
        except HakaruError:
            if error is None:
                raise

    async def _make_host(self) -> None:
        if not self.spec.lu_write_back:
            await self._switch_off_cache()
        await self._run(f"{_MAKE[self.spec.host_file_system]} {self.lu_device}")
        await self.mount_host()

    async def _switch_off_cache(self) -> None:
        """Switch the LU's write cache off by MODE SELECT, which Linux does for this file."""
        name = self.lu_device.removeprefix("/dev/")
        await self._run(
            "set -e",
            f"for type in /sys/block/{name}/device/scsi_disk/*/cache_type; do",
            "    echo 'write through' >$type",
            '    [ "$(cat $type)" = "write through" ] && continue',
            '    echo "the LU keeps its write cache: $(cat $type)"; exit 1',
            "done",
        )

    async def _create_image(self) -> None:
        commands = virtual_disk.create_commands(self.spec.disk, IMAGE_PATH)
        await self._run("set -e", *map(shlex.join, commands))

    async def _make_share(self) -> None:
        await self._run(f"{_MAKE[self.spec.guest_file_system]} {self.share_device}")
        await self._mount_share()

    async def _mount_share(self) -> None:
        kind, write_back = self.spec.guest_file_system, self.spec.guest_write_back
        await self._mount(self.share_device, SHARE_PATH, kind, write_back)

    async def _mount(self, device: str, path: str, kind: FileSystem, write_back: bool) -> None:
        options = ",".join([*_MOUNT_OPTIONS[kind], *([] if write_back else ["sync"])])
        await self._run("set -e", f"mkdir -p {path}", f"mount -t {kind} -o {options} {device} {path}")

    async def _unmount(self, path: str) -> None:
        await self._run(f"grep -q ' {path} ' /proc/mounts || exit 0", f"umount {path}")

    async def _trim(self, path: str) -> int:
        # XFS keeps extents busy until its log is written.
        output = await self._run("set -e", "sync", f"fstrim -v {path}")
        found = re.search(r"\((\d+) bytes\)", output)
        assert found is not None, output
        return int(found[1])

    async def _run(self, *lines: str) -> str:
        return await self.guest.run("\n".join(lines), timeout_s=_LONG_S)


# Twice: the file system on the virtual disk writes to the one below it, which may have been written
# back before.
_WRITE_BACK = "sync; sync"
_REPORTED = 6
"""Lines of the report."""
_REPORT = f"""
set -e
sum='{{ sum += $1 }} END {{ printf "%.0f", sum }}'
echo entries=$(find {SHARE_PATH} -xdev | wc -l)
echo files=$(find {SHARE_PATH} -xdev -type f -print0 | xargs -0 -r stat -c %s | awk "$sum")
echo guest_used=$(df -B1 --output=used {SHARE_PATH} | tail -n 1)
echo host_used=$(df -B1 --output=used {HOST_PATH} | tail -n 1)
echo image_length=$(stat -c %s {IMAGE_PATH})
echo image_blocks=$(stat -c %b {IMAGE_PATH})
"""


def _map_command(driver: str) -> str:
    return f"qemu-img map --force-share --output=json -f {driver} {IMAGE_PATH}"


async def examine(guest: Guest, programs: Collection[str] = ()) -> QemuImg:
    """Return the facts about a guest's qemu-img. `programs`: others that the chain needs. Raises
    EnvironmentError_ if the guest's image has no programs for a chain.
    """
    needed = [*_PROGRAMS, *sorted(programs)]
    missing = await guest.run(f"for p in {' '.join(needed)}; do command -v $p >/dev/null || echo $p; done")
    if missing.split():
        raise EnvironmentError_(
            f"guest {guest.name} has no {', '.join(missing.split())}", "boot it from the image `file-server`"
        )
    image = guest.spec.image.initramfs
    if image not in _EXAMINED:
        _EXAMINED[image] = await _examine_qemu(guest)
    return _EXAMINED[image]


_EXAMINED: dict[Path, QemuImg] = {}
"""The facts about qemu-img in each image that this process has booted. An image never changes, and
an emulated guest needs more than a second for them.
"""


async def _examine_qemu(guest: Guest) -> QemuImg:
    drivers = [traits.driver for traits in virtual_disk.FORMATS.values()]
    script = ["qemu-img --version", "qemu-img --help"]
    # The help of a raw image is that of its file system, so a file is named.
    script += [f"echo; echo driver {driver}; qemu-img create -f {driver} -o help /tmp/none" for driver in drivers]
    return parse_examination(await guest.run("\n".join(script)), drivers)


def parse_examination(text: str, drivers: Sequence[str]) -> QemuImg:
    """Parse the output of version, help, and the options of each driver after a line `driver`."""
    general, *parts = re.split(r"^driver ", text, flags=re.MULTILINE)
    options = {part.split("\n", 1)[0]: virtual_disk.parse_options(part) for part in parts}
    return QemuImg(
        virtual_disk.parse_version(general),
        virtual_disk.parse_formats(general),
        {driver: options.get(driver, frozenset()) for driver in drivers},
    )
