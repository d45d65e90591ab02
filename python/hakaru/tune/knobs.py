"""Knobs: the settings that tuning can change, their levels, and the study fields that they set.
Pure.

A negotiated knob is set to the same value on both sides, so that this value takes effect. The send
buffer belongs to the sender of the data; the receive buffer and MaxRecvDataSegmentLength belong to
the receiver. In front of a real target only the initiator's knobs can be changed, and only the
initiator's side of the negotiated ones.

initial_r2t, immediate_data, first_burst_length, max_burst_length, max_outstanding_r2t
    keys of the session (RFC 7143 13.10 to 13.14, 13.17)
max_recv_data_segment_length
    key of the connection, declared by the receiver of the data (RFC 7143 13.12)
command_max       maximum bytes of one SCSI command, as `max_sectors_kb` of the Linux block layer
commands          commands outstanding per session, as `node.session.queue_depth` of open-iscsi
queue_depth       requests of the load outstanding; a knob where the depth is free
send_buffer, receive_buffer
    SO_SNDBUF, SO_RCVBUF; `auto`: the kernel sizes it (tcp(7): tcp_wmem, tcp_rmem)
congestion_control, slow_start_after_idle
    of every node of the lab (ip-sysctl of Linux)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hakaru.tune.conditions import DEPTH_MAX, Conditions
from hakaru.units import format_size

AUTO = "auto"
"""Size of a socket buffer that the kernel chooses."""
Value = bool | int | str
Settings = Mapping[str, Value]
"""Knob → value. Sizes are bytes, `AUTO` where the kernel chooses."""
Kind = Literal["size", "count", "flag", "name"]

KIB, MIB = 1 << 10, 1 << 20
BURST_MAX_BYTES = (1 << 24) - 512
"""Largest burst of whole 512-byte blocks. RFC 7143 allows 2^24 - 1 bytes; open-iscsi's default is
512 bytes less than this constant.
"""
COMMAND_MAX_BYTES = 16 * MIB
BUFFER_MIN_BYTES, BUFFER_MAX_BYTES = 64 * KIB, 256 * MIB


@dataclass(frozen=True)
class Knob:
    """One knob with its levels, ascending if they are `ordered`, and its default."""

    name: str
    kind: Kind
    levels: tuple[Value, ...]
    default: Value
    places: tuple[str, ...]
    """Study fields that take the value. Empty for `queue_depth`, which is a factor of its own."""

    @property
    def ordered(self) -> bool:
        """Whether levels have an order that a search can use."""
        return self.kind in ("size", "count")

    def written(self, value: Value) -> Value | None:
        """Return the value as written in a study; None if the study omits it."""
        if value == AUTO:
            return None
        return format_size(int(value)) if self.kind == "size" else value

    def shown(self, value: Value) -> str:
        """Return the value as printed: `256 KiB`, `Yes`, `auto`."""
        if isinstance(value, bool):
            return "Yes" if value else "No"
        return format_size(value) if self.kind == "size" and isinstance(value, int) else str(value)


Space = tuple[Knob, ...]


@dataclass(frozen=True)
class Machine:
    """Facts about this machine that tuning needs. The run stores them, so that a resumed run has
    the same knobs.
    """

    congestion_controls: tuple[str, ...] = ("cubic", "reno")
    send_buffer_auto_max: int = 4 * MIB
    """Largest send buffer that the kernel's own sizing allows (third number of tcp_wmem)."""
    receive_buffer_auto_max: int = 6 * MIB
    """Largest receive buffer that the kernel's own sizing allows (third number of tcp_rmem)."""


@dataclass(frozen=True)
class Defaults:
    """Values before any knob is changed: the keys that the two ends agree on, and their socket
    buffers.

    The result of a key is the smaller number of both ends, the OR of InitialR2T, the AND of
    ImmediateData. `hakaru.tune.start` supplies the values.
    """

    initial_r2t: bool
    immediate_data: bool
    first_burst_length: int
    max_burst_length: int
    max_outstanding_r2t: int
    max_recv_initiator: int
    max_recv_target: int
    command_max: int
    commands: int
    send_initiator: Value
    receive_initiator: Value
    send_target: Value
    receive_target: Value
    congestion_control: str
    slow_start_after_idle: bool
    tcp_stack: str
    buffer_max: int | None
    """Limit of socket buffers in the lab, in bytes; None: the limits of its stack
    (`start.buffer_limit`).
    """
    queue_depth: int = 1


