"""The end of a link in a node: a small switch of the node's own in the fabric, which several
interfaces share. Pure.

It keeps the VLANs of a node on a trunk apart, or is the bridge of a host with guests. It adds no
delay, and its end of the link drops nothing.
"""

from __future__ import annotations

from hakaru.lab.plan.parts import Link, Switch, Trunk


def nic_of(link: Link) -> Switch:
    """The switch in a node at the end of its link."""
    return Switch(f"{link.node}.{link.interface}", "cut_through", is_nic=True)


def line_of(link: Link, vlans: tuple[int, ...]) -> Trunk:
    """The line of a node's link, from the switch in the node to the switch of the study. `vlans`:
    IDs that it carries tagged; without any, it is in the VLAN of the link.
    """
    nic = nic_of(link).name
    a, b = (nic, link.switch) if link.node_first else (link.switch, nic)
    return Trunk(
        link.name,
        a,
        b,
        link.rate_bits_per_s,
        link.queue_bytes,
        link.mtu,
        link.discipline,
        link.pause,
        link.line,
        link.sustained_bits_per_s,
        vlans,
        None if vlans else link.vlan,
    )


def inside(link: Link, interface: str, port: str) -> Link:
    """An interface of a node behind the switch in the node. It sends at the link's rate; delay and
    impairments are those of the line.
    """
    return Link(
        name=f"{link.name}.{link.vlan or 0}",
        node=link.node,
        interface=interface,
        switch=nic_of(link).name,
        port=port,
        path=link.path,
        address=link.address,
        prefix_length=link.prefix_length,
        rate_bits_per_s=None,
        queue_bytes=link.queue_bytes,
        mtu=link.mtu,
        send_rate_bits_per_s=link.rate_bits_per_s,
        vlan=link.vlan,
        inside=True,
    )
