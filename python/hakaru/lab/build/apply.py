"""Building a lab from its plan, action by action, and changing the settings of a built lab.

Runs inside the sandbox, in one thread that changes its own network namespace and returns to it; the
other threads stay in theirs. A node's namespace is held by an open descriptor and by the engines in
it, and has no name. The lab is torn down by closing the descriptors, or by the end of the process:
interfaces disappear with their namespace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from socket import AF_INET
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.tcmsg import plugins as tc_plugins

from hakaru.engine import contract
from hakaru.errors import EnvironmentError_
from hakaru.lab.build.napi import namespace_of_mapped_root, switch_polling_on, switch_segmentation_off
from hakaru.lab.build.xdp import redirect
from hakaru.lab.plan import LabPlan, actions
from hakaru.lab.plan.shape import SUPER_FRAME_MAX_BYTES
from hakaru.system_calls import CLONE_NEWNET, setns, unshare

_OWN_NAMESPACE = "/proc/thread-self/ns/net"
# linux/if_addr.h, linux/pkt_sched.h, linux/rtnetlink.h.
_IFA_F_NOPREFIXROUTE = 0x200
# Its only option is that of `pfifo` (linux/pkt_sched.h, tc_fifo_qopt), and pyroute2 lacks it.
tc_plugins.setdefault("bfifo", tc_plugins["pfifo"])
_TC_H_ROOT = 0xFFFF_FFFF
_RT_TABLE_MAIN = 254
# linux/neighbour.h
_NUD_PERMANENT = 0x80
# Linux handles changes of carriers once a second.
_ACTIVE_TIMEOUT_S, _POLL_S = 10.0, 0.01


class Namespaces:
    """Open descriptors of the nodes' network namespaces, by node."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __getitem__(self, node: str) -> int:
        return self._descriptors[node]

    def __contains__(self, node: str) -> bool:
        return node in self._descriptors

    def create(self, node: str, *, own_sysfs: bool = False) -> None:
        """Create an empty namespace for a node. `own_sysfs`: see `actions.CreateNamespace`."""
        if own_sysfs and os.geteuid() != 0:
            self._descriptors[node] = namespace_of_mapped_root()
            return
        with _own_namespace_kept():
            unshare(CLONE_NEWNET)
            self._descriptors[node] = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def inside(self, node: str) -> Iterator[None]:
        """Put this thread into the node's namespace while the block runs."""
        with _own_namespace_kept():
            setns(self._descriptors[node], CLONE_NEWNET)
            yield

    def close(self) -> None:
        """Close all descriptors. Safe to call twice."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])


@contextlib.contextmanager
def _own_namespace_kept() -> Iterator[None]:
    own_namespace = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        # If this thread could not return, anything that runs in it later would be in the wrong
        # network. The error therefore propagates.
        try:
            setns(own_namespace, CLONE_NEWNET)
        finally:
            os.close(own_namespace)


class _Sockets:
    """One netlink socket per node, opened inside its namespace. `close` closes all of them."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._sockets: dict[str, IPRoute] = {}

    def __getitem__(self, node: str) -> IPRoute:
        if node not in self._sockets:
            # A netlink socket stays in the namespace in which it was opened, even if its thread
            # leaves.
            with self._namespaces.inside(node):
                self._sockets[node] = IPRoute()
        return self._sockets[node]

    def index(self, node: str, interface: str) -> int:
        """Index of an interface."""
        indexes = self[node].link_lookup(ifname=interface)
        return int(indexes[0])

    def close(self) -> None:
        for socket in self._sockets.values():
            socket.close()


def apply_plan(plan: LabPlan) -> Namespaces:
    """Build the lab. Raises EnvironmentError_ with the action and the node that failed, and leaves
    nothing behind.
    """
    namespaces = Namespaces()
    try:
        _apply(namespaces, plan.actions)
    except BaseException:
        namespaces.close()
        raise
    return namespaces


