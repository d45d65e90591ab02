"""A machine that QEMU emulates with two adapters, an IOMMU and KVM. It has the files and programs
of this machine, so hakaru in it passes functions of the adapters to a guest of its own.

    adapter ── cable ── interface of the tester         (both twice)

What it writes stays in its memory. The processor is always emulated (TCG): it has the extensions of
AMD (SVM), so KVM works inside, and no machine has an IOMMU that could be lent to a test. A guest on
this KVM sometimes ends by itself if it has two processors under load, so guests in it have one.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from unittest import mock

from hakaru.engine.binary import find_engine
from hakaru.guest import command
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Machine
from hakaru.guest.image import cache_folder, find_image
from hakaru.guest.machine import Guest, GuestSpec

ROOT = Path(__file__).parents[2]
# The emulated igb takes no request of a virtual function on a machine with memory above 4 GiB.
MEMORY_BYTES = 2 << 30
ADAPTER_MAC, TESTER_MAC, FUNCTION_MAC = "52:54:00:70:00", "52:54:00:71:00", "52:54:00:72:00"
PORTS = ("left", "right")
SETUP_S = 120.0

_FILES = """
set -e
modprobe -a 9p 9pnet_virtio overlay virtio_net e1000e igb vfio-pci kvm_amd
mkdir /host /written /here
mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro host /host
mount -t tmpfs -o size=1g written /written
mkdir /written/upper /written/work
mount -t overlay -o lowerdir=/host,upperdir=/written/upper,workdir=/written/work overlay /here
mount -t proc proc /here/proc
mount -t sysfs sysfs /here/sys
mount --rbind /dev /here/dev
mount -t tmpfs run /here/run
mount -t tmpfs shm /here/dev/shm
"""

# Prints the interface with an address.
_INTERFACE = """
interface() {
    for each in /sys/class/net/*; do
        [ "$(cat $each/address)" = $1 ] && echo ${each##*/} && return
    done
    return 1
}
"""

# Prints the address of the function of an adapter that a guest may get.
_WHOLE = """
give() {
    basename "$(readlink /sys/class/net/$1/device)"
}
"""
_VIRTUAL = """
give() {
    ip link set $1 up
    cd /sys/class/net/$1/device
    echo 0 >sriov_drivers_autoprobe
    echo 1 >sriov_numvfs
    ip link set $1 vf 0 mac $2
    basename "$(readlink virtfn0)"
}
"""

_BIND = """
bind() {
    cd /sys/bus/pci/devices/$1
    echo vfio-pci >driver_override
    [ ! -e driver ] || echo $1 >driver/unbind
    echo $1 >/sys/bus/pci/drivers_probe
}
"""


class MachineWithAdapters:
    """A running machine. Created by `booted`."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    async def run(self, *words: str, timeout_s: float) -> str:
        """Run a program of this machine with its files; return its output of both streams. Raises
        GuestCommandError if it fails.
        """
        return await self._guest.run(f"chroot /here {shlex.join(words)}", timeout_s=timeout_s)

    async def run_python(self, *words: str, timeout_s: float) -> str:
        """Run a program in Python with this interpreter."""
        values = {
            "HAKARU_ENGINE": str(find_engine()),
            "HOME": "/root",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "XDG_CACHE_HOME": str(cache_folder().parents[1]),
        }
        environment = [f"{name}={value}" for name, value in values.items()]
        return await self.run("/usr/bin/env", *environment, sys.executable, *words, timeout_s=timeout_s)

    async def write(self, path: str, content: str) -> None:
        """Write a file."""
        await self._guest.run(f"cat >/here{path} <<'END'\n{content}\nEND\n")

    async def give_functions(self, *, virtual: bool) -> list[tuple[str, str]]:
        """Bind a function of each adapter to vfio-pci: a virtual one, or the whole adapter. Returns
        the interface of the tester at the other end of each cable, and the function.
        """
        script = ["set -e", _INTERFACE, _VIRTUAL if virtual else _WHOLE, _BIND]
        for position in range(len(PORTS)):
            end = f"{position:02x}"
            script.append(f"""
            tester=$(interface {TESTER_MAC}:{end})
            function=$(give $(interface {ADAPTER_MAC}:{end}) {FUNCTION_MAC}:{end})
            bind $function >&2
            ip link set $tester up
            echo $tester $function
            """)
        output = await self._guest.run("\n".join(script), timeout_s=SETUP_S)
        pairs = [line.split() for line in output.splitlines()]
        return [(interface, function) for interface, function in pairs]


@contextlib.asynccontextmanager
async def booted(adapter: str) -> AsyncIterator[MachineWithAdapters]:
    """Boot the machine. `adapter`: QEMU's device for both adapters."""
    image = find_image("adapters")
    original = command.qemu_arguments

    def arguments(machine: Machine) -> list[str]:
        return _with_adapters(original(machine), adapter)

    accelerator = await find_accelerator(image, "tcg")
    spec = GuestSpec("machine", image, memory_bytes=MEMORY_BYTES, host_network=False)
    with mock.patch.object(command, "qemu_arguments", arguments):
        guest = await Guest.boot(spec, accelerator)
    async with guest:
        await guest.run(_FILES, timeout_s=SETUP_S)
        yield MachineWithAdapters(guest)


def _with_adapters(arguments: Sequence[str], adapter: str) -> list[str]:
    changed = list(arguments)
    changed[changed.index("-append") + 1] += " intel_iommu=on"
    # QEMU connects only later devices to the IOMMU.
    first = changed.index("-device")
    changed[first:first] = ["-device", "intel-iommu,intremap=on"]
    # Numbers of files are unique in one file system only.
    changed += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
    for position, name in enumerate(PORTS):
        end = f"{position:02x}"
        changed += ["-device", f"pcie-root-port,id={name}-slot,chassis={position + 1}"]
        changed += ["-netdev", f"hubport,hubid={position},id={name}-adapter"]
        changed += ["-device", f"{adapter},netdev={name}-adapter,bus={name}-slot,mac={ADAPTER_MAC}:{end},romfile="]
        changed += ["-netdev", f"hubport,hubid={position},id={name}-tester"]
        changed += ["-device", f"virtio-net-pci,netdev={name}-tester,mac={TESTER_MAC}:{end},romfile="]
    return changed
