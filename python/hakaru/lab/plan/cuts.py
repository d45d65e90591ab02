"""Cutting a link of a built lab while a load runs, and mending it. Pure.

On the kernel backend, a link is cut at the port of its switch: while the port is down, frames are
lost in both directions, and the interface of the node keeps its addresses and routes, as with a
cable that was unplugged at the switch. A trunk is cut at its first switch. On the fabric backend,
the fabric drops the frames.
"""

from __future__ import annotations

from hakaru.lab.plan.actions import SetDown, SetUp
from hakaru.lab.plan.lab import LabPlan


def cuttable(plan: LabPlan) -> tuple[str, ...]:
    """Names of the links and trunks that can be cut, in the order of the lab: not those inside a
    node.
    """
    return (*(link.name for link in plan.links if not link.inside), *(trunk.name for trunk in plan.trunks))


def cut(plan: LabPlan, name: str) -> SetDown:
    """The action that cuts a link of the kernel backend. Raises KeyError if it cannot be cut."""
    return SetDown(*_port(plan, name))


def mend(plan: LabPlan, name: str) -> SetUp:
    """The action that mends a link of the kernel backend. Raises KeyError as `cut`."""
    return SetUp(*_port(plan, name))


def far_end(plan: LabPlan, name: str) -> tuple[str, str]:
    """Node and interface at the other end of a link of the kernel backend, or of a trunk."""
    ends = {link.name: (link.node, link.interface) for link in plan.links}
    return (ends | {trunk.name: (trunk.b, trunk.name) for trunk in plan.trunks})[name]


def _port(plan: LabPlan, name: str) -> tuple[str, str]:
    """Switch and port at which a link is cut."""
    if name not in cuttable(plan):
        raise KeyError(name)
    ports = {link.name: (link.switch, link.port) for link in plan.links}
    return (ports | {trunk.name: (trunk.a, trunk.name) for trunk in plan.trunks})[name]
