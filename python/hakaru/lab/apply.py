"""Building a lab from its plan: network namespaces, bridge, cables, addresses, token buckets.

Runs inside the sandbox, in one thread that changes its own network namespace and comes back; the rest of the process
stays where it is. A node's namespace is held by an open descriptor and by the engines in it, and has no other name.
Closing the descriptor, or the end of the process, is the tear-down: interfaces go with their namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from hakaru.errors import EnvironmentError_
from hakaru.lab import plan as planned
from hakaru.lab.supervisor import CLONE_NEWNET

_libc = ctypes.CDLL(None, use_errno=True)
_OWN_NAMESPACE = "/proc/thread-self/ns/net"


class Namespaces:
    """Open descriptors of the nodes' network namespaces, by node."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __getitem__(self, node: str) -> int:
        return self._descriptors[node]

    def __contains__(self, node: str) -> bool:
        return node in self._descriptors

    def create(self, node: str) -> None:
        """A new, empty namespace."""
        with _own_namespace_kept():
            if _libc.unshare(CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            self._descriptors[node] = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """This thread is in the node's namespace for the duration."""
        with _own_namespace_kept():
            _enter(self._descriptors[node])
            yield

    def close(self) -> None:
        """Let go of all of them. Safe to call twice."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextlib.contextmanager
def _own_namespace_kept() -> Iterator[None]:
    own = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        # If this thread could not come back, whatever runs in it next would be in the wrong network: nothing may.
        try:
            _enter(own)
        finally:
            os.close(own)


class _Sockets:
    """One netlink socket per node, opened inside its namespace, all closed at the end."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._sockets: dict[str, IPRoute] = {}

    def __getitem__(self, node: str) -> IPRoute:
        if node not in self._sockets:
            # A netlink socket belongs to the namespace it was opened in, wherever its thread goes afterwards.
            with self._namespaces.inside(node):
                self._sockets[node] = IPRoute()
        return self._sockets[node]

    def index(self, node: str, interface: str) -> int:
        """Number of an interface."""
        found = self[node].link_lookup(ifname=interface)
        return int(found[0])

    def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()


def apply_plan(plan: planned.LabPlan) -> Namespaces:
    """Build the lab. Raises EnvironmentError_ that names the action and the node; nothing is left then."""
    namespaces = Namespaces()
    sockets = _Sockets(namespaces)
    try:
        for action in plan.actions:
            try:
                _STEPS[type(action)](namespaces, sockets, action)
            except (OSError, NetlinkError, IndexError) as error:
                raise _refused(action, error) from error
    except BaseException:
        namespaces.close()
        raise
    finally:
        sockets.close()
    return namespaces


def _refused(action: planned.Action, error: Exception) -> EnvironmentError_:
    what = type(action).__name__
    where = f"{action.node} {getattr(action, 'interface', '')}".strip()
    reason = os.strerror(error.code) if isinstance(error, NetlinkError) else str(error)
    return EnvironmentError_(
        f"the lab cannot be built: {what} on {where}: {reason}",
        "`hakaru doctor` checks what the kernel offers (veth, bridge, TBF)",
    )


def _create_namespace(namespaces: Namespaces, sockets: _Sockets, action: planned.CreateNamespace) -> None:
    namespaces.create(action.node)
    sockets[action.node].link("set", index=1, state="up")
    with namespaces.inside(action.node):
        for name, values in action.sysctls:
            _set_sysctl(name, values)


def _set_sysctl(name: str, values: tuple[str, ...]) -> None:
    """Set it to the first of `values` that is allowed. /proc/sys/net is that of the thread that opens it."""
    path = Path("/proc/sys") / name
    # A kernel without IPv6 has nothing to switch off.
    if name.startswith("net/ipv6") and not path.exists():
        return
    for value in values:
        if path.read_text().strip() == value:
            return
        try:
            path.write_text(value)
            return
        except OSError as error:
            refused = error
    raise OSError(refused.errno, f"{refused.strerror}: {name} = {values[-1]}")


def _create_bridge(_: Namespaces, sockets: _Sockets, action: planned.CreateBridge) -> None:
    sockets[action.node].link(
        "add",
        ifname=action.interface,
        kind="bridge",
        mtu=action.mtu,
        br_stp_state=0,
        br_mcast_snooping=0,
    )
    sockets[action.node].link("set", index=sockets.index(action.node, action.interface), state="up")


def _create_veth(namespaces: Namespaces, sockets: _Sockets, action: planned.CreateVeth) -> None:
    sockets[action.node].link(
        "add",
        ifname=action.interface,
        kind="veth",
        mtu=action.mtu,
        peer={"ifname": action.peer_interface, "mtu": action.mtu, "net_ns_fd": namespaces[action.peer]},
    )
    sockets[action.node].link(
        "set",
        index=sockets.index(action.node, action.interface),
        master=sockets.index(action.node, action.bridge),
    )


def _add_address(_: Namespaces, sockets: _Sockets, action: planned.AddAddress) -> None:
    sockets[action.node].addr(
        "add",
        index=sockets.index(action.node, action.interface),
        address=action.address,
        prefixlen=action.prefix_length,
    )


def _shape(_: Namespaces, sockets: _Sockets, action: planned.Shape) -> None:
    index = sockets.index(action.node, action.interface)
    socket = sockets[action.node]
    socket.link("set", index=index, IFLA_GSO_MAX_SIZE=action.super_frame_bytes)
    socket.tc(
        "add",
        "tbf",
        index=index,
        handle="1:",
        rate=action.rate_bytes_per_s,
        burst=action.bucket_bytes,
        limit=action.queue_bytes,
    )


def _set_up(_: Namespaces, sockets: _Sockets, action: planned.SetUp) -> None:
    sockets[action.node].link("set", index=sockets.index(action.node, action.interface), state="up")


_STEPS: dict[type[Any], Callable[[Namespaces, _Sockets, Any], None]] = {
    planned.CreateNamespace: _create_namespace,
    planned.CreateBridge: _create_bridge,
    planned.CreateVeth: _create_veth,
    planned.AddAddress: _add_address,
    planned.Shape: _shape,
    planned.SetUp: _set_up,
}


def read_sysctl(namespaces: Namespaces, node: str, name: str) -> str:
    """A setting of a node, `name` relative to /proc/sys."""
    with namespaces.inside(node):
        return (Path("/proc/sys") / name).read_text().strip()
