"""What of a study's nodes is watched beyond the counters that always are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration

MS_NS = 1_000_000


class Watch(Part):
    """Single TCP connections of hosts and arrays: their windows, queues, round-trip times and clocks as a series."""

    tcp_interval: Duration = Field(
        ge=MS_NS, le=60 * SECOND_NS, description="distance of readings of every iSCSI connection, 1 ms to 60 s"
    )
    tcp_trace: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="event by event as well, through the kernel's tracepoints; `auto`: where this user may (root)",
    )
