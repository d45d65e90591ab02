"""The links of a node with load while a guest has them: TAPs, bridges, addresses.

    taps = open_taps(namespaces, guest)     before the guest boots
    give_links(namespaces, guest)           the guest has the node's links
    return_links(namespaces, guest)         the node has them again

`give_links` and `return_links` may be called in any state, and in any state that an error of the
other one left: they change what is not yet as they want it. All of them change the network
namespace of their thread for the time of the call, and raise NetlinkError or OSError for anything
that the kernel refuses, and EnvironmentError_ as `apply_actions`.
"""

from __future__ import annotations

import errno

from pyroute2 import IPRoute

from hakaru.guest.tap import Tap, open_tap
from hakaru.lab.build.apply import Namespaces, apply_actions
from hakaru.lab.plan.load_guests import GuestLink, LoadGuest


def open_taps(namespaces: Namespaces, guest: LoadGuest) -> list[Tap]:
    """Open a TAP on a bridge for each link. Bridges may be left from an earlier guest."""
    taps: list[Tap] = []
    try:
        with namespaces.inside(guest.node), IPRoute() as links:
            for link in guest.links:
                taps.append(open_tap(link.tap, queues=guest.spec.nic.queues))
                if not links.link_lookup(ifname=link.bridge):
                    links.link("add", ifname=link.bridge, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
                bridge, tap = _index(links, link.bridge), _index(links, link.tap)
                links.link("set", index=tap, mtu=link.mtu, master=bridge, state="up")
                links.link("set", index=bridge, mtu=link.mtu, state="up")
    except BaseException:
        for opened in taps:
            opened.close()
        raise
    return taps


def give_links(namespaces: Namespaces, guest: LoadGuest) -> None:
    """Connect the cables to the bridges, and take the addresses from the node."""
    with namespaces.inside(guest.node), IPRoute() as links:
        for link in guest.links:
            end = _index(links, link.interface)
            links.link("set", index=end, master=_index(links, link.bridge))
            if _has_address(links, link, end):
                # Takes the routes along.
                links.addr("del", index=end, address=link.address, prefixlen=link.prefix_length)


def return_links(namespaces: Namespaces, guest: LoadGuest) -> None:
    """Disconnect the cables from the bridges, and give the node its addresses and routes. Cables
    that were taken down are up again, as the plan has them: Linux refuses routes over others.
    """
    with namespaces.inside(guest.node), IPRoute() as links:
        ends = {link: _index(links, link.interface) for link in guest.links}
        for end in ends.values():
            links.link("set", index=end, master=0, state="up")
        missing = [link for link, end in ends.items() if not _has_address(links, link, end)]
    apply_actions(namespaces, guest.node_steps(missing))


def _has_address(links: IPRoute, link: GuestLink, end: int) -> bool:
    return bool(list(links.get_addr(index=end, address=link.address)))


def _index(links: IPRoute, interface: str) -> int:
    found = links.link_lookup(ifname=interface)
    if not found:
        raise OSError(errno.ENODEV, f"the node has no interface {interface}")
    return int(found[0])
