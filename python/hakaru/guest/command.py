"""Arguments of QEMU for a guest. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hakaru.guest.nic import Nic, device_options, mac_of, physical_mac_of
from hakaru.guest.requirements import AcceleratorKind

HOST_ADDRESS = "10.0.2.2"
"""Address of this machine's loopback in a guest: `10.0.2.2:3260` is `127.0.0.1:3260` of the host.
"""
GUEST_ADDRESS = "10.0.2.15/24"
"""Address of the guest in the network that QEMU creates."""
HOST_MAC = "52:54:00:12:34:56"
"""Ethernet address of the guest in that network."""

# QEMU numbers its own devices from 1 on.
_FUNCTION_SLOT = 0x10

# `host` passes the features of the host's processor on, `max` has all that QEMU can translate. With
# `erms` and `fsrm`, Linux and its C library copy memory by string instructions, which a processor
# executes fast, but QEMU translates byte by byte.
_PROCESSORS: dict[AcceleratorKind, tuple[str, str]] = {
    "kvm": ("kvm", "host"),
    "tcg": ("tcg,thread=multi", "max,erms=off,fsrm=off"),
}


@dataclass(frozen=True)
class Port:
    """A NIC of a guest and the end of its frames outside the guest."""

    name: str
    """Name of the interface in the guest."""
    nic: Nic
    descriptors: tuple[int, ...] = ()
    """Descriptors of `hakaru.guest.tap`, one per queue; none for `vhost-user` and functions."""
    vectors: int | None = None
    """MSI-X vectors (`requirements.vectors_of`)."""
    function: str = ""
    """Address of the host's function, for NICs that are one."""


@dataclass(frozen=True)
class Channel:
    """A virtio port: its name in the guest, and the descriptor of a connected socket."""

    name: str
    descriptor: int


@dataclass(frozen=True)
class Machine:
    """Everything in QEMU's arguments about a guest."""

    name: str
    kernel: Path
    initramfs: Path
    memory_bytes: int
    cpus: int
    accelerator: AcceleratorKind
    channels: tuple[Channel, ...]
    ports: tuple[Port, ...] = ()
    guest_number: int = 0
    """Distinguishes Ethernet addresses of guests, 0 to 255."""
    host_network: bool = True
    """Whether the guest reaches this machine's loopback through QEMU's user-mode network."""


def slot_of(position: int) -> str:
    """Return the address in the guest's PCI of a port that is a function of the host."""
    return f"0000:00:{_FUNCTION_SLOT + position:02x}.0"


def macs_of(ports: Sequence[Port], guest_number: int) -> list[str]:
    """Return the Ethernet address of each port. Functions of the host have their own instead."""
    return [mac_of(port.nic, guest_number, position) for position, port in enumerate(ports)]


def device_macs_of(ports: Sequence[Port], guest_number: int) -> list[str]:
    """Return the Ethernet address of QEMU's device for each port. It differs from the port's own if
    the port is a virtual function of the device.
    """
    return [
        physical_mac_of(mac) if port.nic.traits.physical_driver else mac
        for port, mac in zip(ports, macs_of(ports, guest_number), strict=True)
    ]


