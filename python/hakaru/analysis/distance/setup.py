"""What holds at one point of a load over a distance: the way of the data, what both sides agree on, the buffers.

Made from `study.json` alone. A key that the study leaves out has the engines' default (`hakaru/login_defaults.py`).
The initiator reports the keys agreed on when it is ready (`found.negotiated`); `of_negotiated` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hakaru import login_defaults
from hakaru.analysis.distance.bounds import Exchange, Path
from hakaru.analysis.network import Hop, at, names, seconds_of, size_of, study_at, touched, way

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


@dataclass(frozen=True)
class Setup:
    """A point: which way the data goes over which hops, what is asked, and what is agreed on."""

    host: str
    array: str
    path: Path
    exchange: Exchange | None
    """None where no closed form is known: requests of several sizes, reads mixed with writes, open loads, many VMs."""
    hops: tuple[Hop, ...]
    """In the direction of the data."""
    sessions: int
    send_buffer_bytes: int | None
    """How large the sender's buffer may be; None where the study leaves it to the kernel."""
    receive_buffer_bytes: int | None
    settings: dict[str, Any]

    @property
    def sender(self) -> str:
        """Node that sends the data."""
        return self.array if self.exchange is not None and self.exchange.op == "read" else self.host

    @property
    def window_bytes(self) -> float | None:
        """The smaller of both buffers, all sessions together: no more can be in flight."""
        known = [b for b in (self.send_buffer_bytes, self.receive_buffer_bytes) if b is not None]
        return float(min(known) * self.sessions) if known else None


def is_distance(study: Mapping[str, Any]) -> bool:
    """Whether VMs load an array over a lab that is described link by link."""
    return bool((study.get("lab") or {}).get("links"))


def setup_at(study: Mapping[str, Any], factors: Mapping[str, Any]) -> Setup:
    """What holds at a point. Parts that the study does not have are left empty, as for any report of a damaged run."""
    changed = study_at(study, factors)
    lab = changed.get("lab") or {}
    hosts, arrays = names(lab.get("hosts"), "host"), names(lab.get("arrays"), "array")
    host, array = (hosts or [""])[0], (arrays or ["array"])[0]
    iscsi = (changed.get("load") or {}).get("iscsi") or {}
    initiator = INITIATOR | _given(iscsi.get("initiator"))
    target = TARGET | _given(iscsi.get("target"))
    exchange = _exchange(changed, factors, initiator, target, len(hosts))
    reads = exchange is not None and exchange.op == "read"
    ends = (array, host) if reads else (host, array)
    links = lab.get("links") or {}
    hops = way(links, set(lab.get("switches") or {}), lab, *ends)
    narrow = min((h for h in hops if h.rate_bits_per_s is not None), key=lambda h: h.rate_bits_per_s or 0, default=None)
    rtt = 2 * sum(seconds_of((links.get(h.link) or {}).get("delay")) for h in hops)
    rate = narrow.rate_bits_per_s if narrow else None
    path = Path(rate, narrow.mtu if narrow else int(lab.get("mtu") or 1500), rtt)
    sides = (target, initiator) if reads else (initiator, target)
    most = _buffer_max(lab.get("tcp") or {})
    return Setup(
        host=host,
        array=array,
        path=path,
        exchange=exchange,
        hops=hops,
        sessions=int(initiator["sessions"] or 1),
        send_buffer_bytes=_buffer(sides[0], "send_buffer", most),
        receive_buffer_bytes=_buffer(sides[1], "receive_buffer", most),
        settings={place: at(changed, place) for place in touched(study)},
    )


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


def _exchange(
    changed: Mapping[str, Any], factors: Mapping[str, Any], ours: dict[str, Any], theirs: dict[str, Any], hosts: int
) -> Exchange | None:
    pattern = ((changed.get("load") or {}).get("patterns") or {}).get(str(factors.get("pattern"))) or {}
    load, sizes = pattern.get("load") or {}, pattern.get("sizes") or []
    reads = pattern.get("read_percent")
    if len(sizes) != 1 or reads not in (0, 100) or load.get("kind") != "closed" or hosts != 1:
        return None
    if factors.get("vms") != 1:
        return None
    request = size_of(sizes[0].get("size"))
    if not request:
        return None
    burst = min(_size(ours, "max_burst_length"), _size(theirs, "max_burst_length"))
    sessions, commands = int(ours["sessions"] or 1), ours["commands"]
    # Each side's first burst is at most its own largest (RFC 7143, 13.14); the lesser of both holds.
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


def _buffer(side: Mapping[str, Any], key: str, grows_to: int | None) -> int | None:
    """A socket's own size, which the kernel doubles for its bookkeeping and no longer lets grow; else the largest."""
    own = size_of((side.get("socket") or {}).get(key))
    return 2 * own if own else grows_to