def apply_actions(namespaces: Namespaces, steps: Iterable[actions.Action]) -> None:
    """Apply actions to a built lab. Raises EnvironmentError_ as `apply_plan`."""
    _apply(namespaces, steps)


def apply_settings(
    namespaces: Namespaces, current: LabPlan, wanted: LabPlan, initial: Mapping[tuple[str, str], str]
) -> None:
    """Change a built lab to the settings of another plan with the same structure.

    `initial`: value of each sysctl (node, name) in a new namespace, to restore those that `wanted`
    does not set. No traffic may flow meanwhile, because token buckets are replaced. Raises
    EnvironmentError_ as `apply_plan`; the lab is then in a mixed state and unusable.
    """
    # To change a queueing discipline, replace all of those of its interface.
    queues = {name: (_queues(current, *name), _queues(wanted, *name)) for name in _queued(current) | _queued(wanted)}
    changed = {name for name, (old, new) in queues.items() if old != new}
    steps: list[actions.Action] = [actions.Unqueue(*name) for name in sorted(changed & _queued(current))]
    wanted_sysctls = {
        (setting.node, setting.name) for setting in wanted.settings if isinstance(setting, actions.SetSysctl)
    }
    for setting in current.settings:
        if isinstance(setting, actions.SetSysctl) and (setting.node, setting.name) not in wanted_sysctls:
            steps.append(replace(setting, value=initial[setting.node, setting.name]))
    wanted_routes = {
        (setting.node, setting.network) for setting in wanted.settings if isinstance(setting, actions.SetRoute)
    }
    for setting in current.settings:
        if isinstance(setting, actions.SetRoute) and (setting.node, setting.network) not in wanted_routes:
            steps.append(actions.UnsetRoute(setting.node, setting.network))
    for setting in wanted.settings:
        if isinstance(setting, _QUEUES):
            if (setting.node, setting.interface) in changed:
                steps.append(setting)
        elif setting not in current.settings:
            steps.append(setting)
    _apply(namespaces, steps)


_QUEUES = (actions.Impair, actions.Shape)


def _queued(plan: LabPlan) -> set[tuple[str, str]]:
    return {(setting.node, setting.interface) for setting in plan.settings if isinstance(setting, _QUEUES)}


def _queues(plan: LabPlan, node: str, interface: str) -> list[actions.Setting]:
    return [
        setting
        for setting in plan.settings
        if isinstance(setting, _QUEUES) and (setting.node, setting.interface) == (node, interface)
    ]


def _apply(namespaces: Namespaces, steps: Iterable[actions.Action]) -> None:
    sockets = _Sockets(namespaces)
    try:
        for action in steps:
            try:
                _STEPS[type(action)](namespaces, sockets, action)
            except (OSError, NetlinkError, IndexError) as error:
                raise _refused(action, error) from error
    finally:
        sockets.close()


def _refused(action: actions.Action, error: Exception) -> EnvironmentError_:
    name = type(action).__name__
    place = f"{action.node} {getattr(action, 'interface', '')}".strip()
    reason = os.strerror(error.code) if isinstance(error, NetlinkError) else str(error)
    # The kernel's error for a queueing discipline that it lacks.
    if isinstance(action, actions.Impair) and isinstance(error, NetlinkError) and error.code == errno.ENOENT:
        return EnvironmentError_(
            f"the lab cannot be built: the kernel backend needs netem for delay and loss; this kernel lacks it "
            f"({place})",
            "`sudo modprobe sch_netem` loads it if it is a module; or use `backend: fabric`",
        )
    if isinstance(action, actions.Redirect):
        return EnvironmentError_(
            f"the lab cannot be built: the kernel loads no XDP program ({place}): {reason}",
            "run as root, or choose another device: `forwards: bridge`",
        )
    return EnvironmentError_(
        f"the lab cannot be built: {name} on {place}: {reason}",
        "`hakaru doctor` checks what the kernel offers (veth, bridge, TBF)",
    )


