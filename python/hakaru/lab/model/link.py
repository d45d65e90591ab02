"""A link of a lab, `lab: links: NAME:`. Shape and units; `plan_lab` decides whether such a link can
exist.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hakaru.lab.model.vlan import RouterSpec
from hakaru.units import Duration, Rate, Size

QUEUE_DEFAULT_BYTES = 2 * 1024**2
_QUEUE_TEXT = (
    "Bytes of frames that wait in the switch before the link; what comes beyond is dropped. "
    "Default 2 MiB: what one busy port gets of a storage switch's shared buffer. "
)


class Part(BaseModel):
    """Refuses unknown fields; immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StarLinkSpec(Part):
    """A link between a node and the switch of a star, alike in both directions."""

    rate: Rate | None = Field(
        default=None,
        description="Bits per second on the wire, Ethernet framing included; default: as fast as the machine.",
    )
    queue: Size = Field(
        default=QUEUE_DEFAULT_BYTES,
        description=_QUEUE_TEXT + "A node's own end waits as Linux does, 1000 frames.",
    )


class NormalSpec(Part):
    """Normal distribution; what falls below 0 counts as 0."""

    mean: Duration
    deviation: Duration


class JitterSpec(Part):
    """Time added to the delay of each frame: one of these. Frames stay in order."""

    uniform: Duration | None = Field(default=None, description="0 to this, all alike.")
    exponential: Duration | None = Field(default=None, description="Exponential with this mean.")
    normal: NormalSpec | None = Field(default=None, description="Normal.")

    @model_validator(mode="after")
    def _one(self) -> JitterSpec:
        given = [value for value in (self.uniform, self.exponential, self.normal) if value is not None]
        if len(given) != 1:
            raise ValueError("jitter is one of `uniform`, `exponential` and `normal`")
        return self


class LossSpec(Part):
    """Frames that vanish on the line, each way: one by one or, with `burst_frames`, in bursts
    (Gilbert, Elliott).
    """

    percent: float = Field(ge=0, le=100, description="Share of frames lost in the long run.")
    burst_frames: float | None = Field(
        default=None, ge=1, le=1e9, description="Mean length of a stay in the bad state."
    )
    bad_percent: float = Field(default=100.0, gt=0, le=100, description="Loss in the bad state.")


class ReorderSpec(Part):
    """Frames that are held back, so that later ones overtake them."""

    percent: float = Field(ge=0, le=100, description="Share of frames.")
    by: Duration = Field(description="How long.")


class RedSpec(Part):
    """Random early detection (Floyd and Jacobson 1993)."""

    min: Size = Field(description="Average queue from which frames are dropped or marked.")
    max: Size = Field(description="Average queue from which all are.")
    percent: float = Field(default=10.0, ge=0, le=100, description="Probability just below `max`.")
    weight: float = Field(default=0.002, gt=0, le=1, description="Weight of the newest length in the average.")
    ecn: bool = Field(default=False, description="Mark what allows it instead of dropping it.")


class DisciplineSpec(Part):
    """Dropping or marking before a queue is full: one of these."""

    red: RedSpec | None = None
    mark: Size | None = Field(default=None, description="Mark (ECN) while the queue is longer than this (RFC 8257).")

    @model_validator(mode="after")
    def _one(self) -> DisciplineSpec:
        if (self.red is None) == (self.mark is None):
            raise ValueError("discipline is `tail_drop`, or one of `red` and `mark`")
        return self


class LinkSpec(Part):
    """A link between a node and a switch, or between two switches (a trunk); full duplex, alike
    both ways.
    """

    between: tuple[str, ...] = Field(
        min_length=2, max_length=2, description="The two ends. In counters, first → second is `a-b`."
    )
    rate: Rate | None = Field(
        default=None,
        description="Bits per second on the wire, Ethernet framing included; default: as fast as the machine.",
    )
    send_rate: Rate | None = Field(
        default=None,
        description="The node's own interface sends no faster: its frames are spaced at this rate, and more than that "
        "waits in the node. Default: the link's rate. Not for trunks.",
    )
    sustained: Rate | None = Field(
        default=None,
        description="What the study's load needs the link to carry in the long run: a run is refused where this "
        "machine carries less. Frames stand as far apart as `rate` says all the same. Default: the rate.",
    )
    queue: Size = Field(
        default=QUEUE_DEFAULT_BYTES,
        description=_QUEUE_TEXT + "Of a trunk: at both ends. A node's own end drops nothing: its sender waits.",
    )
    discipline: Literal["tail_drop"] | DisciplineSpec = Field(
        default="tail_drop", description="What that queue does before it is full."
    )
    pause: bool = Field(
        default=False,
        description="802.3x on this link, both ways: a switch at one end stops the other end while the port that its "
        "frames want to leave by is half full. What keeps a port from dropping is pause on the links into its switch.",
    )
    delay: Duration = Field(default=0, description="Propagation, each way; up to 10 s.")
    jitter: JitterSpec | None = Field(default=None, description="What is added to the delay, each way.")
    loss: LossSpec | None = Field(default=None, description="Frames that vanish, each way.")
    duplicate_percent: float = Field(default=0.0, ge=0, le=100, description="Share of frames that arrive twice.")
    corrupt_percent: float = Field(
        default=0.0, ge=0, le=100, description="Share of frames with a bit turned over behind the back of the FCS."
    )
    reorder: ReorderSpec | None = Field(default=None, description="Frames that are overtaken.")
    vlan: str | None = Field(
        default=None,
        description="In a lab with `vlans`: untagged, in this one. The switch's port is an access port of it; of a "
        "link between switches, both are.",
    )
    vlans: tuple[str, ...] | None = Field(
        default=None,
        description="In a lab with `vlans`: a trunk, which carries these, tagged, and no other. A node on a trunk has "
        "an interface and an address in each, as eth0.10.",
    )
    address: str | dict[str, str] | None = Field(
        default=None,
        description="Of the node, in its VLAN's subnet; on a trunk a mapping of VLANs to addresses. Default: one that "
        "follows from the node's place in the lab.",
    )


class SharedBufferSpec(Part):
    """Memory that all egress queues of a switch share by dynamic threshold (Choudhury and Hahne
    1998).
    """

    bytes: Size = Field(description="All of it.")
    alpha: float = Field(default=1.0, ge=1 / 128, le=16, description="A queue may grow to this times what is free.")


class SwitchSpec(Part):
    """A switch."""

    forwarding: Literal["store_and_forward", "cut_through"] = Field(
        default="store_and_forward",
        description="When a frame is forwarded: after all of it has arrived, or after its first 64 bytes.",
    )
    shared_buffer: SharedBufferSpec | None = Field(
        default=None, description="Default: each port has its own buffer (its link's `queue`)."
    )
    router: RouterSpec | None = Field(default=None, description="It is an L3 switch. Default: it is not.")
