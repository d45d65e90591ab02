"""Guests in the place of the nodes with load. Pure.

    eth0 of the switch ──cable── eth0 ── bridge ── TAP ── NIC [guest]
                                 └────── node ──────┘

The guest has the addresses, the routes and the TCP settings that the plan gives to the node. While
it is plugged in, the bridge takes all frames of the cable, and the node has no address: a
connection that an earlier point left would let it announce the address as its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from hakaru.lab.model import LoadGuestSpec
from hakaru.lab.plan.actions import Action, AddAddress, SetRoute, SetSysctl
from hakaru.lab.plan.lab import LabPlan
from hakaru.lab.plan.namespaces import SYSCTLS

_CARRIER_WAITS, _CARRIER_WAIT_US = 500, 20_000


@dataclass(frozen=True)
class GuestLink:
    """A link of a node that its guest takes over."""

    interface: str
    """Interface of the node, at the end of the cable, and its name in the guest."""
    address: str
    prefix_length: int
    mtu: int

    @property
    def bridge(self) -> str:
        """Bridge between cable and TAP, in the node."""
        return f"br-{self.interface}"

    @property
    def tap(self) -> str:
        """The TAP, in the node."""
        return f"tap-{self.interface}"


@dataclass(frozen=True)
class LoadGuest:
    """The guest of one node."""

    node: str
    number: int
    """Position of the node among those with load."""
    spec: LoadGuestSpec
    links: tuple[GuestLink, ...]
    sysctls: tuple[tuple[str, str], ...]
    """Name below /proc/sys, and value. Those that the guest's kernel lacks are skipped."""
    routes: tuple[SetRoute, ...]

    def node_steps(self, links: Collection[GuestLink]) -> tuple[Action, ...]:
        """Actions that give the node the addresses of `links`, which it lacks, and its routes
        back.
        """
        addresses = (AddAddress(self.node, link.interface, link.address, link.prefix_length) for link in links)
        return (*addresses, *self.routes)


def load_guests(plan: LabPlan, nodes: Sequence[str]) -> tuple[LoadGuest, ...]:
    """Return the guests of `nodes`; none if the load of the plan runs in the nodes themselves."""
    spec = plan.load_guest
    if spec is None:
        return ()
    return tuple(_load_guest(plan, spec, node) for node in nodes)


def _load_guest(plan: LabPlan, spec: LoadGuestSpec, node: str) -> LoadGuest:
    links = tuple(
        GuestLink(link.interface, link.address, link.prefix_length, link.mtu)
        for link in plan.links
        if link.node == node
    )
    sysctls = tuple((name, values[0]) for name, values in SYSCTLS) + tuple(
        (setting.name, setting.value)
        for setting in plan.settings
        if isinstance(setting, SetSysctl) and setting.node == node
    )
    routes = tuple(setting for setting in plan.settings if isinstance(setting, SetRoute) and setting.node == node)
    return LoadGuest(node, plan.loading_names.index(node), spec, links, sysctls, routes)


def network_script(guest: LoadGuest) -> str:
    """Return shell commands that set up the guest's network. They print the names of the sysctls
    that its kernel lacks.
    """
    return "\n".join(["set -e", *_lines(guest)])


def _lines(guest: LoadGuest) -> Iterator[str]:
    for name, value in guest.sysctls:
        file = f"/proc/sys/{name}"
        yield f"if [ -e {file} ]; then echo '{value}' >{file}; else echo {name}; fi"
    for link in guest.links:
        yield f"ip link set {link.interface} mtu {link.mtu} up"
        yield f"ip address add {link.address}/{link.prefix_length} dev {link.interface} noprefixroute"
    for route in sorted(guest.routes, key=lambda each: each.via is not None):
        yield f"ip route replace {' '.join(_route(route))}"
    files = " ".join(f"/sys/class/net/{link.interface}/carrier" for link in guest.links)
    carriers = "1" * len(guest.links)
    yield f"""
for i in $(seq {_CARRIER_WAITS}); do
    [ "$(cat {files} | tr -d '\\n')" = {carriers} ] && exit 0
    usleep {_CARRIER_WAIT_US}
done
echo "no carrier"
exit 1"""


def _route(route: SetRoute) -> Iterator[str]:
    yield route.network
    if route.via is not None:
        yield f"via {route.via}"
    yield f"dev {route.interface} src {route.address}"
    if route.via is None:
        yield "scope link"
    if route.congestion_control:
        # The stock kernel of a guest has the first choice, or loads it as a module.
        yield f"congctl {route.congestion_control[0]}"
    if route.initial_window is not None:
        yield f"initcwnd {route.initial_window}"
    if route.initial_receive_window is not None:
        yield f"initrwnd {route.initial_receive_window}"