def _create_namespace(namespaces: Namespaces, sockets: _Sockets, action: actions.CreateNamespace) -> None:
    namespaces.create(action.node, own_sysfs=action.own_sysfs)
    sockets[action.node].link("set", index=1, state="up")
    with namespaces.inside(action.node):
        for name, values in action.sysctls:
            _write_sysctl(name, values)


def _write_sysctl(name: str, values: tuple[str, ...]) -> None:
    """Set a sysctl to the first of `values` that the kernel allows. /proc/sys/net refers to the
    network namespace of the thread that opens it.
    """
    path = Path("/proc/sys") / name
    # A kernel without IPv6 has nothing to switch off.
    if name.startswith("net/ipv6") and not path.exists():
        return
    for value in values:
        if path.read_text().split() == value.split():
            return
        try:
            path.write_text(value)
            return
        except OSError as error:
            refused = error
    raise OSError(refused.errno, f"{refused.strerror}: {name} = {values[-1]}")


def _set_sysctl(namespaces: Namespaces, _: _Sockets, action: actions.SetSysctl) -> None:
    with namespaces.inside(action.node):
        if (Path("/proc/sys") / action.name).exists():
            _write_sysctl(action.name, (action.value,))


def _create_bridge(_: Namespaces, sockets: _Sockets, action: actions.CreateBridge) -> None:
    sockets[action.node].link(
        "add",
        ifname=action.interface,
        kind="bridge",
        br_stp_state=0,
        br_mcast_snooping=0,
    )
    sockets[action.node].link("set", index=sockets.index(action.node, action.interface), state="up")


def _create_veth(namespaces: Namespaces, sockets: _Sockets, action: actions.CreateVeth) -> None:
    peer = {"ifname": action.peer_interface, "net_ns_fd": namespaces[action.peer], **_mac(action.peer_mac)}
    sockets[action.node].link("add", ifname=action.interface, kind="veth", peer=peer, **_mac(action.mac))
    ends = [
        (action.node, action.interface, action.bridge),
        (action.peer, action.peer_interface, action.peer_bridge),
    ]
    for node, interface, bridge in ends:
        if bridge is not None:
            sockets[node].link("set", index=sockets.index(node, interface), master=sockets.index(node, bridge))


def _mac(address: str | None) -> dict[str, str]:
    return {} if address is None else {"address": address}


def _add_address(_: Namespaces, sockets: _Sockets, action: actions.AddAddress) -> None:
    sockets[action.node].addr(
        "add",
        index=sockets.index(action.node, action.interface),
        address=action.address,
        prefixlen=action.prefix_length,
        flags=_IFA_F_NOPREFIXROUTE,
    )


def _add_neighbour(_: Namespaces, sockets: _Sockets, action: actions.AddNeighbour) -> None:
    sockets[action.node].neigh(
        "add",
        dst=action.address,
        lladdr=action.mac,
        ifindex=sockets.index(action.node, action.interface),
        state=_NUD_PERMANENT,
    )


def _poll(namespaces: Namespaces, _: _Sockets, action: actions.Poll) -> None:
    with namespaces.inside(action.node):
        switch_polling_on(action.interface, own_thread=action.own_thread, first=action.first)


def _send_singly(namespaces: Namespaces, _: _Sockets, action: actions.SendSingly) -> None:
    with namespaces.inside(action.node):
        switch_segmentation_off(action.interface)


def _redirect(namespaces: Namespaces, sockets: _Sockets, action: actions.Redirect) -> None:
    index, target = (sockets.index(action.node, name) for name in (action.interface, action.target))
    # The program's map looks up interfaces in the namespace of this thread.
    with namespaces.inside(action.node):
        redirect(sockets[action.node], index, target)