def qemu_arguments(machine: Machine) -> list[str]:
    """Return the arguments, without the program and its monitor. The console is on stdout."""
    accelerator, processor = _PROCESSORS[machine.accelerator]
    megabytes = machine.memory_bytes // 1024**2
    shared = any(port.nic.traits.backend == "vhost-user" for port in machine.ports)
    arguments = [
        *("-name", f"{machine.name},debug-threads=on", "-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-sandbox", "on"),
        *("-machine", "q35,hpet=off,vmport=off" + (",memory-backend=ram" if shared else "")),
        *("-accel", accelerator, "-cpu", processor, "-smp", str(machine.cpus), "-m", f"{megabytes}M"),
        *("-kernel", str(machine.kernel), "-initrd", str(machine.initramfs), "-append", _kernel_line(machine)),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        # A panic is reported to the monitor and ends QEMU.
        *("-device", "pvpanic-pci", "-action", "panic=shutdown"),
        *("-device", f"virtio-serial-pci,max_ports={len(machine.channels) + 1}"),
    ]
    if shared:
        # The other process maps the guest's memory.
        arguments += ("-object", f"memory-backend-memfd,id=ram,size={megabytes}M,share=on")
    for number, channel in enumerate(machine.channels):
        arguments += ("-chardev", f"socket,id=channel{number},fd={channel.descriptor}")
        arguments += ("-device", f"virtserialport,chardev=channel{number},name={channel.name}")
    if machine.host_network:
        # QEMU makes the guest's connections. The guest uses no gateway and no name server.
        arguments += ("-netdev", f"user,id=host,ipv6=off,net=10.0.2.0/24,host={HOST_ADDRESS}")
        arguments += ("-device", f"virtio-net-pci,netdev=host,mac={HOST_MAC},romfile=")
    for position, mac in enumerate(device_macs_of(machine.ports, machine.guest_number)):
        arguments += _port_arguments(machine.ports[position], position, mac)
    return arguments


def _kernel_line(machine: Machine) -> str:
    """Return the kernel's command line.

    `panic=-1` restarts at once, which ends QEMU. `no_timer_check`: on a busy machine, an emulated
    timer is too late for the kernel's check, and it would panic. `cryptomgr.notests`: the kernel's
    tests of its ciphers take a seventh of the boot of an emulated processor.
    """
    drivers = {port.nic.traits.driver for port in machine.ports}
    drivers |= {port.nic.traits.physical_driver for port in machine.ports}
    drivers |= {"virtio_net"} if machine.host_network else set()
    listed = ",".join(sorted(drivers - {""}))
    words = ["console=ttyS0", "earlyprintk=ttyS0", "loglevel=6", "panic=-1", "no_timer_check", "mitigations=off"]
    return " ".join([*words, "cryptomgr.notests", f"hakaru.name={machine.name}", f"hakaru.drivers={listed}"])


def _address_of(unix_socket: str) -> str:
    """Return the options of a Unix socket: a path, or `@` and an abstract name."""
    name = unix_socket.removeprefix("@")
    # A comma in a value is doubled.
    return f"path={name.replace(',', ',,')}" + (",abstract=on" if name != unix_socket else "")


def _port_arguments(port: Port, position: int, mac: str) -> list[str]:
    nic, identity = port.nic, f"port{position}"
    if nic.traits.backend == "function":
        assert port.function and not port.descriptors, f"{port.name} needs a function and no descriptor"
        slot = _FUNCTION_SLOT + position
        device = f"{nic.traits.device},host={port.function},id={identity}-nic,addr={slot:#x},rombar=0"
        return ["-device", device]
    arguments, place = [], ""
    if nic.traits.virtual_functions:
        # They take numbers on the bus of their device, so it has a bus of its own.
        arguments += ["-device", f"pcie-root-port,id={identity}-bus,chassis={position + 1}"]
        place = f",bus={identity}-bus"
    if nic.traits.backend == "vhost-user":
        assert nic.socket is not None and not port.descriptors, f"{port.name} needs a socket and no descriptor"
        queues = f",queues={nic.queues}" if nic.queues > 1 else ""
        arguments += ["-chardev", f"socket,id={identity}-socket,{_address_of(nic.socket)}"]
        arguments += ["-netdev", f"vhost-user,id={identity},chardev={identity}-socket{queues}"]
    else:
        assert len(port.descriptors) == nic.queues, f"{port.name} needs {nic.queues} descriptors"
        key = "fd" if nic.queues == 1 else "fds"
        vhost = "on" if nic.model == "vhost-net" else "off"
        joined = ":".join(map(str, port.descriptors))
        arguments += ["-netdev", f"tap,id={identity},{key}={joined},vhost={vhost}"]
    return [*arguments, "-device", device_options(nic, mac=mac, netdev=identity, vectors=port.vectors) + place]
