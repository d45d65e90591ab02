"""The configuration of one point of a load of VMs: the data path, the negotiated login keys, and
the buffers.

Computed from the study alone. The initiator reports the negotiated keys when it is ready
(`found.negotiated`); `of_negotiated` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hakaru.analysis.bounds import Bound, Exchange, Op, Path, bounds, stream_bounds, turns
from hakaru.analysis.network import Hop, hops_of, settings_of
from hakaru.kinds.vms.analysis.path_events import PathLoad
from hakaru.kinds.vms.entities import TOTAL
from hakaru.kinds.vms.hypervisor import limits_of
from hakaru.kinds.vms.iscsi import InitiatorEnd, Socket, TargetEnd
from hakaru.kinds.vms.load import Closed, Open, Pattern, VmGroup, VmsLoad, load_at
from hakaru.lab.model import TcpSpec
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.lab.plan.topology import Way, together_bits_per_s
from hakaru.study import Study

BUFFER_OF_2009 = 4 << 20
"""Size up to which TCP's buffers grow automatically with `lab.tcp.stack: 2009`
(docs/reference/lab.md).
"""

NEGOTIATED = {
    "max_burst_length": "burst_bytes",
    "first_burst_length": "first_burst_bytes",
    "initial_r2t": "initial_r2t",
    "immediate_data": "immediate_data",
    "max_outstanding_r2t": "outstanding_r2ts",
    "header_digest": "header_digest",
    "data_digest": "data_digest",
}
"""Key in the initiator's report on its sessions (`found.negotiated`) → field of `Exchange`."""
SEND_SEGMENT = "peer_max_recv_data_segment_length"
"""Key of the target's MaxRecvDataSegmentLength, which applies to writes only."""

SAME_DELAY = 1.05
"""Largest ratio of the delays of two ways that count as equal."""


OPS: tuple[Op, Op] = ("read", "write")


@dataclass(frozen=True)
class Setup:
    """The configuration of a point: the paths in both directions, the requests, and the negotiated
    parameters.
    """

    hosts: tuple[str, ...]
    """Hosts that have a VM."""
    array: str
    vms: int
    paths: Mapping[Op, tuple[tuple[Hop, ...], ...]]
    """Hops of each path between a host and the array, in the direction of the data; empty if the
    lab is unknown (a site).
    """
    path: Path | None
    exchange: Exchange | None
    """None if no closed form is known (several request sizes, a mix of reads and writes, an open
    load) and for plain streams.
    """
    is_stream: bool
    """Whether the VMs send plain TCP streams instead of iSCSI."""
    conditions: str
    """The lab and the sockets as text. Points with the same text have the same path and TCP."""
    outstanding: float | None
    """Requests that all VMs of a closed load keep outstanding; None for an open load."""
    in_flight_max: Mapping[str, int]
    """Requests that VMs with an open load may have in flight, by the initiator's entity that sums
    them up: a group, or all VMs of a load without groups. Empty for a closed load.
    """
    sessions: int
    """Sessions of all VMs."""
    buffers: Mapping[Op, tuple[int | None, int | None]]
    """Direction → maximum sizes of the buffers of the sender and of the receiver; None if the
    kernel decides.
    """
    settings: dict[str, Any]
    groups: Mapping[str, VmGroup] = field(default_factory=dict)
    """Groups of VMs with roles, by name; empty without groups."""
    caps: tuple[str, ...] = ()
    """Names of the caps of the array."""
    shares: tuple[str, ...] = ()
    """Names of the classes with a share of the accesses in flight; empty without shares."""
    failover_timers_ms: float | None = None
    """Sum of the timers that a path's failure takes; None if each VM has one path."""
    path_load: PathLoad | None = None
    """Properties of a load with events; None without events."""

    @property
    def rtt_s(self) -> float:
        """Round-trip time of the idle path, the longest if ways differ; 0 if it is unknown."""
        return self.path.rtt_s if self.path is not None else 0.0

    @property
    def common_rtt_s(self) -> float:
        """Round-trip time of the idle path of every VM; 0 if it is unknown or ways differ."""
        return 0.0 if self.path is None or self.path.ways_differ else self.path.rtt_s

    def hops(self, op: Op) -> tuple[Hop, ...]:
        """Every channel that data of this direction passes, each once."""
        return tuple(dict.fromkeys(hop for path in self.paths.get(op, ()) for hop in path))

    def window_bytes(self, op: Op) -> float | None:
        """The receiver's buffers of all sessions of all VMs: TCP has at most this much in flight.
        None if the kernel decides.

        A sender's buffer gives no bound. Linux appends to a packet that is partly sent without
        asking how full the buffer is: over 200 KB in flight were measured with a buffer of 32 KiB.
        """
        buffer = self.buffers[op][1]
        return None if buffer is None else float(buffer * self.sessions)

    def bounds(self) -> list[Bound]:
        """Closed forms of the point, the lowest first; none if the path is unknown or the load has
        none.
        """
        return self.bounds_at(self.rtt_s)

    def bounds_at(self, rtt_s: float) -> list[Bound]:
        """The closed forms at another round-trip time."""
        path = None if self.path is None else replace(self.path, rtt_s=rtt_s)
        if path is not None and self.is_stream:
            return stream_bounds(path, self.window_bytes("write"))
        if path is None or self.exchange is None:
            return []
        return bounds(path, self.exchange, self.window_bytes(self.exchange.op), self.vms)

    def turns(self, device_s: float) -> Bound | None:
        """The closed form `turns`, if a request spends `device_s` in the array's devices in all of
        its commands together. None if the path is unknown, ways differ, or the load has no closed
        form.
        """
        if self.path is None or self.exchange is None:
            return None
        return turns(self.path, self.exchange, self.vms, device_s / len(self.exchange.command_lengths))


