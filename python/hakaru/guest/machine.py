"""One guest: its boot, scripts in it, its end.

    accelerator = await find_accelerator(image)
    async with await Guest.boot(GuestSpec("vm-1", image), accelerator) as guest:
        print(await guest.run("mkfs.ext4 /dev/sda", timeout_s=120))

Errors: a script that fails is a GuestCommandError with its output. A guest that dies, panics or
stops responding is a LostError with the cause and the last lines of its console. Missing QEMU, and
a NIC for which the guest's kernel has no driver, are an EnvironmentError_. No process remains after
the block, nor after SIGKILL: QEMU asks the kernel to be killed when this process dies.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from hakaru.errors import EnvironmentError_, HakaruError, LostError
from hakaru.guest import command
from hakaru.guest.command import GUEST_ADDRESS, HOST_MAC, Channel, Machine, Port
from hakaru.guest.emulator import Emulator
from hakaru.guest.image import Image
from hakaru.guest.kernel import unpacked
from hakaru.guest.nic import settings_script
from hakaru.guest.pinning import ANYWHERE, Pinning, interrupts_script, pin_threads
from hakaru.guest.requirements import MEMORY_DEFAULT_BYTES, Accelerator

# With working KVM a kernel prints its first line within 1 s. Otherwise it never does, or QEMU ends
# at once.
FIRST_LINE = "Linux version"
FIRST_LINE_TIMEOUT_S = {"kvm": 10.0, "tcg": 60.0}
# Booting takes 2 s with KVM and 7 s with TCG on an idle machine with 2 cores.
BOOT_TIMEOUT_S = {"kvm": 60.0, "tcg": 240.0}
POWER_OFF_TIMEOUT_S = 30.0
# Time beyond a script's own limit for the guest to stop it and to answer.
_ANSWER_S = 30.0
_SETUP_TIMEOUT_S = 60.0
# Limit of a command or an answer in base64. Scripts and their output are meant for people.
_LINE_MAX_BYTES = 64 * 1024**2
_KILLED = 128 + 9
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_INTERFACE = re.compile(r"[a-z0-9][a-z0-9.-]{0,14}")
_CONTROL = "hakaru"
"""Name of the port for scripts, which init.sh knows."""
# Drivers of PCI devices find them within milliseconds of being loaded.
_INTERFACE_WAITS, _INTERFACE_WAIT_US = 20, 20_000


class GuestCommandError(HakaruError):
    """A script in a guest ended with a status other than 0."""

    def __init__(self, guest: str, script: str, status: int, output: str) -> None:
        super().__init__(f"{guest}: `{script.strip()}` ended with status {status}\n{output}")
        self.status = status
        self.output = output


@dataclass(frozen=True)
class GuestSpec:
    """Description of a guest."""

    name: str
    """Host name."""
    image: Image
    memory_bytes: int = MEMORY_DEFAULT_BYTES
    """At least 512 MiB, because the guest's root is in memory."""
    cpus: int = 2
    ports: tuple[Port, ...] = ()
    """NICs in order. The interfaces get the names of the ports, and stay down. A port that is a
    virtual function has a second interface, `pf0` and so on, which is up and sends nothing.
    """
    host_network: bool = True
    """Whether `eth0` reaches this machine's loopback, at `command.HOST_ADDRESS`."""
    channels: tuple[str, ...] = ()
    """Names of further virtio ports, for `Guest.channel`."""
    pinning: Pinning = ANYWHERE
    number: int = 0
    """Distinguishes Ethernet addresses of guests, 0 to 255."""
    initramfs: Path | None = None
    """None: that of the image."""
    namespace: int | None = None
    """Descriptor of the network namespace of QEMU, to which names of abstract sockets belong. None:
    that of this process.
    """

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ValueError(f"{self.name!r} is not a host name")
        for port in self.ports:
            reserved = ("lo", "eth0") if self.host_network else ("lo",)
            if _INTERFACE.fullmatch(port.name) is None or port.name in reserved:
                raise ValueError(f"{port.name!r} cannot be the name of a guest's interface")


