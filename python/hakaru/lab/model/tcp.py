"""TCP of a lab, `lab: tcp:`. `hakaru.lab.plan.tcp` turns it into settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from hakaru.units import Size


def _year(value: object) -> object:
    # YAML reads 2009 as a number.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


INITIAL_WINDOW_MAX = 10_000
"""Segments: 14 MB, more than the longest way of a lab holds at 1 Gbit/s."""

Stack = Annotated[
    Literal["today", "2009"],
    BeforeValidator(_year),
    WithJsonSchema({"enum": ["today", "2009", 2009]}),
]


class TcpSpec(BaseModel):
    """TCP of every node, in the lab's namespaces only."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stack: Stack = Field(
        default="today",
        description="`today`: as this kernel has it; `2009`: without what Linux learned after 2.6.32, as far as it can "
        "be switched off. lab.json says what was set and what remains.",
    )
    congestion_control: Literal["cubic", "reno", "bbr"] | None = Field(
        default=None, description="Refused where the kernel has it not. Default: cubic, else reno."
    )
    ecn: bool = Field(default=False, description="Ask for ECN (RFC 3168) on every connection.")
    sack: bool = Field(
        default=True,
        description="Selective acknowledgements (RFC 2018). Without them Linux recovers as NewReno does, and has "
        "neither RACK nor tail-loss probes.",
    )
    buffer_max: Size | None = Field(
        default=None,
        description="How large the buffers of a connection may grow, each way; at least 64 KiB. A long path needs rate "
        "x RTT. Default: the stack's own (today what the kernel has, 4 MiB in 2009).",
    )
    slow_start_after_idle: bool | None = Field(
        default=None,
        description="Whether the congestion window shrinks to the initial one when a connection was idle for a "
        "retransmission timeout (RFC 5681, 4.1; `tcp_slow_start_after_idle`). Default: as the kernel has it (true).",
    )
    initial_window: int | None = Field(
        default=None,
        ge=1,
        le=INITIAL_WINDOW_MAX,
        description="Initial congestion window of connections, segments, by route. Default: the stack's own (10 today, "
        "RFC 6928; 2 to 4 in 2009, RFC 3390).",
    )
