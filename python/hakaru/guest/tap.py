"""TAPs: network interfaces whose other end is a descriptor, which QEMU inherits.

    with open_tap("tap0", queues=2) as tap:      in the network namespace of the caller
        Port("port-1", nic, tap.descriptors)

The interface exists as long as a descriptor of it is open in any process, so nothing remains after
the end of QEMU and of this process. Opening needs CAP_NET_ADMIN in the namespace, which a sandbox
has without root, and access to /dev/net/tun. QEMU itself needs neither.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

from hakaru.errors import EnvironmentError_

DEVICE = Path("/dev/net/tun")
# linux/if_tun.h
_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR, _IFF_MULTI_QUEUE = 0x0002, 0x1000, 0x4000, 0x0100
# Names of interfaces have at most 15 bytes (IFNAMSIZ).
_NAME_MAX = 15
_IFREQ = "16sH22x"


class Tap:
    """Descriptors of one interface, one per queue. Closed at the end of the block."""

    def __init__(self, interface: str, descriptors: tuple[int, ...]) -> None:
        self.interface = interface
        self.descriptors = descriptors

    def close(self) -> None:
        """Close this process's descriptors; those that QEMU inherited stay open."""
        for descriptor in self.descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.descriptors = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_tap(interface: str, *, queues: int = 1, device: Path = DEVICE) -> Tap:
    """Create an interface in this thread's network namespace. It is down and has no address.

    Raises EnvironmentError_ without the device or the permission, or if the name is in use.
    """
    name = interface.encode()
    if not 0 < len(name) <= _NAME_MAX or b"/" in name:
        raise ValueError(f"{interface!r} is not a name of an interface: at most {_NAME_MAX} bytes, without a slash")
    # Frames carry the header of virtio, so that offloads of the guest reach the interface. QEMU
    # removes it for other devices.
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR | (_IFF_MULTI_QUEUE if queues > 1 else 0)
    with contextlib.ExitStack() as opened:
        descriptors = []
        for _ in range(queues):
            try:
                descriptor = os.open(device, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError as error:
                raise EnvironmentError_(
                    f"{device} cannot be opened: {error.strerror}",
                    "`sudo modprobe tun`, and allow this user to open it",
                ) from error
            opened.callback(os.close, descriptor)
            try:
                fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack(_IFREQ, name, flags))
            except OSError as error:
                raise EnvironmentError_(
                    f"interface {interface} cannot be created: {error.strerror}",
                    "it needs CAP_NET_ADMIN in its network namespace, and a name that is not in use",
                ) from error
            descriptors.append(descriptor)
        opened.pop_all()
    return Tap(interface, tuple(descriptors))


def open_macvtap(interface: str, device: Path, *, queues: int = 1) -> Tap:
    """Open a macvtap through its device node. Raises EnvironmentError_ if it cannot be opened."""
    descriptors: list[int] = []
    try:
        descriptors.extend(os.open(device, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK) for _ in range(queues))
    except OSError as error:
        Tap(interface, tuple(descriptors)).close()
        raise EnvironmentError_(
            f"the device of the macvtap {interface} cannot be opened: {error.strerror}",
            "run as root, or use `virtio-net`",
        ) from error
    return Tap(interface, tuple(descriptors))