def _set_up(_: Namespaces, sockets: _Sockets, action: actions.SetUp) -> None:
    sockets[action.node].link("set", index=sockets.index(action.node, action.interface), state="up")


def _set_down(_: Namespaces, sockets: _Sockets, action: actions.SetDown) -> None:
    sockets[action.node].link("set", index=sockets.index(action.node, action.interface), state="down")


def _limit_port(_: Namespaces, sockets: _Sockets, action: actions.LimitPort) -> None:
    index, socket = sockets.index(action.node, action.interface), sockets[action.node]
    socket.tc("add", "htb", index=index, handle="1:", default="1:1")
    socket.tc(
        "add-class",
        "htb",
        index=index,
        handle="1:1",
        parent="1:0",
        rate=action.rate_bytes_per_s,
        burst=action.burst_bytes,
        cburst=action.burst_bytes,
        overhead=action.overhead_bytes,
        # HTB's shares of other classes; there are none.
        quantum=action.burst_bytes,
    )
    socket.tc("add", "bfifo", index=index, handle="2:", parent="1:1", limit=action.queue_bytes)


def _set_mtu(_: Namespaces, sockets: _Sockets, action: actions.SetMtu) -> None:
    sockets[action.node].link("set", index=sockets.index(action.node, action.interface), mtu=action.mtu)


def _set_route(namespaces: Namespaces, sockets: _Sockets, action: actions.SetRoute) -> None:
    metrics: dict[str, Any] = {}
    if action.congestion_control:
        with namespaces.inside(action.node):
            metrics["cc_algo"] = _choose_congestion_control(action.congestion_control)
    if action.initial_window is not None:
        metrics["initcwnd"] = action.initial_window
    if action.initial_receive_window is not None:
        metrics["initrwnd"] = action.initial_receive_window
    sockets[action.node].route(
        "replace",
        dst=action.network,
        oif=sockets.index(action.node, action.interface),
        prefsrc=action.address,
        **({"scope": "link"} if action.via is None else {"gateway": action.via}),
        **({"metrics": metrics} if metrics else {}),
    )


def _unset_route(_: Namespaces, sockets: _Sockets, action: actions.UnsetRoute) -> None:
    sockets[action.node].route("del", dst=action.network)


def _choose_congestion_control(wanted: tuple[str, ...]) -> str:
    """Return the first algorithm that this kernel has. The kernel may load a module when a route
    names it.
    """
    available = (Path("/proc/sys") / "net/ipv4/tcp_available_congestion_control").read_text().split()
    for name in wanted:
        if name in available:
            return name
    if len(wanted) > 1:
        return available[0]
    raise EnvironmentError_(
        f"the lab cannot be built: this kernel has no congestion control {wanted[0]!r}; it has {', '.join(available)}",
        f"`sudo modprobe tcp_{wanted[0]}` loads it if it is a module; or choose another one",
    )


def _impair(_: Namespaces, sockets: _Sockets, action: actions.Impair) -> None:
    line, loss = action.line, action.line.loss
    sockets[action.node].tc(
        "add",
        "netem",
        index=sockets.index(action.node, action.interface),
        handle="1:",
        delay=round(line.delay_us),
        limit=action.queue_frames,
        loss=loss.percent if isinstance(loss, contract.RandomLoss) else 0,
        duplicate=line.duplicate_percent,
        prob_corrupt=line.corrupt_percent,
    )


def _shape(_: Namespaces, sockets: _Sockets, action: actions.Shape) -> None:
    index = sockets.index(action.node, action.interface)
    socket = sockets[action.node]
    socket.link("set", index=index, IFLA_GSO_MAX_SIZE=action.super_frame_bytes)
    place = {"parent": "1:1", "handle": "2:"} if action.after_netem else {"handle": "1:"}
    socket.tc(
        "add",
        "tbf",
        index=index,
        rate=action.rate_bytes_per_s,
        burst=action.bucket_bytes,
        limit=action.queue_bytes,
        **place,
    )


