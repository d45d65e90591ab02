"""Extension of a file server's disk while it is used: each layer of its chain becomes larger, from
the LU upwards, as an operator does it.

    lu                  the array resizes the volume, and notifies the host
    host_disk           the host's kernel reads the new size of the disk
    host_file_system    the mounted file system on it grows
    virtual_disk        the image grows and is attached anew, with requests held (`attachment`)
    partition           that of the virtual disk grows to its end, if it has one
    guest_file_system   the mounted file system on the virtual disk grows

The LU has no partition. Every step waits for the one before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from hakaru.errors import EnvironmentError_
from hakaru.fileserver.chain import Chain
from hakaru.fileserver.chain_spec import HOST_PATH, SHARE_PATH, FileSystem
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.units import format_size

_LONG_S = 600.0
_WAITS, _WAIT_US = 200, 50_000
_GROW: Mapping[FileSystem, str] = {
    "ext4": "resize2fs {device}",
    "xfs": "xfs_growfs {path}",
    "btrfs": "btrfs filesystem resize max {path}",
}


class ThinLu(Protocol):
    """The LU below a chain, at its array."""

    async def size(self) -> int:
        """Size in bytes."""
        ...

    async def resize(self, size: int) -> None:
        """Make it larger; return when that is on stable storage. Raises the array's error."""
        ...


async def extend(chain: Chain, disk: VirtualDisk, lu: ThinLu, lu_bytes: int) -> dict[str, Any]:
    """Extend all layers of a chain: its LU to `lu_bytes`, its virtual disk to the size of `disk`.

    Returns the record: `layers` by name with `before_bytes`, `after_bytes`, `begun_ns` and
    `done_ns` (CLOCK_MONOTONIC), and `held_ms`, the time for which requests to the virtual disk were
    held. Raises GuestCommandError, the error of the array, or EnvironmentError_ if a layer keeps
    its size.
    """
    names = chain.spec.sized_layers
    before = await _sizes(chain, lu)
    times: dict[str, tuple[int, int]] = {}
    held_ms = 0.0
    for layer in names:
        begun_ns = time.monotonic_ns()
        match layer:
            case "lu":
                await lu.resize(lu_bytes)
            case "host_disk":
                await _rescan(chain, lu_bytes)
            case "host_file_system":
                await _grow(chain, chain.spec.host_file_system, chain.lu_device, HOST_PATH)
            case "virtual_disk":
                held_ms = await chain.enlarge(disk)
            case "partition":
                await chain.grow_partition()
            case _:
                await _grow(chain, chain.spec.guest_file_system, chain.share_device, SHARE_PATH)
        times[layer] = (begun_ns, time.monotonic_ns())
    after = await _sizes(chain, lu)
    for layer in names:
        if after[layer] <= before[layer]:
            raise EnvironmentError_(
                f"layer {layer} still has {format_size(after[layer])} after it was extended",
                "extend the disk by more; file systems add space in whole groups of blocks",
            )
    layers = {
        layer: {
            "before_bytes": before[layer],
            "after_bytes": after[layer],
            "begun_ns": times[layer][0],
            "done_ns": times[layer][1],
        }
        for layer in names
    }
    return {"layers": layers, "held_ms": held_ms}


async def _sizes(chain: Chain, lu: ThinLu) -> dict[str, int]:
    """Return the size of each layer, as the layer itself reports it."""
    commands = {
        "host_disk": f"blockdev --getsize64 {chain.lu_device}",
        "host_file_system": f"df -B1 --output=size {HOST_PATH} | tail -n 1",
        "virtual_disk": f"blockdev --getsize64 {chain.disk_device}",
        "partition": f"blockdev --getsize64 {chain.share_device}",
        "guest_file_system": f"df -B1 --output=size {SHARE_PATH} | tail -n 1",
    }
    inside = [name for name in chain.spec.sized_layers if name in commands]
    output = await _run(chain, *(commands[name] for name in inside))
    return {"lu": await lu.size(), **dict(zip(inside, map(int, output.split()), strict=True))}


async def _rescan(chain: Chain, size: int) -> None:
    """Let the host's kernel read the capacity of the LU again."""
    name = chain.lu_device.removeprefix("/dev/")
    seen = f'[ "$(blockdev --getsize64 {chain.lu_device})" = {size} ]'
    await _run(
        chain,
        f"echo 1 >/sys/block/{name}/device/rescan",
        f"for i in $(seq {_WAITS}); do {seen} && break; usleep {_WAIT_US}; done",
        f"{seen} || {{ echo the size of {chain.lu_device} is not that of the LU; exit 1; }}",
    )


async def _grow(chain: Chain, kind: FileSystem, device: str, path: str) -> None:
    await _run(chain, _GROW[kind].format(device=device, path=path))


async def _run(chain: Chain, *lines: str) -> str:
    return await chain.guest.run("\n".join(["set -e", *lines]), timeout_s=_LONG_S)
