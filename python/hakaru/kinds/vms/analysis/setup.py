"""The setting of one point of a load over a distance: the way of the data, the keys that both sides
agreed on, and the buffers.

Made from the study alone. The initiator reports the keys agreed on when it is ready
(`found.negotiated`); `of_negotiated` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hakaru.analysis.bounds import Bound, Exchange, Op, Path, bounds
from hakaru.analysis.network import Hop, hops_between, settings_of
from hakaru.kinds.vms.iscsi import Socket
from hakaru.kinds.vms.load import Closed, Open, Pattern, VmsLoad, load_at
from hakaru.lab.model import TcpSpec
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.lab.plan.topology import together_bits_per_s
from hakaru.study import Study

BUFFER_OF_2009 = 4 << 20
"""How far TCP's buffers grow by themselves in `lab.tcp.stack: 2009` (docs/reference/lab.md)."""

NEGOTIATED = {
    "max_burst_length": "burst_bytes",
    "first_burst_length": "first_burst_bytes",
    "initial_r2t": "initial_r2t",
    "immediate_data": "immediate_data",
    "max_outstanding_r2t": "outstanding_r2ts",
    "header_digest": "header_digest",
    "data_digest": "data_digest",
}
"""What the initiator says of its sessions (`found.negotiated`) → field of an `Exchange`."""
SEND_SEGMENT = "peer_max_recv_data_segment_length"
"""MaxRecvDataSegmentLength of the target: of writes alone."""


OPS: tuple[Op, Op] = ("read", "write")


@dataclass(frozen=True)
class Setup:
    """A point: the ways of the data in both directions, the requests, and the parameters that both
    ends agree on.
    """

    hosts: tuple[str, ...]
    """Hosts that have a VM."""
    array: str
    vms: int
    ways: Mapping[Op, tuple[tuple[Hop, ...], ...]]
    """One per host and path in the direction of the data; none where the lab is not known (a
    site).
    """
    path: Path | None
    exchange: Exchange | None
    """None where no closed form is known: requests of several sizes, reads mixed with writes, open
    loads.
    """
    outstanding: float | None
    """Requests that all VMs of a closed load keep outstanding; None for an open load."""
    in_flight_max: int | None
    """Requests that all VMs of an open load may have in flight; None for a closed load."""
    sessions: int
    """Of each VM."""
    buffers: Mapping[Op, tuple[int | None, int | None]]
    """Direction → how large the buffers of the sender and of the receiver may be; None: left to the
    kernel.
    """
    settings: dict[str, Any]

    @property
    def rtt_s(self) -> float:
        """Round-trip time of the empty way; 0 where it is not known."""
        return self.path.rtt_s if self.path is not None else 0.0

    def hops(self, op: Op) -> tuple[Hop, ...]:
        """Every channel that data of this direction passes, each once."""
        return tuple(dict.fromkeys(hop for way in self.ways.get(op, ()) for hop in way))

    def window_bytes(self, op: Op) -> float | None:
        """The smaller of both buffers, all sessions of all VMs together: no more can be in
        flight.
        """
        known = [b for b in self.buffers[op] if b is not None]
        return float(min(known) * self.sessions * self.vms) if known else None

    def bounds(self) -> list[Bound]:
        """Closed forms of the point, the lowest first; none where path or load has none."""
        if self.path is None or self.exchange is None:
            return []
        return bounds(self.path, self.exchange, self.window_bytes(self.exchange.op), self.vms)


def setup_at(study: Study, changed: Study, *, site: bool = False) -> Setup:
    """The setup of a point; `changed` is the study with the levels of the point.

    `site`: the run used existing equipment, so the lab of the study does not apply.
    """
    load, plan = load_at(changed), None if site else plan_lab(changed.lab)
    vms = load.vms or 1
    hosts, array = (plan.host_names[:vms], plan.array_name) if plan else ((), "array")
    exchange = _exchange(load)
    most = None if site else _buffer_max(changed.lab.tcp)
    initiator, target = load.iscsi.initiator, load.iscsi.target
    sides: dict[Op, tuple[Socket, Socket]] = {
        "read": (target.socket, initiator.socket),
        "write": (initiator.socket, target.socket),
    }
    return Setup(
        hosts=hosts,
        array=array,
        vms=vms,
        ways=_ways(plan, hosts, array) if plan else {},
        path=_path(plan, hosts, array, exchange) if plan else None,
        exchange=exchange,
        outstanding=_outstanding(load, vms),
        in_flight_max=_in_flight_max(load, vms),
        sessions=initiator.sessions,
        buffers={
            op: (_send_buffer(sender.send_buffer, most), _buffer(receiver.receive_buffer, most))
            for op, (sender, receiver) in sides.items()
        },
        settings=settings_of(study, changed),
    )