def setup_at(study: Study, changed: Study, *, site: bool = False) -> Setup:
    """The setup of a point; `changed` is the study with the levels of the point.

    `site`: the run used existing equipment, so the lab of the study does not apply.
    """
    load, plan = load_at(changed), None if site else plan_lab(changed.lab)
    vms = load.count or 1
    hosts, array = (load.used_hosts(plan.host_names) or plan.host_names[:1], plan.array_name) if plan else ((), "array")
    is_stream = load.transport == "stream"
    exchange = None if is_stream else exchange_of(load)
    buffer_max = None if site else _buffer_max(changed.lab.tcp)
    initiator, target = load.iscsi.initiator, load.iscsi.target
    sides: dict[Op, tuple[Socket, Socket]] = {
        "read": (target.socket, initiator.socket),
        "write": (initiator.socket, target.socket),
    }
    return Setup(
        hosts=hosts,
        array=array,
        vms=vms,
        paths=_paths(plan, load, hosts, array) if plan else {},
        path=_path(plan, load, hosts, array, exchange) if plan else None,
        exchange=exchange,
        is_stream=is_stream,
        conditions=_conditions(changed, initiator, target),
        outstanding=None if is_stream else _outstanding(load, vms),
        in_flight_max={} if is_stream else _in_flight_max(load, vms),
        sessions=load.sessions(len(hosts) or 1, len(load.used_portals(plan.portals())) if plan else 1),
        buffers={
            op: (_buffer(sender.send_buffer, buffer_max), _buffer(receiver.receive_buffer, buffer_max))
            for op, (sender, receiver) in sides.items()
        },
        settings=settings_of(study, changed),
        groups=load.groups,
        caps=tuple(cap.name for array in changed.storage.values() for cap in array.caps),
        failover_timers_ms=None if load.paths_per_vm is None else load.multipath.failover_ns / 1e6,
        path_load=_path_load(load),
        shares=tuple(each.name for array in changed.storage.values() if array.shares for each in array.shares.classes),
    )


def _path_load(load: VmsLoad) -> PathLoad | None:
    if not load.events:
        return None
    is_closed = all(isinstance(member.pattern.load, Closed) for member in load.members())
    events = sorted(load.events, key=lambda event: event.at)
    return PathLoad(
        load.multipath,
        stands_still=is_closed and load.multipath.policy == "round_robin",
        transitions_ns=tuple(event.transition for event in events),
    )


def _conditions(changed: Study, initiator: InitiatorEnd, target: TargetEnd) -> str:
    load = load_at(changed)
    sockets = f"{initiator.socket!r} {target.socket!r}"
    used = f"{load.count} VMs, {initiator.sessions} sessions, {load.paths} paths"
    return f"{changed.lab.model_dump_json()} {sockets} {used}"


def _used_ways(plan: LabPlan, load: VmsLoad, source: str, destination: str) -> list[Way]:
    """The paths between a host and the array, in either direction, that the VMs use."""
    portals = {portal.rpartition(":")[0] for portal in load.used_portals(plan.portals())}
    ways = plan.ways(source, destination)
    return [way for way in ways if not portals.isdisjoint({way.source.address, way.destination.address})]


def _paths(plan: LabPlan, load: VmsLoad, hosts: Sequence[str], array: str) -> dict[Op, tuple[tuple[Hop, ...], ...]]:
    ends: dict[Op, list[tuple[str, str]]] = {
        "read": [(array, host) for host in hosts],
        "write": [(host, array) for host in hosts],
    }
    return {
        op: tuple(hops_of(plan, way, start) for start, end in pairs for way in _used_ways(plan, load, start, end))
        for op, pairs in ends.items()
    }


