"""Recordings of a study's nodes beside the counters, which are always recorded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration, Size

MS_NS = 1_000_000
MIB = 1 << 20


class Capture(Part):
    """Packets of the iSCSI connections of hosts or arrays, into files that `hakaru analyse` and
    Wireshark read.
    """

    at: Literal["hosts", "arrays", "both"] = Field(default="hosts", description="whose packets")
    interface: str = Field(
        default="eth0",
        pattern=r"^[^\s/]{1,15}$",
        description="of each such node; a lab's are eth0, eth1, … in the order of its paths, on a trunk eth0.10",
    )
    snap: Size = Field(
        default=1024,
        ge=144,
        le=256 << 10,
        description="kept of each packet, 144 B to 256 KiB, from its Ethernet header on",
    )
    keep: Size = Field(
        default=1 << 30,
        ge=16 * MIB,
        le=1 << 40,
        description="kept of each node in each repetition, the newest, 16 MiB to 1 TiB",
    )


class Watch(Part):
    """Single TCP connections of hosts and arrays: windows, queues, round-trip times and clocks as a
    series; packets.
    """

    tcp_interval: Duration | None = Field(
        default=None,
        ge=MS_NS,
        le=60 * SECOND_NS,
        description="distance of readings of every iSCSI connection, 1 ms to 60 s; without it there are none",
    )
    tcp_trace: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="event by event as well, through the kernel's tracepoints; `auto`: where this user may (root)",
    )
    capture: Capture | None = Field(default=None, description="packets, into files of the run")

    @model_validator(mode="after")
    def _watches_something(self) -> Watch:
        if self.tcp_interval is None and self.tcp_trace != "auto":
            raise ValueError("`tcp_trace` goes with `tcp_interval`: say how often connections are read")
        if self.tcp_interval is None and self.capture is None:
            raise ValueError("say what is watched: `tcp_interval`, `capture` or both")
        return self