def _unqueue(_: Namespaces, sockets: _Sockets, action: actions.Unqueue) -> None:
    index = sockets.index(action.node, action.interface)
    sockets[action.node].tc("del", index=index, parent=_TC_H_ROOT)
    sockets[action.node].link("set", index=index, IFLA_GSO_MAX_SIZE=SUPER_FRAME_MAX_BYTES)


_STEPS: dict[type[Any], Callable[[Namespaces, _Sockets, Any], None]] = {
    actions.CreateNamespace: _create_namespace,
    actions.CreateBridge: _create_bridge,
    actions.CreateVeth: _create_veth,
    actions.AddAddress: _add_address,
    actions.AddNeighbour: _add_neighbour,
    actions.SetUp: _set_up,
    actions.SetDown: _set_down,
    actions.Poll: _poll,
    actions.SendSingly: _send_singly,
    actions.Redirect: _redirect,
    actions.LimitPort: _limit_port,
    actions.SetMtu: _set_mtu,
    actions.SetRoute: _set_route,
    actions.UnsetRoute: _unset_route,
    actions.SetSysctl: _set_sysctl,
    actions.Impair: _impair,
    actions.Shape: _shape,
    actions.Unqueue: _unqueue,
}


def await_active(namespaces: Namespaces, node: str, interface: str) -> None:
    """Wait until an interface whose carrier has returned sends again, which Linux allows up to a
    second later, and forget the neighbours that did not answer meanwhile. Raises EnvironmentError_
    if that takes too long.
    """
    with namespaces.inside(node):
        socket = IPRoute()
    try:
        (index,) = socket.link_lookup(ifname=interface)
        deadline = time.monotonic() + _ACTIVE_TIMEOUT_S
        while socket.get_links(index)[0].get_attr("IFLA_OPERSTATE") != "UP":
            if time.monotonic() > deadline:
                raise EnvironmentError_(
                    f"{interface} of {node} did not come up within {_ACTIVE_TIMEOUT_S:g} s after its link was mended",
                    "this machine is busy; try again when it is idle",
                )
            time.sleep(_POLL_S)
        for neighbour in socket.get_neighbours(family=AF_INET, ifindex=index):
            if not neighbour["state"] & _NUD_PERMANENT:
                # It may have expired meanwhile.
                with contextlib.suppress(NetlinkError):
                    socket.neigh("del", dst=neighbour.get_attr("NDA_DST"), ifindex=index)
    finally:
        socket.close()


def read_sysctl(namespaces: Namespaces, node: str, name: str) -> str | None:
    """Return a sysctl of a node, or None if this kernel lacks it. `name` is relative to
    /proc/sys.
    """
    with namespaces.inside(node), contextlib.suppress(FileNotFoundError):
        return " ".join((Path("/proc/sys") / name).read_text().split())
    return None


_METRICS = {"congestion_control": "cc_algo", "initial_window": "initcwnd", "initial_receive_window": "initrwnd"}
"""Parameter of TCP → its attribute of a route."""


def read_routes(namespaces: Namespaces, node: str) -> list[dict[str, Any]]:
    """Return a node's routes to subnets of the lab, with the initial TCP parameters of their
    connections.
    """
    with namespaces.inside(node):
        socket = IPRoute()
    try:
        names = {link["index"]: link.get("ifname") for link in socket.get_links()}
        routes = []
        for route in socket.get_routes(family=AF_INET, table=_RT_TABLE_MAIN):
            metrics = route.get("metrics")
            route_metrics = {name: metrics.get(attribute) for name, attribute in _METRICS.items()} if metrics else {}
            routes.append(
                {
                    "to": f"{route.get('dst')}/{route['dst_len']}",
                    "interface": names[route.get("oif")],
                    **{name: value for name, value in route_metrics.items() if value is not None},
                }
            )
        return routes
    finally:
        socket.close()