def sizes(low: int, high: int, *more: Value) -> tuple[Value, ...]:
    """Return `low` doubled repeatedly up to `high`, plus the values of `more`, in ascending order.
    `AUTO` comes first.
    """
    levels = {low << shift for shift in range((high // low).bit_length()) if low << shift <= high}
    levels |= {level for level in more if isinstance(level, int)}
    return (*([AUTO] if AUTO in more else []), *sorted(levels))


def space_of(conditions: Conditions, defaults: Defaults, machine: Machine, *, lab: bool) -> Space:
    """Return the available knobs: of both ends with `lab`, otherwise only of the initiator."""
    return tuple(
        replace(knob, levels=tuple(dict.fromkeys(knob.levels)))
        for knob in _all(conditions, defaults, machine, lab)
        if knob.places or knob.name == "queue_depth"
    )


def _all(conditions: Conditions, defaults: Defaults, machine: Machine, lab: bool) -> list[Knob]:
    writes = conditions.op == "write"
    sender, receiver = ("initiator", "target") if writes else ("target", "initiator")

    def both_sides(key: str) -> tuple[str, ...]:
        return tuple(f"load.iscsi.{side}.{key}" for side in (("initiator", "target") if lab else ("initiator",)))

    def one_side(side: str, key: str) -> tuple[str, ...]:
        return (f"load.iscsi.{side}.{key}",) if lab or side == "initiator" else ()

    def buffer(name: str, side: str, key: str, default: Value) -> Knob:
        # Up to four times what the path holds. Larger buffers take memory and gain nothing.
        size_max = max(4 * MIB, min(BUFFER_MAX_BYTES, 4 * path_bytes(conditions)))
        return Knob(
            name, "size", sizes(BUFFER_MIN_BYTES, size_max, AUTO, default), default, one_side(side, f"socket.{key}")
        )

    def bursts(default: int) -> tuple[Value, ...]:
        return sizes(64 * KIB, 8 * MIB, default, BURST_MAX_BYTES)

    def of_lab(key: str) -> tuple[str, ...]:
        return (f"lab.tcp.{key}",) if lab else ()

    segment_default = defaults.max_recv_target if writes else defaults.max_recv_initiator
    block = conditions.block_bytes
    segments = sizes(8 * KIB, 2 * MIB, segment_default)
    commands = sizes(1, 128, defaults.commands)
    command_sizes = sizes(128 * KIB, max(block, 512 * KIB), defaults.command_max)
    send_default = (defaults.send_initiator, defaults.send_target)[not writes]
    receive_default = (defaults.receive_target, defaults.receive_initiator)[not writes]
    knobs = [
        Knob(
            "max_recv_data_segment_length",
            "size",
            segments,
            segment_default,
            one_side(receiver, "max_recv_data_segment_length"),
        ),
        Knob("command_max", "size", command_sizes, defaults.command_max, ("load.iscsi.initiator.command_max",)),
        Knob("commands", "count", commands, defaults.commands, ("load.iscsi.initiator.commands",)),
    ]
    if writes:
        # R2Ts and unsolicited data occur only in writes.
        r2ts, first, burst = defaults.max_outstanding_r2t, defaults.first_burst_length, defaults.max_burst_length
        knobs += [
            Knob("initial_r2t", "flag", (True, False), defaults.initial_r2t, both_sides("initial_r2t")),
            Knob("immediate_data", "flag", (False, True), defaults.immediate_data, both_sides("immediate_data")),
            Knob("first_burst_length", "size", bursts(first), first, both_sides("first_burst_length")),
            Knob("max_outstanding_r2t", "count", sizes(1, 16, r2ts), r2ts, both_sides("max_outstanding_r2t")),
        ]
    else:
        burst = defaults.max_burst_length
    knobs += [
        Knob("max_burst_length", "size", bursts(burst), burst, both_sides("max_burst_length")),
        buffer("send_buffer", sender, "send_buffer", send_default),
        buffer("receive_buffer", receiver, "receive_buffer", receive_default),
        Knob(
            "congestion_control",
            "name",
            tuple(dict.fromkeys((defaults.congestion_control, *machine.congestion_controls))),
            defaults.congestion_control,
            of_lab("congestion_control"),
        ),
        Knob(
            "slow_start_after_idle",
            "flag",
            (True, False),
            defaults.slow_start_after_idle,
            of_lab("slow_start_after_idle"),
        ),
    ]
    if conditions.depth is None:
        depth = defaults.queue_depth
        knobs.append(Knob("queue_depth", "count", sizes(1, _depth_max(conditions), depth), depth, ()))
    return knobs


def _depth_max(conditions: Conditions) -> int:
    """Return the largest queue depth to try: the power of two that covers four times what the path
    holds, plus four requests. Further requests only queue behind each other.
    """
    if conditions.rate_bits_per_s is None or conditions.rtt_ns is None:
        return DEPTH_MAX
    return min(DEPTH_MAX, 1 << (3 + 4 * path_bytes(conditions) // conditions.block_bytes).bit_length())


def path_bytes(conditions: Conditions) -> int:
    """Return the bytes that the path holds: rate x round trip. 0 if either is unknown."""
    if conditions.rate_bits_per_s is None or conditions.rtt_ns is None:
        return 0
    return -(-conditions.rate_bits_per_s * conditions.rtt_ns // (8 * 10**9))


def defaults_of(space: Space) -> dict[str, Value]:
    """Return the default of every knob."""
    return {knob.name: knob.default for knob in space}


def settle(space: Space, settings: Settings) -> dict[str, Value]:
    """Return the settings with FirstBurstLength limited to MaxBurstLength (RFC 7143 13.14)."""
    settled = {knob.name: settings[knob.name] for knob in space}
    first, burst = settled.get("first_burst_length"), settled.get("max_burst_length")
    if isinstance(first, int) and isinstance(burst, int):
        settled["first_burst_length"] = min(first, burst)
    return settled


def changed(space: Space, settings: Settings) -> list[Knob]:
    """Return the knobs that are not at their defaults."""
    return [knob for knob in space if settings[knob.name] != knob.default]


def shown(space: Sequence[Knob], settings: Settings) -> dict[str, str]:
    """Return the changed knobs by name, with their values as printed."""
    return {knob.name: knob.shown(settings[knob.name]) for knob in changed(tuple(space), settings)}


def describe(space: Space) -> list[dict[str, Any]]:
    """Return a JSON object that `of_json` reads."""
    return [
        {
            "name": k.name,
            "kind": k.kind,
            "levels": list(k.levels),
            "default": k.default,
            "places": list(k.places),
        }
        for k in space
    ]


def of_json(value: Sequence[Mapping[str, Any]]) -> Space:
    """Space from the output of `describe`."""
    return tuple(Knob(k["name"], k["kind"], tuple(k["levels"]), k["default"], tuple(k["places"])) for k in value)
