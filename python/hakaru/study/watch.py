"""Recordings of a study's nodes beside the counters, which are always recorded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration, Size

MS_NS = 1_000_000
MIB = 1 << 20


class Capture(Part):
    """Capture of packets of iSCSI connections at hosts or arrays, to files that `hakaru analyse`
    and Wireshark read.
    """

    at: Literal["hosts", "arrays", "both"] = Field(default="hosts", description="nodes that capture")
    interface: str = Field(
        default="eth0",
        pattern=r"^[^\s/]{1,15}$",
        description="interface of each of these nodes; in a lab eth0, eth1, … in the order of its paths, on a trunk "
        "eth0.10",
    )
    snap: Size = Field(
        default=1024,
        ge=144,
        le=256 << 10,
        description="bytes kept of each packet, from its Ethernet header on, 144 B to 256 KiB",
    )
    keep: Size = Field(
        default=1 << 30,
        ge=16 * MIB,
        le=1 << 40,
        description="newest data kept per node and repetition, 16 MiB to 1 TiB",
    )


class Watch(Part):
    """Recordings of TCP connections of hosts and arrays: a series of windows, queues, round-trip
    times and timers, and packets.
    """

    tcp_interval: Duration | None = Field(
        default=None,
        ge=MS_NS,
        le=60 * SECOND_NS,
        description="interval between readings of every iSCSI connection, 1 ms to 60 s; default: no readings",
    )
    tcp_trace: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="whether single events are recorded as well, through the kernel's tracepoints; `auto`: if this "
        "user is permitted to (root)",
    )
    capture: Capture | None = Field(default=None, description="capture of packets, to files of the run")

    @model_validator(mode="after")
    def _watches_something(self) -> Watch:
        if self.tcp_interval is None and self.tcp_trace != "auto":
            raise ValueError("`tcp_trace` needs `tcp_interval`, the interval between readings of connections")
        if self.tcp_interval is None and self.capture is None:
            raise ValueError("`watch` needs `tcp_interval`, `capture` or both")
        return self
