"""macvtaps: interfaces above another one whose frames a guest sends and receives through a device
node, without a bridge.

The node has no fixed place. A host's /dev shows the nodes of its own network namespace by the
number of the interface, which is not unique across namespaces. Therefore the numbers of the device
are read from a sysfs of the namespace, and a node with them is made in a file system that vanishes.
Making it needs root of the machine (CAP_MKNOD), not only of a user namespace.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pyroute2 import IPRoute

from hakaru.guest.tap import Tap, open_macvtap
from hakaru.lab.build.napi import sysfs
from hakaru.system_calls import MNT_DETACH, MS_NOEXEC, MS_NOSUID, mount, umount2

Mode = Literal["passthru", "bridge"]
"""`passthru`: one macvtap gets every frame of the interface below, for a guest that bridges.
`bridge`: each of several gets the frames to its own MAC address.
"""


def add_macvtap(links: IPRoute, name: str, below: int, mac: str, mode: Mode, *, queues: int = 1) -> Tap:
    """Create a macvtap above the interface with the index `below`, and open it. It is down.

    `links` and this thread are in the network namespace of both. Raises NetlinkError, OSError or
    EnvironmentError_ for anything that the kernel refuses.
    """
    numbers = {"num_tx_queues": queues, "num_rx_queues": queues}
    links.link("add", ifname=name, kind="macvtap", link=below, macvtap_mode=mode, **numbers)
    (index,) = links.link_lookup(ifname=name)
    # With `passthru`, a new macvtap has the address of the interface below. Both get this one.
    links.link("set", index=index, address=mac)
    with _node_of(name) as node:
        return open_macvtap(name, node, queues=queues)


@contextlib.contextmanager
def _node_of(name: str) -> Iterator[Path]:
    """A device node of a macvtap of this thread's network namespace, while the block runs."""
    with sysfs() as system:
        (numbers,) = (system / "class/net" / name).glob("tap*/dev")
        major, minor = map(int, numbers.read_text().split(":"))
    folder = tempfile.mkdtemp(prefix="hakaru-macvtap-")
    try:
        # Not in the folder itself: its file system may be mounted without devices.
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NOEXEC)
        try:
            node = Path(folder) / "tap"
            os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(major, minor))
            yield node
        finally:
            umount2(folder, MNT_DETACH)
    finally:
        Path(folder).rmdir()