def _ways(plan: LabPlan, hosts: Sequence[str], array: str) -> dict[Op, tuple[tuple[Hop, ...], ...]]:
    ends: dict[Op, list[tuple[str, str]]] = {
        "read": [(array, host) for host in hosts],
        "write": [(host, array) for host in hosts],
    }
    return {op: tuple(way for pair in pairs for way in hops_between(plan, *pair)) for op, pairs in ends.items()}


def _path(plan: LabPlan, hosts: Sequence[str], array: str, exchange: Exchange | None) -> Path | None:
    """The rate that all hosts share, the smallest MTU, and the round trip of the longest way."""
    reads = exchange is not None and exchange.op == "read"
    ways = [way for host in hosts for way in (plan.ways(array, host) if reads else plan.ways(host, array))]
    if not ways:
        return None
    mtu = min(line.mtu for way in ways for line in way.hops)
    rate = together_bits_per_s(ways)
    return Path(None if rate is None else float(rate), mtu, 2 * max(way.delay_us for way in ways) / 1e6)


def of_negotiated(setup: Setup, agreed: Mapping[str, Any]) -> Setup:
    """With what the initiator says was agreed on, in place of what follows from the study."""
    exchange = setup.exchange
    if exchange is None:
        return setup
    known = NEGOTIATED | ({SEND_SEGMENT: "segment_bytes"} if exchange.op == "write" else {})
    told: dict[str, Any] = {}
    for key, field in known.items():
        value, kind = agreed.get(key), type(getattr(exchange, field))
        if isinstance(value, (int, float)) and (kind is bool) == isinstance(value, bool):
            told[field] = kind(value)
    return replace(setup, exchange=replace(exchange, **told)) if told else setup


def _pattern(load: VmsLoad) -> Pattern | None:
    """The pattern of the point with its queue depth; None where the study lacks it."""
    return load.asked if load.pattern in load.patterns else None


def _outstanding(load: VmsLoad, vms: int) -> float | None:
    pattern = _pattern(load)
    return float(vms * pattern.load.queue_depth) if pattern and isinstance(pattern.load, Closed) else None


def _in_flight_max(load: VmsLoad, vms: int) -> int | None:
    pattern = _pattern(load)
    return vms * pattern.load.in_flight_max if pattern and isinstance(pattern.load, Open) else None


def _exchange(load: VmsLoad) -> Exchange | None:
    pattern = _pattern(load)
    if pattern is None or len(pattern.sizes) != 1 or pattern.read_percent not in (0, 100):
        return None
    if not isinstance(pattern.load, Closed):
        return None
    ours, theirs = load.iscsi.initiator, load.iscsi.target
    reads = pattern.read_percent == 100
    burst = min(ours.max_burst_length, theirs.max_burst_length)
    return Exchange(
        op="read" if reads else "write",
        request_bytes=pattern.sizes[0].size,
        queue_depth=pattern.load.queue_depth,
        segment_bytes=(ours if reads else theirs).max_recv_data_segment_length,
        burst_bytes=burst,
        # Each side's first burst is at most its own largest (RFC 7143, 13.14); the lesser of both
        # holds.
        first_burst_bytes=min(ours.first_burst_length, theirs.first_burst_length, burst),
        initial_r2t=ours.initial_r2t or theirs.initial_r2t,
        immediate_data=ours.immediate_data and theirs.immediate_data,
        outstanding_r2ts=min(ours.max_outstanding_r2t, theirs.max_outstanding_r2t),
        command_bytes=ours.command_max,
        commands=ours.commands * ours.sessions if ours.commands else None,
        header_digest=ours.header_digest,
        data_digest=ours.data_digest,
    )


def _buffer_max(tcp: TcpSpec) -> int | None:
    """Return the size up to which buffers grow automatically, if it is known without asking the
    kernel.
    """
    return tcp.buffer_max or (BUFFER_OF_2009 if tcp.stack == "2009" else None)


SUPER_FRAME = 64 << 10
"""TCP takes another packet of up to this much as long as the send buffer is not full: it may pass
its size by one.
"""


def _buffer(own: int | None, grows_to: int | None) -> int | None:
    """A socket's own size, which the kernel doubles for its bookkeeping and no longer lets grow;
    else the largest.
    """
    return 2 * own if own else grows_to


def _send_buffer(own: int | None, grows_to: int | None) -> int | None:
    """The most that a sender's buffer holds."""
    size = _buffer(own, grows_to)
    return size + SUPER_FRAME if size is not None and own else size
