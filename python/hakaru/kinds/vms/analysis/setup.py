"""What holds at one point of a load over a distance: the way of the data, what both sides agree on,
the buffers.

Made from `study.json` alone. A key that the study leaves out has the engines' default
(`hakaru/login_defaults.py`). The initiator reports the keys agreed on when it is ready
(`found.negotiated`); `of_negotiated` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hakaru import login_defaults
from hakaru.analysis.bounds import Bound, Exchange, Op, Path, bounds
from hakaru.analysis.network import Hop, at, hops_between, plan_of, size_of, study_at, touched
from hakaru.lab.plan import LabPlan
from hakaru.lab.plan.topology import together_bits_per_s

INITIATOR: dict[str, Any] = login_defaults.INITIATOR._asdict() | {"command_max": None, "commands": None, "sessions": 1}
TARGET: dict[str, Any] = {k: v for k, v in login_defaults.TARGET._asdict().items() if not k.endswith("_digest")}
"""An array agrees to digests always; a study does not configure that."""
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


def setup_at(study: Mapping[str, Any], factors: Mapping[str, Any], *, site: bool = False) -> Setup:
    """What holds at a point. `site`: the run used equipment that is there, so that the study's lab
    says nothing.
    """
    changed = study_at(study, factors)
    lab = changed.get("lab") if not site else None
    plan = plan_of(lab) if lab else None
    iscsi = (changed.get("load") or {}).get("iscsi") or {}
    initiator = INITIATOR | _given(iscsi.get("initiator"))
    target = TARGET | _given(iscsi.get("target"))
    vms = int(factors["vms"]) if isinstance(factors.get("vms"), int) else 1
    hosts, array = (plan.host_names[:vms], plan.array_name) if plan else ((), "array")
    exchange = _exchange(changed, factors, initiator, target)
    most = _buffer_max((lab or {}).get("tcp") or {})
    sides: dict[Op, tuple[dict[str, Any], dict[str, Any]]] = {
        "read": (target, initiator),
        "write": (initiator, target),
    }
    return Setup(
        hosts=hosts,
        array=array,
        vms=vms,
        ways=_ways(plan, hosts, array) if plan else {},
        path=_path(plan, hosts, array, exchange) if plan else None,
        exchange=exchange,
        outstanding=_outstanding(changed, factors, vms),
        in_flight_max=_in_flight_max(changed, factors, vms),
        sessions=int(initiator["sessions"] or 1),
        buffers={
            op: (_send_buffer(ends[0], most), _buffer(ends[1], "receive_buffer", most)) for op, ends in sides.items()
        },
        settings={place: at(changed, place) for place in touched(study)},
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


def _given(side: Any) -> dict[str, Any]:
    return {k: v for k, v in (side or {}).items() if v is not None}


def _pattern(changed: Mapping[str, Any], factors: Mapping[str, Any]) -> Mapping[str, Any]:
    return ((changed.get("load") or {}).get("patterns") or {}).get(str(factors.get("pattern"))) or {}


def _outstanding(changed: Mapping[str, Any], factors: Mapping[str, Any], vms: int) -> float | None:
    load = _pattern(changed, factors).get("load") or {}
    if load.get("kind") != "closed":
        return None
    return float(vms * int(factors.get("queue_depth") or load.get("queue_depth") or 1))


def _in_flight_max(changed: Mapping[str, Any], factors: Mapping[str, Any], vms: int) -> int | None:
    load = _pattern(changed, factors).get("load") or {}
    return vms * int(load["in_flight_max"]) if load.get("kind") == "open" else None


def _exchange(
    changed: Mapping[str, Any], factors: Mapping[str, Any], ours: dict[str, Any], theirs: dict[str, Any]
) -> Exchange | None:
    pattern = _pattern(changed, factors)
    load, sizes = pattern.get("load") or {}, pattern.get("sizes") or []
    reads = pattern.get("read_percent")
    if len(sizes) != 1 or reads not in (0, 100) or load.get("kind") != "closed":
        return None
    request = size_of(sizes[0].get("size"))
    if not request:
        return None
    burst = min(_size(ours, "max_burst_length"), _size(theirs, "max_burst_length"))
    sessions, commands = int(ours["sessions"] or 1), ours["commands"]
    # Each side's first burst is at most its own largest (RFC 7143, 13.14); the lesser of both
    # holds.
    first = min(_size(ours, "first_burst_length"), _size(theirs, "first_burst_length"), burst)
    return Exchange(
        op="read" if reads == 100 else "write",
        request_bytes=request,
        queue_depth=int(factors.get("queue_depth") or load.get("queue_depth") or 1),
        segment_bytes=_size(ours if reads == 100 else theirs, "max_recv_data_segment_length"),
        burst_bytes=burst,
        first_burst_bytes=first,
        initial_r2t=bool(ours["initial_r2t"] or theirs["initial_r2t"]),
        immediate_data=bool(ours["immediate_data"] and theirs["immediate_data"]),
        outstanding_r2ts=min(int(ours["max_outstanding_r2t"]), int(theirs["max_outstanding_r2t"])),
        command_bytes=size_of(ours["command_max"]),
        commands=int(commands) * sessions if commands else None,
        header_digest=bool(ours["header_digest"]),
        data_digest=bool(ours["data_digest"]),
    )


def _size(side: Mapping[str, Any], key: str) -> int:
    return size_of(side[key]) or 1


def _buffer_max(tcp: Mapping[str, Any]) -> int | None:
    """How far buffers grow by themselves, where that is known without asking the kernel."""
    most = size_of(tcp.get("buffer_max"))
    return most or (BUFFER_OF_2009 if str(tcp.get("stack")) == "2009" else None)


SUPER_FRAME = 64 << 10
"""TCP takes another packet of up to this much as long as the send buffer is not full: it may pass
its size by one.
"""


def _buffer(side: Mapping[str, Any], key: str, grows_to: int | None) -> int | None:
    """A socket's own size, which the kernel doubles for its bookkeeping and no longer lets grow;
    else the largest.
    """
    own = size_of((side.get("socket") or {}).get(key))
    return 2 * own if own else grows_to


def _send_buffer(side: Mapping[str, Any], grows_to: int | None) -> int | None:
    """The most that a sender's buffer holds."""
    size = _buffer(side, "send_buffer", grows_to)
    return size + SUPER_FRAME if size is not None and (side.get("socket") or {}).get("send_buffer") else size
