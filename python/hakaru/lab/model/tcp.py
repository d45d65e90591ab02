"""TCP of a lab, `lab: tcp:`. `hakaru.lab.plan.tcp` turns it into settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from hakaru.units import Size


def _year(value: object) -> object:
    # YAML reads 2009 as a number.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


INITIAL_WINDOW_MAX = 10_000
"""In segments: about 14 MB, which fills 1 Gbit/s over a round trip of about 115 ms."""

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
        description="`today`: TCP as this kernel implements it. `2009`: without the features that Linux gained after "
        "2.6.32, as far as they can be switched off. lab.json lists the settings and the features that remain.",
    )
    congestion_control: Literal["cubic", "reno", "bbr"] | None = Field(
        default=None,
        description="Congestion control algorithm; refused if the kernel lacks it. Default: cubic, else reno.",
    )
    ecn: bool = Field(default=False, description="Ask for ECN (RFC 3168) on every connection.")
    sack: bool = Field(
        default=True,
        description="Selective acknowledgements (RFC 2018). Without them Linux recovers as NewReno does, and uses "
        "neither RACK nor tail-loss probes.",
    )
    buffer_max: Size | None = Field(
        default=None,
        description="Largest size of a connection's send and receive buffers, at least 64 KiB. A long path needs rate "
        "x RTT. Default: that of the stack (the kernel's for `today`, 4 MiB for `2009`).",
    )
    slow_start_after_idle: bool | None = Field(
        default=None,
        description="Whether the congestion window shrinks to the initial window after a connection was idle for a "
        "retransmission timeout (RFC 5681, 4.1; `tcp_slow_start_after_idle`). Default: the kernel's setting (true).",
    )
    initial_window: int | None = Field(
        default=None,
        ge=1,
        le=INITIAL_WINDOW_MAX,
        description="Initial congestion window of connections in segments, set on routes. Default: that of the stack "
        "(10 for `today`, RFC 6928; 2 to 4 for `2009`, RFC 3390).",
    )
