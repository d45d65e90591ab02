"""Closed forms: what a path, the iSCSI parameters and the buffers let a load reach at most. Pure,
no counters.

    link      the narrowest link's rate less the headers of Ethernet, IP, TCP and iSCSI
    window    what may be in flight, over the round-trip time
    turns     a command takes its round trips and its transfer; so many commands are outstanding

A write of s bytes, u of them unsolicited and the rest in r bursts that the target asks for (RFC
7143, 4.2.4 and 13.14):

    t = 0              the command leaves, then u
    x(u) + RTT         the first R2Ts are here, MaxOutstandingR2T of them; each burst that is all
                       there brings the next
    end of the last    + RTT: the response is here

so that with MaxOutstandingR2T 1 it takes (r + 1) round trips and the transfer of s. A read takes
one. With one request outstanding, its commands follow one another in as many lanes as commands may
be outstanding, and the next request waits for the last; with more, commands outstanding over the
time of one (Little) bounds the rate. Several VMs have that many times as much outstanding and in
flight. Each bound is one from above: queueing, processing, slow start and losses are not in it.
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
"""Round trips this near to a whole number are told as one."""


@dataclass(frozen=True)
class Path:
    """The way of the data: the rate that all VMs share, the frames on it, and the round-trip time
    of an empty way.
    """

    rate_bits_per_s: float | None
    mtu: int
    rtt_s: float

    @property
    def tcp_bytes_per_s(self) -> float | None:
        """TCP payload of full frames, back to back; None where the path has no rate."""
        if self.rate_bits_per_s is None:
            return None
        return tcp_payload_bits_per_s(self.rate_bits_per_s, self.mtu) / 8


@dataclass(frozen=True)
class Exchange:
    """The login keys that initiator and target agreed on, and the load on them. Lengths are in
    bytes.

    `command_bytes`: a request goes as commands of at most this (None: as one). `commands`:
    outstanding at most, over all sessions (None: no limit). `segment_bytes`:
    MaxRecvDataSegmentLength of whoever receives the data.
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
        """Data of each command of one request."""
        most = min(self.command_bytes or self.request_bytes, self.request_bytes)
        whole, rest = divmod(self.request_bytes, most)
        return [most] * whole + ([rest] if rest else [])

    @property
    def outstanding(self) -> int:
        """Commands outstanding at once."""
        asked = self.queue_depth * len(self.command_lengths)
        return min(asked, self.commands) if self.commands else asked

    def unsolicited(self, length: int) -> int:
        """Bytes of a write that go without an R2T: with the command, and after it where InitialR2T
        is No.
        """
        if self.op != "write":
            return 0
        immediate = min(length, self.first_burst_bytes, self.segment_bytes) if self.immediate_data else 0
        return immediate if self.initial_r2t else min(length, self.first_burst_bytes)

    def bursts(self, length: int) -> list[int]:
        """Lengths of the bursts that the target asks for, one R2T each."""
        left = length - self.unsolicited(length)
        if self.op != "write" or left <= 0:
            return []
        whole, rest = divmod(left, self.burst_bytes)
        return [self.burst_bytes] * whole + ([rest] if rest else [])

    def on_stream(self, length: int) -> int:
        """Bytes of TCP payload for so much data in the direction of the data: with the headers of
        its PDUs.
        """
        # Data without an R2T, each burst and a whole read are cut into PDUs by themselves; the
        # command of a write carries the first of them, where it may.
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
    """One command: its round trips (a whole number where nothing overlaps) and how long its data
    takes on the link.
    """

    length: int
    turns: float
    transfer_s: float
    rtt_s: float

    @property
    def seconds(self) -> float:
        """From the command to its response."""
        return self.turns * self.rtt_s + self.transfer_s


@dataclass(frozen=True)
class Bound:
    """One bound: `link`, `window` or `turns`, bytes of data per second, and the numbers that it is
    made of.
    """

    name: str
    bytes_per_s: float
    numbers: dict[str, Any]


def command(path: Path, exchange: Exchange, length: int) -> Turn:
    """Return the time of one command of this many bytes on an empty path."""
    rtt, transfer = path.rtt_s, _seconds(path, exchange.on_stream(length))
    bursts = exchange.bursts(length)
    if not bursts:
        return Turn(length, 1.0, transfer, rtt)
    # In seconds from the command; headers are spread over the data evenly.
    each = transfer / length
    end = exchange.unsolicited(length) * each
    asked = [end + rtt] * exchange.outstanding_r2ts
    for i, burst in enumerate(bursts):
        end = max(end, asked[i]) + burst * each
        asked.append(end + rtt)
    waited = end + rtt - transfer
    return Turn(length, _whole(waited / rtt) if rtt else 1.0 + len(bursts), transfer, rtt)


def link(path: Path, exchange: Exchange) -> Bound | None:
    """Data that the narrowest link carries; None where it has no rate."""
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
    """All windows over the round-trip time; None without a window or a distance."""
    if not window_bytes or path.rtt_s <= 0:
        return None
    numbers = {"window_bytes": window_bytes, "rtt_s": path.rtt_s}
    return Bound("window", window_bytes / path.rtt_s, numbers)


def turns(path: Path, exchange: Exchange, vms: int = 1) -> Bound | None:
    """Commands of `vms` alike that wait for their round trips; None where nothing takes any
    time.
    """
    lengths, outstanding = exchange.command_lengths, exchange.outstanding
    each = {length: command(path, exchange, length) for length in set(lengths)}
    longest = each[max(lengths)]
    sent = sum(exchange.on_stream(length) for length in lengths)
    if exchange.queue_depth == 1:
        # The next request waits for the last command of this one.
        seconds = max(_lanes([each[n].seconds for n in lengths], outstanding), path.rtt_s + _seconds(path, sent))
        rate = exchange.request_bytes / seconds if seconds > 0 else None
    else:
        alone = sum(each[n].seconds for n in lengths) / len(lengths)
        seconds = alone
        rate = outstanding * exchange.request_bytes / len(lengths) / alone if alone > 0 else None
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
    """Every bound that there is, the lowest first. `window_bytes`: of all VMs together."""
    bounds = [link(path, exchange), window(path, window_bytes), turns(path, exchange, vms)]
    return sorted((b for b in bounds if b is not None), key=lambda b: b.bytes_per_s)


def _seconds(path: Path, octets: float) -> float:
    payload = path.tcp_bytes_per_s
    return octets / payload if payload else 0.0


def _lanes(seconds: list[float], lanes: int) -> float:
    """Return the end of the last command, if each begins as soon as a lane is free."""
    free = [0.0] * min(lanes, len(seconds))
    for one in seconds:
        heapq.heappush(free, heapq.heappop(free) + one)
    return max(free)


def _whole(number: float) -> float:
    nearest = round(number)
    return float(nearest) if abs(number - nearest) <= WHOLE else number
