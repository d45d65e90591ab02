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
    "Bytes of frames that may wait in the switch for the link; further frames are dropped. "
    "Default: 2 MiB, the share of a storage switch's buffer that one busy port gets. "
)


class Part(BaseModel):
    """Base of the parts of a link: immutable, and refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StarLinkSpec(Part):
    """A link between a node and the switch of a star. Both directions have the same properties."""

    rate: Rate | None = Field(
        default=None,
        description="Rate in bits per second on the wire, Ethernet framing included. Default: as fast as the machine.",
    )
    queue: Size = Field(
        default=QUEUE_DEFAULT_BYTES,
        description=_QUEUE_TEXT + "A node's own end queues 1000 frames, as Linux does.",
    )


class NormalSpec(Part):
    """Normal distribution. Values below 0 count as 0."""

    mean: Duration
    deviation: Duration


class JitterSpec(Part):
    """Time added to the delay of each frame, by exactly one distribution. Frames stay in order."""

    uniform: Duration | None = Field(default=None, description="Uniform between 0 and this time.")
    exponential: Duration | None = Field(default=None, description="Exponential with this mean.")
    normal: NormalSpec | None = Field(default=None, description="Normal distribution.")

    @model_validator(mode="after")
    def _has_one_distribution(self) -> JitterSpec:
        given = [value for value in (self.uniform, self.exponential, self.normal) if value is not None]
        if len(given) != 1:
            raise ValueError("jitter needs exactly one of `uniform`, `exponential` and `normal`")
        return self


class LossSpec(Part):
    """Frames lost on the line, in each direction: independently of each other or, with
    `burst_frames`, in bursts (Gilbert-Elliott model).
    """

    percent: float = Field(ge=0, le=100, description="Percentage of frames lost in the long run.")
    burst_frames: float | None = Field(
        default=None, ge=1, le=1e9, description="Mean length of a stay in the bad state, in frames."
    )
    bad_percent: float = Field(default=100.0, gt=0, le=100, description="Percentage of frames lost in the bad state.")


class ReorderSpec(Part):
    """Frames that are held back, so that later ones overtake them."""

    percent: float = Field(ge=0, le=100, description="Percentage of frames held back.")
    by: Duration = Field(description="Time that a frame is held back.")


class RedSpec(Part):
    """Random early detection (Floyd and Jacobson 1993)."""

    min: Size = Field(description="Average queue length from which some frames are dropped or marked.")
    max: Size = Field(description="Average queue length from which all frames are dropped or marked.")
    percent: float = Field(default=10.0, ge=0, le=100, description="Probability just below `max`, in percent.")
    weight: float = Field(default=0.002, gt=0, le=1, description="Weight of the newest length in the average.")
    ecn: bool = Field(default=False, description="Mark ECN-capable packets instead of dropping them.")


class DisciplineSpec(Part):
    """Dropping or marking before a queue is full, by exactly one of these disciplines."""

    red: RedSpec | None = None
    mark: Size | None = Field(default=None, description="Mark (ECN) while the queue is longer than this (RFC 8257).")

    @model_validator(mode="after")
    def _has_one_discipline(self) -> DisciplineSpec:
        if (self.red is None) == (self.mark is None):
            raise ValueError("discipline needs `tail_drop`, or exactly one of `red` and `mark`")
        return self


class LinkSpec(Part):
    """A full-duplex link between a node and a switch, or between two switches (a trunk). Both
    directions have the same properties.
    """

    between: tuple[str, ...] = Field(
        min_length=2,
        max_length=2,
        description="The two ends. Counters call the direction from the first to the second `a-b`.",
    )
    rate: Rate | None = Field(
        default=None,
        description="Rate in bits per second on the wire, Ethernet framing included. Default: as fast as the machine.",
    )
    send_rate: Rate | None = Field(
        default=None,
        description="Rate at which the node's own interface sends: frames are spaced at this rate, and further frames "
        "wait in the node. Default: the link's rate. Not for trunks.",
    )
    sustained: Rate | None = Field(
        default=None,
        description="Rate that the study's load needs in the long run. A run is refused if this machine carries over "
        "5 % less. Frames are spaced at `rate` all the same. Default: the rate.",
    )
    queue: Size = Field(
        default=QUEUE_DEFAULT_BYTES,
        description=_QUEUE_TEXT + "A trunk has this queue at both ends. A node's own end drops nothing: its sender "
        "waits.",
    )
    discipline: Literal["tail_drop"] | DisciplineSpec = Field(
        default="tail_drop", description="When the queue drops or marks frames before it is full."
    )
    pause: bool = Field(
        default=False,
        description="IEEE 802.3x flow control in both directions: a switch at one end pauses the other end once the "
        "egress port of its frames is more than half full, until that is a quarter full. To keep a port from dropping "
        "frames, set this on the links that lead into its switch.",
    )
    delay: Duration = Field(default=0, description="Propagation delay in each direction, up to 10 s.")
    jitter: JitterSpec | None = Field(default=None, description="Variation added to the delay, in each direction.")
    loss: LossSpec | None = Field(default=None, description="Frames lost, in each direction.")
    duplicate_percent: float = Field(default=0.0, ge=0, le=100, description="Percentage of frames that arrive twice.")
    corrupt_percent: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="Percentage of frames with one bit flipped that the frame check sequence does not reveal.",
    )
    reorder: ReorderSpec | None = Field(default=None, description="Frames that later ones overtake.")
    vlan: str | None = Field(
        default=None,
        description="In a lab with `vlans`: VLAN of this link, whose frames are untagged. The switch's port is an "
        "access port of this VLAN; of a link between switches, both ports are.",
    )
    vlans: tuple[str, ...] | None = Field(
        default=None,
        description="In a lab with `vlans`: makes the link a trunk that carries these VLANs, tagged, and no others. A "
        "node on a trunk has an interface (such as eth0.10) and an address in each.",
    )
    address: str | dict[str, str] | None = Field(
        default=None,
        description="Address of the node in its VLAN's subnet; on a trunk, a mapping of VLANs to addresses. Default: "
        "derived from the node's place in the lab.",
    )


class SharedBufferSpec(Part):
    """Memory that all egress queues of a switch share by dynamic threshold (Choudhury and Hahne
    1998).
    """

    bytes: Size = Field(description="Size of the entire buffer.")
    alpha: float = Field(
        default=1.0, ge=1 / 128, le=16, description="A queue may grow to this factor times the free space."
    )


class SwitchSpec(Part):
    """A switch."""

    forwarding: Literal["store_and_forward", "cut_through"] = Field(
        default="store_and_forward",
        description="When a frame is forwarded: after it has arrived completely, or (`cut_through`) after its first 64 "
        "bytes.",
    )
    shared_buffer: SharedBufferSpec | None = Field(
        default=None, description="Default: each port has its own buffer (its link's `queue`)."
    )
    router: RouterSpec | None = Field(default=None, description="Makes it an L3 switch. Default: no routing.")
