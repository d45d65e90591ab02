"""Closed forms: upper bounds on the rate of a load, from the path, the iSCSI parameters and the
buffers. Pure, without counters.

    link      the rate of the narrowest link less the headers of Ethernet, IP, TCP and iSCSI
    window    the maximum of data in flight over the round-trip time
    turns     the commands outstanding over the time of one: its round trips and its transfer

A write of s bytes sends u of them unsolicited and the rest in r bursts that the target solicits
(RFC 7143, 4.2.4 and 13.14):

    t = 0              the command is sent, then u
    x(u) + RTT         the first MaxOutstandingR2T R2Ts arrive; each burst that has been received
                       in full triggers the next R2T
    end of the last    + RTT: the response arrives

x(u) is the transfer time of u bytes. With MaxOutstandingR2T 1, a write takes (r + 1) round trips
and the transfer of s. A read takes one round trip.

With one request outstanding, its commands are issued in as many parallel lanes as commands may be
outstanding, and the next request waits for the last command. With several requests outstanding, the
number of commands outstanding over the time of one bounds the rate (Little's law). The numbers
outstanding and in flight scale with the number of VMs. All bounds are upper bounds: they ignore
queueing, processing, slow start and losses.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, Literal

from hakaru.lab.plan import tcp_payload_bits_per_s

Op = Literal["read", "write"]
"""Direction of the data: `read` from the array to the hosts, `write` from the hosts to the
array.
"""
BHS_BYTES = 48
DIGEST_BYTES = 4
WHOLE = 0.02
"""Numbers of round trips this close to a whole number are rounded to it."""


@dataclass(frozen=True)
class Path:
    """The data path: the rate that all VMs share, the MTU, and the round-trip time without
    queueing.
    """

    rate_bits_per_s: float | None
    mtu: int
    rtt_s: float
    ways_differ: bool = False
    """Whether the VMs use several ways with different round-trip times, of which `rtt_s` is the
    longest. Then it bounds no rate, because VMs with a shorter way exceed it: `window` and `turns`
    do not apply.
    """

    @property
    def tcp_bytes_per_s(self) -> float | None:
        """TCP payload rate of full frames sent back to back; None if the path has no rate."""
        if self.rate_bits_per_s is None:
            return None
        return tcp_payload_bits_per_s(self.rate_bits_per_s, self.mtu) / 8


@dataclass(frozen=True)
class Exchange:
    """The login keys that initiator and target agreed on, and the load on them. Lengths are in
    bytes.

    `command_bytes`: maximum size of the commands that a request is split into (None: one command).
    `commands`: maximum number outstanding, over all sessions (None: no limit). `segment_bytes`:
    MaxRecvDataSegmentLength of the receiver of the data.
    """

    op: Op
    request_bytes: int
    queue_depth: int
    segment_bytes: int
    burst_bytes: int
    first_burst_bytes: int
    initial_r2t: bool
    immediate_data: bool
    outstanding_r2ts: int = 1
    command_bytes: int | None = None
    commands: int | None = None
    header_digest: bool = False
    data_digest: bool = False

    @property
    def command_lengths(self) -> list[int]:
        """Bytes of data of each command of one request."""
        length_max = min(self.command_bytes or self.request_bytes, self.request_bytes)
        full, rest = divmod(self.request_bytes, length_max)
        return [length_max] * full + ([rest] if rest else [])

    @property
    def outstanding(self) -> int:
        """Commands outstanding at once."""
        wanted = self.queue_depth * len(self.command_lengths)
        return min(wanted, self.commands) if self.commands else wanted

    def unsolicited(self, length: int) -> int:
        """Bytes of a write that are sent without an R2T: with the command, and after it if
        InitialR2T is No.
        """
        if self.op != "write":
            return 0
        immediate = min(length, self.first_burst_bytes, self.segment_bytes) if self.immediate_data else 0
        return immediate if self.initial_r2t else min(length, self.first_burst_bytes)

    def bursts(self, length: int) -> list[int]:
        """Lengths of the bursts that the target solicits, one R2T each."""
        solicited = length - self.unsolicited(length)
        if self.op != "write" or solicited <= 0:
            return []
        full, rest = divmod(solicited, self.burst_bytes)
        return [self.burst_bytes] * full + ([rest] if rest else [])

    def on_stream(self, length: int) -> int:
        """Bytes of TCP payload that transfer `length` bytes of data, with PDU headers, in the
        direction of the data.
        """
        # Unsolicited data, each burst and a read are split into PDUs separately. The command PDU of
        # a write carries the first unsolicited PDU if immediate data is allowed.
        unsolicited = self.unsolicited(length)
        pieces = [unsolicited, *self.bursts(length)] if self.op == "write" else [length]
        pdus = sum(-(-piece // self.segment_bytes) for piece in pieces)
        if self.op == "write" and not (self.immediate_data and unsolicited):
            pdus += 1
        return length + pdus * self._pdu_overhead

    @property
    def _pdu_overhead(self) -> int:
        return BHS_BYTES + DIGEST_BYTES * (int(self.header_digest) + int(self.data_digest))


@dataclass(frozen=True)
class Turn:
    """One command: its round trips (a whole number if nothing overlaps) and the transfer time of
    its data on the link.
    """

    length: int
    turns: float
    transfer_s: float
    rtt_s: float

    @property
    def seconds(self) -> float:
        """Time from the command to its response."""
        return self.turns * self.rtt_s + self.transfer_s


@dataclass(frozen=True)
class Bound:
    """One bound: its name (`link`, `window` or `turns`), bytes of data per second, and its
    terms.
    """

    name: str
    bytes_per_s: float
    numbers: dict[str, Any]


def command(path: Path, exchange: Exchange, length: int) -> Turn:
    """Return the time of one command of this many bytes on an idle path."""
    rtt, transfer = path.rtt_s, _seconds(path, exchange.on_stream(length))
    bursts = exchange.bursts(length)
    if not bursts:
        return Turn(length, 1.0, transfer, rtt)
    # Instants in seconds after the command. Headers are spread evenly over the data.
    s_per_byte = transfer / length
    sent_s = exchange.unsolicited(length) * s_per_byte
    r2t_s = [sent_s + rtt] * exchange.outstanding_r2ts
    for i, burst in enumerate(bursts):
        sent_s = max(sent_s, r2t_s[i]) + burst * s_per_byte
        r2t_s.append(sent_s + rtt)
    waited = sent_s + rtt - transfer
    return Turn(length, _whole(waited / rtt) if rtt else 1.0 + len(bursts), transfer, rtt)


def link(path: Path, exchange: Exchange) -> Bound | None:
    """Data rate of the narrowest link; None if the path has no rate."""
    payload = path.tcp_bytes_per_s
    if payload is None:
        return None
    sent = sum(exchange.on_stream(length) for length in exchange.command_lengths)
    share = exchange.request_bytes / sent
    return Bound(
        "link",
        payload * share,
        {"rate_bits_per_s": path.rate_bits_per_s, "tcp_bytes_per_s": payload, "iscsi_share": share, "mtu": path.mtu},
    )


def window(path: Path, window_bytes: float | None) -> Bound | None:
    """Sum of the windows over the round-trip time; None without a window, if the round-trip time is
    0, or if ways differ.
    """
    if not window_bytes or path.rtt_s <= 0 or path.ways_differ:
        return None
    numbers = {"window_bytes": window_bytes, "rtt_s": path.rtt_s}
    return Bound("window", window_bytes / path.rtt_s, numbers)


def turns(path: Path, exchange: Exchange, vms: int = 1, device_s: float = 0.0) -> Bound | None:
    """Rate of `vms` equal VMs whose commands wait for their round trips; None if commands take no
    time, or if ways differ.

    `device_s`: time of a command in the array's devices. It is 0 in a bound from the path alone.
    """
    if path.ways_differ:
        return None
    lengths, outstanding = exchange.command_lengths, exchange.outstanding
    turn_of = {length: command(path, exchange, length) for length in set(lengths)}
    longest = turn_of[max(lengths)]
    sent = sum(exchange.on_stream(length) for length in lengths)
    if exchange.queue_depth == 1:
        # The next request waits for the last command of this one.
        in_lanes_s = _lanes([turn_of[n].seconds + device_s for n in lengths], outstanding)
        seconds = max(in_lanes_s, path.rtt_s + _seconds(path, sent) + device_s)
        rate = exchange.request_bytes / seconds if seconds > 0 else None
    else:
        seconds_each = sum(turn_of[n].seconds for n in lengths) / len(lengths) + device_s
        seconds = seconds_each
        rate = outstanding * exchange.request_bytes / len(lengths) / seconds_each if seconds_each > 0 else None
    if rate is None:
        return None
    return Bound(
        "turns",
        vms * rate,
        {
            "command_bytes": longest.length,
            "turns": longest.turns,
            "rtt_s": path.rtt_s,
            "transfer_s": longest.transfer_s,
            "r2ts": len(exchange.bursts(longest.length)),
            "unsolicited_bytes": exchange.unsolicited(longest.length),
            "commands_per_request": len(lengths),
            "outstanding": vms * outstanding,
            "request_bytes": exchange.request_bytes,
            "queue_depth": exchange.queue_depth,
            "seconds": seconds,
        },
    )


def bounds(path: Path, exchange: Exchange, window_bytes: float | None = None, vms: int = 1) -> list[Bound]:
    """All bounds that apply, the lowest first. `window_bytes` is the sum over all VMs."""
    bounds = [link(path, exchange), window(path, window_bytes), turns(path, exchange, vms)]
    return sorted((b for b in bounds if b is not None), key=lambda b: b.bytes_per_s)


def stream_bounds(path: Path, window_bytes: float | None = None) -> list[Bound]:
    """All bounds of plain TCP streams, the lowest first: link and window."""
    payload = path.tcp_bytes_per_s
    numbers = {"rate_bits_per_s": path.rate_bits_per_s, "tcp_bytes_per_s": payload, "iscsi_share": 1.0, "mtu": path.mtu}
    both = [None if payload is None else Bound("link", payload, numbers), window(path, window_bytes)]
    return sorted((b for b in both if b is not None), key=lambda b: b.bytes_per_s)


def _seconds(path: Path, octets: float) -> float:
    payload = path.tcp_bytes_per_s
    return octets / payload if payload else 0.0


def _lanes(seconds: list[float], lanes: int) -> float:
    """Return the time at which the last command ends if each starts as soon as a lane is free."""
    free = [0.0] * min(lanes, len(seconds))
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def _whole(number: float) -> float:
    nearest = round(number)
    return float(nearest) if abs(number - nearest) <= WHOLE else number
