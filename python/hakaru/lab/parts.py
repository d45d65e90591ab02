"""What a planned lab is made of: nodes, switches, links of nodes, trunks between switches. Data alone."""

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
    """A host, a switch, or what an array runs on."""

    name: str
    kind: Literal["host", "array", "switch"]


@dataclass(frozen=True)
class Switch:
    """How a switch forwards and where its frames wait."""

    name: str
    forwarding: Literal["store_and_forward", "cut_through"] = "store_and_forward"
    shared_bytes: int | None = None
    alpha: float = 1.0


@dataclass(frozen=True)
class Line:
    """What happens to frames between the two ends of a link, each way."""

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

    `queue_bytes` and `discipline` are the switch's, toward the node; `rate_bits_per_s` None: unlimited. `path` numbers
    the subnets: who has a link of the same path reaches this address. `node_first`: `a-b` is from node to switch.
    `sustained_bits_per_s`: what this machine must carry over it, where that is less than its rate.
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

    @property
    def sends_bits_per_s(self) -> int | None:
        """How fast the node sends: its own rate, else the link's."""
        return self.send_rate_bits_per_s or self.rate_bits_per_s

    @property
    def ends(self) -> tuple[str, str]:
        """The ends in the order of the study: `a-b` in counters is from the first to the second."""
        return (self.node, self.switch) if self.node_first else (self.switch, self.node)


@dataclass(frozen=True)
class Trunk:
    """A link between two switches; the queue is one at either end."""

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

    @property
    def ends(self) -> tuple[str, str]:
        """The ends in the order of the study."""
        return self.a, self.b