def _path(plan: LabPlan, load: VmsLoad, hosts: Sequence[str], array: str, exchange: Exchange | None) -> Path | None:
    """The rate that all hosts share, the MTU of the way with the largest frames, and the round-trip
    time of the longest way. Each bounds the rate from above, except the round-trip time if ways
    differ (`Path.ways_differ`).
    """
    reads = exchange is not None and exchange.op == "read"
    pairs = [(array, host) if reads else (host, array) for host in hosts]
    paths = [way for pair in pairs for way in _used_ways(plan, load, *pair)]
    if not paths:
        return None
    mtu = max(min(line.mtu for line in path.hops) for path in paths)
    rate, delays_us = together_bits_per_s(paths), [path.delay_us for path in paths]
    return Path(
        None if rate is None else float(rate),
        mtu,
        2 * max(delays_us) / 1e6,
        ways_differ=max(delays_us) > SAME_DELAY * min(delays_us),
    )


def of_negotiated(setup: Setup, agreed: Mapping[str, Any]) -> Setup:
    """Return the setup with the negotiated keys that the initiator reported instead of those
    derived from the study.
    """
    exchange = setup.exchange
    if exchange is None:
        return setup
    known = NEGOTIATED | ({SEND_SEGMENT: "segment_bytes"} if exchange.op == "write" else {})
    reported: dict[str, Any] = {}
    for key, name in known.items():
        value, kind = agreed.get(key), type(getattr(exchange, name))
        if isinstance(value, (int, float)) and (kind is bool) == isinstance(value, bool):
            reported[name] = kind(value)
    return replace(setup, exchange=replace(exchange, **reported)) if reported else setup


def _pattern(load: VmsLoad) -> Pattern | None:
    """The pattern of the point with its queue depth; None if the study does not define it."""
    return load.point_pattern if load.pattern in load.patterns else None


def _outstanding(load: VmsLoad, vms: int) -> float | None:
    if load.groups:
        pacings = [member.pattern.load for member in load.members()]
        depths = [pacing.queue_depth for pacing in pacings if isinstance(pacing, Closed)]
        return float(sum(depths)) if len(depths) == len(pacings) else None
    pattern = _pattern(load)
    return float(vms * pattern.load.queue_depth) if pattern and isinstance(pattern.load, Closed) else None


def _in_flight_max(load: VmsLoad, vms: int) -> dict[str, int]:
    if not load.groups:
        pattern = _pattern(load)
        return {TOTAL: vms * pattern.load.in_flight_max} if pattern and isinstance(pattern.load, Open) else {}
    limits: dict[str, int] = {}
    for member in load.members():
        if isinstance(member.pattern.load, Open):
            entity = f"{TOTAL}/{member.group}"
            limits[entity] = limits.get(entity, 0) + member.pattern.load.in_flight_max
    return limits


def exchange_of(load: VmsLoad) -> Exchange | None:
    """One request of the load; None if no closed form is known (`Setup.exchange`)."""
    pattern = _pattern(load)
    if pattern is None or len(pattern.sizes) != 1 or pattern.read_percent not in (0, 100):
        return None
    if not isinstance(pattern.load, Closed):
        return None
    initiator, target = load.iscsi.initiator, load.iscsi.target
    reads = pattern.read_percent == 100
    burst = min(initiator.max_burst_length, target.max_burst_length)
    guest = limits_of(load.hypervisor).guest
    of_guest = guest and guest.in_flight_of(pattern.sizes[0].size)
    of_sessions = initiator.commands and initiator.commands * initiator.sessions
    return Exchange(
        op="read" if reads else "write",
        request_bytes=pattern.sizes[0].size,
        queue_depth=pattern.load.queue_depth,
        segment_bytes=(initiator if reads else target).max_recv_data_segment_length,
        burst_bytes=burst,
        # FirstBurstLength must not exceed MaxBurstLength (RFC 7143, 13.14); the smaller of both
        # sides applies.
        first_burst_bytes=min(initiator.first_burst_length, target.first_burst_length, burst),
        initial_r2t=initiator.initial_r2t or target.initial_r2t,
        immediate_data=initiator.immediate_data and target.immediate_data,
        outstanding_r2ts=min(initiator.max_outstanding_r2t, target.max_outstanding_r2t),
        command_bytes=min((n for n in (initiator.command_max, guest and guest.request_bytes_max) if n), default=None),
        commands=min((n for n in (of_sessions, of_guest) if n), default=None),
        header_digest=initiator.header_digest,
        data_digest=initiator.data_digest,
    )


def _buffer_max(tcp: TcpSpec) -> int | None:
    """Return the size up to which buffers grow automatically, or None if only the kernel knows
    it.
    """
    return tcp.buffer_max or (BUFFER_OF_2009 if tcp.stack == "2009" else None)


def _buffer(configured: int | None, growth_max: int | None) -> int | None:
    """Maximum size of a socket's buffer. A configured size is doubled by the kernel for its
    bookkeeping and no longer grows automatically. Otherwise, the size up to which it grows.
    """
    return 2 * configured if configured else growth_max
