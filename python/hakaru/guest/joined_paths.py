"""The devices of a guest that join several paths to an LU (`hakaru.guest.multipath`).

    joined = JoinedPaths(guest)
    devices = await joined.join([["/dev/sda", "/dev/sdb"]], multipath)     ["/dev/dm-0"]
    …
    await joined.part()                                                     before the logout

What is missing in the guest, or disks that are not one LU, are a GuestCommandError whose output
says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from hakaru.guest import multipath as scripts
from hakaru.guest.machine import Guest
from hakaru.guest.multipath import KernelMultipath

# multipathd examines each disk, on an emulated processor of a busy machine.
_TIMEOUT_S = 120.0
_DEVICES = "/dev/"


class JoinedPaths:
    """Devices over several paths in one guest."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest
        self._tables = 0
        self._maps: list[str] = []
        self._has_daemon = False

    async def join(self, disks: Sequence[Sequence[str]], multipath: KernelMultipath) -> list[str]:
        """Join the disks of each LU, and return the path of each device. Called once."""
        names = [[disk.removeprefix(_DEVICES) for disk in each] for each in disks]
        if multipath.manager == "multipathd":
            self._has_daemon = True
            output = await self.guest.run(scripts.multipathd_script(names, multipath), timeout_s=_TIMEOUT_S)
            devices = output.split()
            self._maps = [device.removeprefix(_DEVICES) for device in devices]
            return devices
        devices = []
        for each in names:
            number, self._tables = self._tables, self._tables + 1
            output = await self.guest.run(scripts.join_script(number, each, multipath), timeout_s=_TIMEOUT_S)
            devices.append(output.strip())
        return devices

    async def part(self) -> None:
        """Remove all devices, and end what looks after them. No process may have them open."""
        steps = [scripts.part_script(scripts.name_of(number)) for number in range(self._tables)]
        if self._has_daemon:
            steps.append(scripts.end_multipathd_script(self._maps))
        for step in steps:
            await self.guest.run(step, timeout_s=_TIMEOUT_S)
        self._tables, self._maps, self._has_daemon = 0, [], False
