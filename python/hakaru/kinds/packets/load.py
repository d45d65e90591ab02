"""The load of a study of packet forwarding: frames from one port of the tester to the other,
through the device of the lab. A search finds the highest rate that the device forwards.

    load:
      kind: packets
      frame: 64
      direction: both
      search:
        goals:
          - {loss_percent: 0.01, exceed_percent: 50}
      latency: {percent: [10, 50, 90], time: 2 s}

Rates are frames per second of all directions together. A frame's size counts its check sequence, as
in RFC 2544: 64 bytes is the shortest Ethernet frame.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from hakaru.search import Goal
from hakaru.study.any_load import Load
from hakaru.study.kind import load_of
from hakaru.study.model import Study
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration

FRAME_MIN_BYTES, FRAME_MAX_BYTES = 64, 9216
FRAME_HEADER_BYTES = 18
"""Ethernet header and check sequence, which the MTU does not count."""
XDP_FRAME_MAX_BYTES = 3844
"""Longest frame that AF_XDP receives: a page without the 256 bytes in front of a frame."""
IMIX = ((64, 7), (594, 4), (1518, 1))
"""Frame sizes in bytes and their weights: the simple mix of RFC 6985, 64 instead of 40 bytes."""
TRIAL_MAX_NS = 300 * SECOND_NS
"""A stream sends at most 10⁹ frames in a trial, 3.3 million per second for this time."""
PERCENT = 100.0


def _imix(value: Any) -> Any:
    # A level of a factor is text or a number.
    return int(value) if isinstance(value, str) and value.isdigit() else value


FrameSize = Annotated[
    Annotated[int, Field(ge=FRAME_MIN_BYTES, le=FRAME_MAX_BYTES)] | Literal["imix"], BeforeValidator(_imix)
]


class GoalSpec(Part):
    """Limits that the result must meet (docs/methodology/search.md)."""

    loss_percent: float = Field(default=0.01, ge=0, lt=100, description="loss that a trial may have, in percent")
    exceed_percent: float = Field(
        default=50.0,
        ge=0,
        lt=100,
        description="share of the trial time in which the loss may be higher; at 50, the typical trial counts",
    )
    width_percent: float = Field(
        default=0.5, gt=0, lt=100, description="the search ends when its bounds are this close, in percent of the upper"
    )
    trial: Duration = Field(
        default=SECOND_NS,
        ge=SECOND_NS // 2,
        le=TRIAL_MAX_NS,
        description="time of one full trial, at least 500 ms; its CPU use needs five sample intervals",
    )
    time: Duration = Field(
        default=15 * SECOND_NS, ge=SECOND_NS // 10, description="trial time that decides whether a rate meets the goal"
    )

    @model_validator(mode="after")
    def _time_holds_a_trial(self) -> GoalSpec:
        if self.time < self.trial:
            raise ValueError("`time` is shorter than one `trial`")
        return self

    def goal(self) -> Goal:
        """The goal for a search."""
        return Goal(
            loss_ratio=self.loss_percent / PERCENT,
            exceed_ratio=self.exceed_percent / PERCENT,
            relative_width=self.width_percent / PERCENT,
            initial_trial_s=self.trial / 1e9,
            final_trial_s=self.trial / 1e9,
            duration_sum_s=self.time / 1e9,
        )


class SearchSpec(Part):
    """The way to the result."""

    procedure: Literal["mlr", "published", "bisection"] = Field(
        default="mlr",
        description="`mlr`: MLRsearch, several goals in one search. `published`: X / 2 after loss, otherwise the mean "
        "of X and the nearest maximum (Internet Week 2011). `bisection`: every trial decides.",
    )
    goals: list[GoalSpec] = Field(
        default_factory=lambda: [GoalSpec()],
        min_length=1,
        max_length=8,
        description="the first goal is the result of a point; other procedures than `mlr` have only one",
    )
    lowest: float = Field(default=1000.0, gt=0, le=1e9, description="lowest rate that is tried, frames per second")
    highest: float | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="highest rate that is tried; default: what the tester can send and count",
    )
    budget: Duration | None = Field(
        default=60 * SECOND_NS, ge=SECOND_NS, description="time after which no further trial begins; null: no limit"
    )
    repeats: int = Field(
        default=1, ge=1, le=100, description="`published`: number of searches, whose mean is the result"
    )


class LatencySpec(Part):
    """Latency of frames at shares of the rate found."""

    percent: list[float] = Field(
        default_factory=lambda: [10.0, 50.0, 90.0], max_length=16, description="shares of the rate found, in percent"
    )
    time: Duration = Field(default=2 * SECOND_NS, ge=SECOND_NS // 10, le=TRIAL_MAX_NS, description="time of each trial")


class PacketsLoad(Load):
    """Frames through the device of the lab."""

    kind: Literal["packets"]
    frame: FrameSize = Field(
        default=64,
        description="bytes of each frame with its check sequence, 64 to 9216; `imix`: 7:4:1 of 64, 594, 1518",
    )
    direction: Literal["one", "both"] = Field(
        default="one", description="`one`: from the first port to the second; `both`: half of the rate each way"
    )
    flows: int = Field(default=1, ge=1, le=16_384, description="UDP flows of each direction; frames take turns")
    transmit: Literal["auto", "af_xdp", "sendmmsg"] = Field(default="auto", description="how the tester sends")
    receive: Literal["auto", "tpacket_v3", "af_xdp"] = Field(
        default="auto", description="how the tester receives; `af_xdp` needs root, and frames of at most 3844 bytes"
    )
    settle: Duration = Field(
        default=SECOND_NS // 10,
        le=60 * SECOND_NS,
        description="time without a frame after which a trial ends; 10 s after its last frame at the latest, or this "
        "time if it is longer",
    )
    search: SearchSpec = Field(default_factory=SearchSpec)
    latency: LatencySpec | None = Field(default_factory=LatencySpec, description="null: not measured")

    @model_validator(mode="after")
    def _fits_into_a_page(self) -> PacketsLoad:
        if self.receive == "af_xdp" and self.longest_bytes > XDP_FRAME_MAX_BYTES:
            raise PydanticCustomError(
                "frame_too_long",
                "AF_XDP receives frames of at most 3844 bytes",
                {"hint": "use `receive: auto`"},
            )
        return self

    @property
    def loads_program(self) -> bool:
        """Whether the tester receives through an XDP program."""
        return self.receive == "af_xdp"

    @property
    def longest_bytes(self) -> int:
        """Bytes of the longest frame."""
        return max(size for size, _ in self.sizes)

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Bytes and weight of each frame size."""
        return IMIX if self.frame == "imix" else ((self.frame, 1),)

    @property
    def directions(self) -> int:
        """Number of directions, 1 or 2."""
        return 2 if self.direction == "both" else 1


def load_at(study: Study) -> PacketsLoad:
    """The load of a study of packet forwarding."""
    return load_of(study, PacketsLoad)
