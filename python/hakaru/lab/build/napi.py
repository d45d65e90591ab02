"""Threaded NAPI of a veth interface: the kernel receives in a thread of its own.

Without NAPI, a frame on a veth cable is received within the call that sends it, on the processor of
the sender. With NAPI it waits in a ring of 256 frames, and with a thread the scheduler decides
where the receiver runs. Generic receive offload switches NAPI on (drivers/net/veth.c, since Linux
5.13); UDP datagrams are not merged by it unless that is asked for separately. The other end of the
cable uses the ring only if it segments no TCP (veth_skb_is_eligible_for_gro), because the kernel
sees no gain in merging frames of a sender that hands over super-frames.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyroute2.ethtool.ioctl import EthtoolFeaturesList, IoctlEthtool

from hakaru.kernel_threads import let_run_first
from hakaru.system_calls import MNT_DETACH, MS_NODEV, MS_NOEXEC, MS_NOSUID, mount, umount2

_GRO = "rx-gro"
_SEGMENTS = "tx-tcp"
"""Start of the names of the features that segment TCP."""


def switch_polling_on(interface: str, *, own_thread: bool, first: bool = False) -> None:
    """Switch NAPI on for a veth interface of this thread's network namespace; `own_thread`: with a
    kernel thread that polls; `first`: that runs before all programs, as the kernel's own reception
    does. Without root, the thread remains one among equals.

    Raises OSError if the kernel has no threads for it (before Linux 5.13).
    """
    with _features(interface) as features:
        features[_GRO] = True
    if not own_thread:
        return
    with sysfs() as folder:
        (folder / "class/net" / interface / "threaded").write_text("1")
    if first:
        let_run_first(interface)


def switch_segmentation_off(interface: str) -> None:
    """Let an interface of this thread's network namespace segment no TCP, so that the other end of
    its cable can poll. Raises OSError if the interface does not exist.
    """
    with _features(interface) as features:
        for name in [name for name, *_ in features if name.startswith(_SEGMENTS)]:
            features[name] = False


@contextlib.contextmanager
def _features(interface: str) -> Iterator[EthtoolFeaturesList]:
    """Features of an interface, which are set at the end of the block."""
    control = IoctlEthtool(interface)
    try:
        features = control.get_features()
        yield features
        control.set_features(features)
    finally:
        control.close()


def namespace_of_mapped_root() -> int:
    """Create a network namespace and return its descriptor.

    The files of an interface in sysfs belong to root of the user namespace that owns the network
    namespace. The sandbox of an ordinary user has no root. Therefore this network namespace belongs
    to a user namespace below it, in which the user is root. Raises OSError if it cannot be made.
    """
    words = ["unshare", "--map-root-user", "--net", "sh", "-c", "echo made && read -r _"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stderr is not None
        if not holder.stdout.readline():
            raise OSError(errno.EPERM, holder.stderr.read().decode(errors="replace").strip())
        # The descriptor keeps the namespace after its process has ended.
        return os.open(f"/proc/{holder.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def sysfs() -> Iterator[Path]:
    """A sysfs of this thread's network namespace, mounted while the block runs. It shows the
    interfaces of the namespace of the thread that mounts it.
    """
    folder = tempfile.mkdtemp(prefix="hakaru-sysfs-")
    try:
        mount("sysfs", folder, "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        try:
            yield Path(folder)
        finally:
            umount2(folder, MNT_DETACH)
    finally:
        Path(folder).rmdir()
