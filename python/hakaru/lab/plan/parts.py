"""Parts of a planned lab: nodes, switches, links of nodes, trunks between switches. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hakaru.engine import contract

Jitter = Annotated[
    contract.NoJitter | contract.UniformJitter | contract.ExponentialJitter | contract.NormalJitter,
    Field(discriminator="kind"),
]
Loss = Annotated[contract.NoLoss | contract.RandomLoss | contract.BurstLoss, Field(discriminator="kind")]
Discipline = Annotated[contract.TailDrop | contract.Red | contract.Mark, Field(discriminator="kind")]

NO_JITTER, NO_LOSS, TAIL_DROP = contract.NoJitter(), contract.NoLoss(), contract.TailDrop()


@dataclass(frozen=True)
class Node:
    """A host, a guest of a host, a switch, or the node that an array runs on."""

    name: str
    kind: Literal["host", "guest", "array", "switch"]


@dataclass(frozen=True)
class Vlan:
    """A VLAN and its subnet, for example `10.77.10.0/24`."""

    name: str
    id: int
    subnet: str


@dataclass(frozen=True)
class RouterInterface:
    """An address of an L3 switch in the VLAN with the ID `vlan`."""

    vlan: int
    address: str
    prefix_length: int


@dataclass(frozen=True)
class StaticRoute:
    """A static route of an L3 switch: packets for `network` go to the router with address `via`."""

    network: str
    via: str


@dataclass(frozen=True)
class Switch:
    """The forwarding of a switch, and the queues in which its frames wait. With `interfaces` it
    routes between their VLANs.

    `is_nic`: not a switch of the study, but the end of a link in a node. It keeps the VLANs of a
    node on a trunk apart, or is the bridge of a host with guests. Its name is NODE.INTERFACE.
    """

    name: str
    forwarding: Literal["store_and_forward", "cut_through"] = "store_and_forward"
    shared_bytes: int | None = None
    alpha: float = 1.0
    interfaces: tuple[RouterInterface, ...] = ()
    routes: tuple[StaticRoute, ...] = ()
    is_nic: bool = False


@dataclass(frozen=True)
class Line:
    """The line between the two ends of a link: delay and impairments in each direction."""

    delay_us: float = 0.0
    jitter: Jitter = NO_JITTER
    loss: Loss = NO_LOSS
    duplicate_percent: float = 0.0
    corrupt_percent: float = 0.0
    reorder_percent: float = 0.0
    reorder_us: float = 0.0


@dataclass(frozen=True)
class Link:
    """A link from a node to a switch.

    `queue_bytes` and `discipline` are those of the switch's port toward the node. `rate_bits_per_s`
    None: unlimited. `path` numbers the subnets: nodes with a link of the same path reach this
    address. `node_first`: counters call the direction from node to switch `a-b`.
    `sustained_bits_per_s`: rate that this machine must carry over the link, if less than its rate.
    `vlan`: ID of the VLAN of its address; None in a lab without VLANs.

    A node on a trunk has such a link for each VLAN, from its interface to the switch that
    `Switch.is_nic` marks. The link is then `inside` the node, and the trunk is the line. So is the
    link of a host to the bridge of its guests. A guest's link to that bridge is its own line.
    """

    name: str
    node: str
    interface: str
    switch: str
    port: str
    path: int
    address: str
    prefix_length: int
    rate_bits_per_s: int | None
    queue_bytes: int
    mtu: int
    send_rate_bits_per_s: int | None = None
    discipline: Discipline = TAIL_DROP
    pause: bool = False
    line: Line = Line()
    node_first: bool = True
    sustained_bits_per_s: int | None = None
    vlan: int | None = None
    inside: bool = False

    @property
    def sends_bits_per_s(self) -> int | None:
        """Rate at which the node sends: its own rate, or else the rate of the link."""
        return self.send_rate_bits_per_s or self.rate_bits_per_s

    @property
    def ends(self) -> tuple[str, str]:
        """The ends in the order of the study: `a-b` in counters is from the first to the second."""
        return (self.node, self.switch) if self.node_first else (self.switch, self.node)


@dataclass(frozen=True)
class Trunk:
    """A link between two switches, with such a queue at each end.

    In a lab with VLANs it carries `vlans` (IDs) tagged, or `vlan` alone, untagged.
    """

    name: str
    a: str
    b: str
    rate_bits_per_s: int | None
    queue_bytes: int
    mtu: int
    discipline: Discipline = TAIL_DROP
    pause: bool = False
    line: Line = Line()
    sustained_bits_per_s: int | None = None
    vlans: tuple[int, ...] = ()
    vlan: int | None = None

    def carries(self, vlan: int | None) -> bool:
        """Whether frames of a VLAN pass; None: the lab has no VLANs."""
        return vlan is None or vlan == self.vlan or vlan in self.vlans

    @property
    def ends(self) -> tuple[str, str]:
        """The ends in the order of the study."""
        return self.a, self.b