class Guest:
    """A running guest, created by `boot`."""

    def __init__(self, spec: GuestSpec, accelerator: Accelerator, emulator: Emulator) -> None:
        self.spec = spec
        self.accelerator = accelerator
        self.emulator = emulator
        self.kernel_version = ""
        """Kernel version as reported by the guest."""
        self.booted_ns = 0
        """Instant at which the guest accepted commands, ns of CLOCK_MONOTONIC."""
        self._channels: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        self._id = 0
        self._programs = 0
        self._busy = asyncio.Lock()

    @classmethod
    async def boot(cls, spec: GuestSpec, accelerator: Accelerator, *, boot_timeout_s: float | None = None) -> Self:
        """Start a guest, wait until it accepts commands, and configure its interfaces.

        `accelerator`: result of `find_accelerator`. `boot_timeout_s`: None: BOOT_TIMEOUT_S.
        """
        with contextlib.ExitStack() as opened:
            ours: dict[str, socket.socket] = {}
            theirs: dict[str, socket.socket] = {}
            for name in (_CONTROL, *spec.channels):
                ours[name], theirs[name] = socket.socketpair()
                opened.callback(ours[name].close)
                opened.callback(theirs[name].close)
            channels = tuple(Channel(name, end.fileno()) for name, end in theirs.items())
            kernel = spec.image.kernel
            if accelerator.kind == "tcg":
                kernel = await asyncio.to_thread(unpacked, kernel)
            arguments = command.qemu_arguments(_machine_of(spec, kernel, accelerator, channels))
            descriptors = [descriptor for port in spec.ports for descriptor in port.descriptors]
            descriptors += [channel.descriptor for channel in channels]
            name = f"guest {spec.name} ({accelerator.kind})"
            emulator = await Emulator.start(name, arguments, descriptors, namespace=spec.namespace)
            opened.pop_all()
        guest = cls(spec, accelerator, emulator)
        try:
            for end in theirs.values():
                end.close()
            for name, end in ours.items():
                guest._channels[name] = await asyncio.open_connection(sock=end, limit=_LINE_MAX_BYTES)
            await emulator.wait_for_line(FIRST_LINE, FIRST_LINE_TIMEOUT_S[accelerator.kind])
            answer = await guest._answer("boot", boot_timeout_s or BOOT_TIMEOUT_S[accelerator.kind])
            word, guest.kernel_version = answer.split()
            assert word == "ready", word
            guest.booted_ns = time.monotonic_ns()
            await pin_threads(emulator, spec.pinning)
            await guest._configure()
        except BaseException:
            await guest.close()
            raise
        return guest

    @property
    def name(self) -> str:
        """Host name."""
        return self.spec.name

    async def run(self, script: str, *, timeout_s: float = 60.0) -> str:
        """Run a script in the guest's shell, one at a time; return its output of both streams.

        After `timeout_s` the script is killed and counts as failed with status 137. Raises
        GuestCommandError, LostError.
        """
        async with self._busy:
            self._id += 1
            await self._send_line(f"{self._id} {timeout_s:.0f} {base64.b64encode(script.encode()).decode()}\n")
            identity = 0
            # A script whose caller was cancelled, or gave up, is answered first.
            while identity < self._id:
                answer = (await self._answer("answer", timeout_s + _ANSWER_S)).split(" ")
                identity = int(answer[0])
            assert identity == self._id, f"{self.name} answered order {identity}, not {self._id}"
        status, output = int(answer[1]), base64.b64decode(answer[2]).decode(errors="replace")
        if status != 0:
            text = output + (f"(killed after {timeout_s:g} s)\n" if status == _KILLED else "")
            raise GuestCommandError(self.name, script, status, text)
        return output

    def next_identity(self) -> int:
        """Return a number that this guest has not used for a program."""
        self._programs += 1
        return self._programs

    def channel(self, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the host's end of one of `GuestSpec.channels`."""
        assert name in self.spec.channels, f"{self.name} has no channel {name}"
        return self._channels[name]

    async def power_off(self) -> None:
        """Let the guest write back its data and switch off. Raises LostError if it does not."""
        await self._send_line("off\n")
        try:
            status = await self.emulator.wait(POWER_OFF_TIMEOUT_S)
        except LostError:
            raise self.emulator.lost_error(f"did not switch off within {POWER_OFF_TIMEOUT_S:g} s") from None
        if status != 0:
            raise self.emulator.lost_error(f"ended with exit status {status}")

    def kill(self) -> None:
        """Cut the power: data that the guest has not written back are lost."""
        self.emulator.kill()

    async def close(self) -> None:
        """End the guest in any state. May be called twice."""
        try:
            await self.emulator.close()
        finally:
            for _, writer in self._channels.values():
                writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _configure(self) -> None:
        """Give the interfaces their names, addresses and settings."""
        if self.spec.host_network:
            # Without a default route only the host can be reached.
            await self.run(
                f"{_rename_script(HOST_MAC, 'eth0')}\nip link set eth0 up\nip address add {GUEST_ADDRESS} dev eth0",
                timeout_s=_SETUP_TIMEOUT_S,
            )
        for position, port in enumerate(self.spec.ports):
            try:
                await self._name_interface(port, position)
            except GuestCommandError as error:
                drivers = "/".join(filter(None, (port.nic.traits.physical_driver, port.nic.traits.driver)))
                raise EnvironmentError_(
                    f"guest {self.name} has no interface for {port.name} ({port.nic.model}): kernel "
                    f"{self.kernel_version} has no working driver {drivers or port.function}",
                    f"use another model or another guest image than `{self.spec.image.recipe.name}`; {error.output}",
                ) from error
            scripts = [settings_script(port.nic, port.name), interrupts_script(port.name, self.spec.pinning)]
            if any(scripts):
                await self.run("set -e\n" + "\n".join(scripts), timeout_s=_SETUP_TIMEOUT_S)

    async def _name_interface(self, port: Port, position: int) -> None:
        """Find the interface of a port, and give it its name. Raises GuestCommandError if it does
        not appear.
        """
        if port.function:
            await self.run(_adapter_script(command.slot_of(position), port.name), timeout_s=_SETUP_TIMEOUT_S)
            return
        mac = command.macs_of(self.spec.ports, self.spec.number)[position]
        if port.nic.traits.physical_driver:
            device_mac = command.device_macs_of(self.spec.ports, self.spec.number)[position]
            script = _virtual_function_script(device_mac, f"pf{position}", mac)
            await self.run(script, timeout_s=_SETUP_TIMEOUT_S)
        await self.run(_rename_script(mac, port.name), timeout_s=_SETUP_TIMEOUT_S)

    async def mac_of(self, interface: str) -> str:
        """Return the Ethernet address of an interface. Raises GuestCommandError, LostError."""
        return (await self.run(f"cat /sys/class/net/{interface}/address")).strip()

    async def _send_line(self, order: str) -> None:
        # The caller that waits for the answer reports a guest that is gone.
        with contextlib.suppress(ConnectionError):
            writer = self._channels[_CONTROL][1]
            writer.write(order.encode())
            await writer.drain()

    async def _answer(self, action: str, timeout_s: float) -> str:
        try:
            line = await asyncio.wait_for(self._channels[_CONTROL][0].readline(), timeout_s)
        except TimeoutError:
            raise self.emulator.lost_error(f"did not {action} within {timeout_s:g} s") from None
        except ConnectionError:
            line = b""
        if not line.endswith(b"\n"):
            raise await self.emulator.end_error(f"before its {action}")
        return line.decode()


def _machine_of(spec: GuestSpec, kernel: Path, accelerator: Accelerator, channels: Sequence[Channel]) -> Machine:
    return Machine(
        name=spec.name,
        kernel=kernel,
        initramfs=spec.initramfs or spec.image.initramfs,
        memory_bytes=spec.memory_bytes,
        cpus=spec.cpus,
        accelerator=accelerator.kind,
        channels=tuple(channels),
        ports=spec.ports,
        guest_number=spec.number,
        host_network=spec.host_network,
    )


def _adapter_script(slot: str, interface: str) -> str:
    """Return commands that load the driver for a function of an adapter, and give its interface its
    name, or fail.
    """
    return f"""
    cd /sys/bus/pci/devices/{slot} || exit 1
    modprobe -a "$(cat modalias)" || exit 1
    for i in $(seq {_INTERFACE_WAITS}); do
        found=$(ls net 2>/dev/null) && break
        usleep {_INTERFACE_WAIT_US}
    done
    [ -n "$found" ] || {{ echo "no driver has made an interface of PCI function $(cat vendor device)" >&2; exit 1; }}
    [ "$found" = {interface} ] || ip link set "$found" name {interface} || exit 1
    """


# Prints the name of the interface that has an Ethernet address, or fails.
_INTERFACE_OF = f"""
    interface_of() {{
        for i in $(seq {_INTERFACE_WAITS}); do
            for found in /sys/class/net/*; do
                [ "$(cat "$found/address" 2>/dev/null)" = "$1" ] || continue
                echo "${{found##*/}}"
                return
            done
            usleep {_INTERFACE_WAIT_US}
        done
        echo "no interface has the address $1" >&2
        return 1
    }}
"""


def _rename_script(mac: str, interface: str) -> str:
    """Return commands that give the interface of an Ethernet address its name, or fail."""
    return f"""{_INTERFACE_OF}
    found=$(interface_of {mac}) || exit 1
    [ "$found" = {interface} ] || ip link set "$found" name {interface} || exit 1
    """


def _virtual_function_script(device_mac: str, device: str, mac: str) -> str:
    """Return commands that create a virtual function of a device, with an address of its own. The
    interface of the device gets the name `device`.
    """
    # The device must be up, but may not send frames of its own. The driver of the function reads
    # the address once, when it is bound.
    return f"""{_rename_script(device_mac, device)}
    set -e
    echo 1 >/proc/sys/net/ipv6/conf/{device}/disable_ipv6
    ip link set {device} arp off up
    cd /sys/class/net/{device}/device
    echo 0 >sriov_drivers_autoprobe
    echo 1 >sriov_numvfs
    ip link set {device} vf 0 mac {mac}
    echo 1 >sriov_drivers_autoprobe
    function=$(readlink virtfn0)
    echo "${{function##*/}}" >/sys/bus/pci/drivers_probe
    """
