"""`iscsi:` of a study of VMs: settings of iSCSI and of its sockets, at both ends.

    iscsi:
      initiator: {max_burst_length: 1 MiB, command_max: 512 KiB, commands: 1,
                  socket: {send_buffer: 4 MiB}}
      target: {initial_r2t: true, immediate_data: false, max_recv_data_segment_length: 8 KiB}

Defaults are those of the engine, which a test checks; the initiator's are those of open-iscsi. The
login determines the result: the smaller of two lengths or counts, the OR of `initial_r2t`, and the
AND of `immediate_data`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, StringConstraints

from hakaru.login_defaults import INITIATOR, TARGET
from hakaru.study.part import SECOND_NS, Part
from hakaru.units import Duration, Rate, Size, format_size

LENGTH_MIN, LENGTH_MAX = 512, (1 << 24) - 1
"""Bounds on data segments and bursts, in bytes (RFC 7143 sections 13.12 to 13.14)."""
BUFFER_MIN, BUFFER_MAX = 4096, 1 << 30
PACING_MIN, PACING_MAX = 8 * 1000, 8 << 40
"""Bounds on the rate of pacing, in bit/s."""
COALESCE_PERCENT = 10.0
"""Default of `coalesce_percent`: how much waiting for more responses may add to a latency."""
GATHERED_MAX_PERCENT = 6.25
"""One sixteenth. If waiting may have added more to a latency, the result gets a caveat."""
PAUSE_MIN_NS = 20_000
"""The initiator skips shorter waits."""

Algorithm = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,15}$")]


class Socket(Part):
    """Options of the TCP sockets of one end, set before they connect or listen. Options that are
    left out keep the default of the kernel.
    """

    send_buffer: Size | None = Field(
        default=None,
        ge=BUFFER_MIN,
        le=BUFFER_MAX,
        description="SO_SNDBUF; Linux grants twice as much and adapts no more",
    )
    receive_buffer: Size | None = Field(
        default=None, ge=BUFFER_MIN, le=BUFFER_MAX, description="SO_RCVBUF; about this much is announced as the window"
    )
    congestion_control: Algorithm | None = Field(default=None, description="cubic, reno, …; default: the lab's")
    not_sent_low_water: Size | None = Field(
        default=None, ge=1, le=BUFFER_MAX, description="TCP_NOTSENT_LOWAT: maximum of unsent data in the send buffer"
    )
    pacing: Rate | None = Field(
        default=None,
        ge=PACING_MIN,
        le=PACING_MAX,
        description="SO_MAX_PACING_RATE: TCP itself sends no faster, so data waits in the socket as behind a NIC of "
        "this rate; default: no limit",
    )
    no_delay: bool = Field(default=True, description="TCP_NODELAY: disables Nagle's algorithm")


class InitiatorEnd(Part):
    """Keys that every VM's initiator offers in its login, and how it splits requests into
    commands.
    """

    max_recv_data_segment_length: Size = Field(
        default=INITIATOR.max_recv_data_segment_length, ge=LENGTH_MIN, le=LENGTH_MAX, description="of Data-In"
    )
    max_burst_length: Size = Field(default=INITIATOR.max_burst_length, ge=LENGTH_MIN, le=LENGTH_MAX)
    first_burst_length: Size = Field(
        default=INITIATOR.first_burst_length, ge=LENGTH_MIN, le=LENGTH_MAX, description="maximum of unsolicited data"
    )
    initial_r2t: bool = INITIATOR.initial_r2t
    immediate_data: bool = INITIATOR.immediate_data
    max_outstanding_r2t: int = Field(default=INITIATOR.max_outstanding_r2t, ge=1, le=65_535)
    header_digest: bool = Field(default=INITIATOR.header_digest, description="CRC32C, if the target agrees")
    data_digest: bool = Field(default=INITIATOR.data_digest, description="CRC32C, if the target agrees")
    command_max: Size | None = Field(
        default=None,
        ge=4096,
        le=16 << 20,
        description="a longer request is split into several commands, as with max_sectors_kb; default: never",
    )
    commands: int | None = Field(
        default=None,
        ge=1,
        le=4096,
        description="maximum outstanding per session, as an LU's queue depth; default: no limit",
    )
    sessions: int = Field(
        default=1, ge=1, le=64, description="sessions of each VM with its LU; commands are dealt to them in turn"
    )
    command_timeout: Duration = Field(
        default=30 * SECOND_NS,
        ge=SECOND_NS // 10,
        le=3600 * SECOND_NS,
        description="time limit of a command; without a response by then, its repetition has no result; Linux: 30 s",
    )
    coalesce: Duration = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="longest wait for more responses between two polls of the sockets, which lengthens reported "
        "response times; default: never",
    )
    coalesce_percent: float = Field(
        default=COALESCE_PERCENT,
        ge=0,
        le=50,
        description="longest such wait in percent of recent latencies, which bounds what it adds to them",
    )
    socket: Socket = Socket()

    def gathered_percent(self, latency_ns: float) -> float:
        """Return the upper bound of what waiting for more responses added to a latency of
        `latency_ns`, in percent of it.
        """
        wait = min(self.coalesce, latency_ns * self.coalesce_percent / 100)
        return 100 * wait / latency_ns if wait >= PAUSE_MIN_NS else 0.0


class TargetEnd(Part):
    """Keys that the array declares and agrees to. Arrays of a site keep their own keys."""

    max_recv_data_segment_length: Size = Field(
        default=TARGET.max_recv_data_segment_length, ge=LENGTH_MIN, le=LENGTH_MAX, description="of Data-Out"
    )
    max_burst_length: Size = Field(default=TARGET.max_burst_length, ge=LENGTH_MIN, le=LENGTH_MAX)
    first_burst_length: Size = Field(default=TARGET.first_burst_length, ge=LENGTH_MIN, le=LENGTH_MAX)
    initial_r2t: bool = Field(default=TARGET.initial_r2t, description="unsolicited data only as immediate data")
    immediate_data: bool = TARGET.immediate_data
    max_outstanding_r2t: int = Field(default=TARGET.max_outstanding_r2t, ge=1, le=65_535)
    socket: Socket = Socket()


class Iscsi(Part):
    """Settings of both ends."""

    initiator: InitiatorEnd = InitiatorEnd()
    target: TargetEnd = TargetEnd()

    def problems(self) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Place, message and hint of each contradiction."""
        if self.initiator.coalesce % 1000:
            yield ("initiator", "coalesce"), "not whole microseconds", "use whole microseconds, for example 64 us"
        for name, end in (("initiator", self.initiator), ("target", self.target)):
            if end.first_burst_length > end.max_burst_length:
                yield (
                    (name, "first_burst_length"),
                    f"more than max_burst_length, {format_size(end.max_burst_length)}",
                    "the first burst is a burst (RFC 7143 section 13.14)",
                )
