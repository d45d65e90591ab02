"""The evidence for the bottleneck of a point (`hakaru.analysis.rules`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hakaru.analysis.bounds import Bound, Op
from hakaru.analysis.estimate import Estimate
from hakaru.analysis.hops import Passage, worst_port
from hakaru.analysis.network import Hop
from hakaru.analysis.rules.evidence import Cache, ClosedLoad, Evidence, Flow, Port, without_sums
from hakaru.kinds.vms.analysis.setup import OPS, Setup


@dataclass
class FlowValues:
    """Values of one direction of the data, by name, over repetitions."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, values: Mapping[str, float]) -> None:
        """Add the values of one repetition; NaN is left out."""
        for name, value in values.items():
            if math.isfinite(value):
                self.values.setdefault(name, []).append(value)

    def mean(self, name: str) -> float | None:
        """Mean over repetitions; None without values."""
        return float(np.mean(self.values[name])) if name in self.values else None


def evidence_of(
    setup: Setup,
    metrics: Mapping[str, Estimate],
    use: Mapping[str, Estimate],
    flows: Mapping[Op, FlowValues],
    passages: list[Passage],
    *,
    bounds: Sequence[Bound],
    lost: float,
    late_us: float | None,
    cache: Cache | None,
    device_s: float = 0.0,
) -> Evidence:
    """The evidence of one point. `lost`: packets that the fabric lost outside its model, mean over
    repetitions.

    `device_s`: time that a request spends in the array's timing model.
    """

    def mean(name: str) -> float | None:
        estimate = metrics.get(name)
        return estimate.mean if estimate else None

    directions = _flows(setup, flows)
    main: Op = directions[0].op if directions else "write"
    outstanding, port = mean("outstanding_mean"), worst_port(passages)
    lossy = [p.hop.entity for p in passages if p.carries == "data" and p.mean("dropped_loss") > 0]
    return Evidence(
        mb_per_s=mean("mb_per_s"),
        used=without_sums({name: estimate.mean for name, estimate in use.items()}),
        lost_packets=lost,
        late_us=late_us,
        dropped_frames=mean("dropped_frames"),
        dropped_by_lines=sum(p.mean("dropped_loss") for p in passages),
        loss_ops=_ops_of(setup, lambda hop: hop.entity in lossy),
        port=port,
        port_ops=None if port is None else _ops_of(setup, lambda hop: _is_at(hop, port)),
        flows=directions,
        throttled_links=frozenset(
            p.hop.resource for p in passages if p.carries == "data" and p.hop.held_bits_per_s is not None
        ),
        bounds=tuple(bounds),
        rtt_ms=setup.common_rtt_s * 1e3 or None,
        buffers_bytes=dict(zip(("send", "receive"), setup.buffers[main], strict=True)),
        connections=setup.sessions,
        r2ts_per_command=mean("r2ts_per_command"),
        wait_r2t_percent=mean("wait_r2t_percent"),
        cache=cache,
        guest_queue_percent=mean("guest_queue_percent"),
        host_queue_percent=mean("host_queue_percent"),
        load=None if setup.outstanding is None else _load(setup, outstanding, device_s, mean),
    )


def _ops_of(setup: Setup, is_passed: Callable[[Hop], bool]) -> frozenset[str]:
    """Directions of the data that pass such a hop. A hop in front of a router may carry both."""
    return frozenset(op for op in OPS if any(is_passed(hop) for hop in setup.hops(op)))


def _is_at(hop: Hop, port: Port) -> bool:
    return (hop.link, hop.source, hop.target) == (port.link, port.source, port.target)


def _load(
    setup: Setup,
    outstanding: float | None,
    device_s: float,
    mean: Callable[[str], float | None],
) -> ClosedLoad:
    """The load, with the rate that follows from round trips, transfers and devices if any of these
    is known, and all VMs have the same round-trip time.
    """
    depth = setup.outstanding or 0.0
    ways_differ = setup.path is not None and setup.path.ways_differ
    if ways_differ or (setup.rtt_s <= 0 and device_s <= 0):
        return ClosedLoad(depth, outstanding)
    turns = setup.turns(device_s)
    if turns is not None:
        return ClosedLoad(depth, outstanding, turns.bytes_per_s)
    iops, rate = mean("iops") or 0.0, (mean("mb_per_s") or 0.0) * 1e6
    if not iops:
        return ClosedLoad(depth, outstanding)
    # A mix has no closed form: assume one round trip and the transfer for each request.
    length, path = rate / iops, setup.path.tcp_bytes_per_s if setup.path else None
    return ClosedLoad(depth, outstanding, depth * length / (setup.rtt_s + device_s + (length / path if path else 0.0)))


def _flows(setup: Setup, flows: Mapping[Op, FlowValues]) -> tuple[Flow, ...]:
    """The directions of the data, the one with most payload first."""
    rates = {op: values.mean("mb_per_s") or 0.0 for op, values in flows.items()}
    total = sum(rates.values()) or 1.0
    return tuple(_flow(setup, op, rates[op] / total, flows[op]) for op in sorted(rates, key=lambda op: -rates[op]))


def _flow(setup: Setup, op: Op, share: float, values: FlowValues) -> Flow:
    rtts_ms = [ms for ms in (values.mean("rtt_ms"), setup.common_rtt_s * 1e3) if ms]
    return Flow(
        op,
        share,
        values.mean("mb_per_s") or 0.0,
        link_busy_percent=values.mean("link_busy_percent"),
        tcp_idle_percent=values.mean("tcp_idle_percent"),
        tcp_receive_window_percent=values.mean("tcp_receive_window_percent"),
        tcp_send_buffer_percent=values.mean("tcp_send_buffer_percent"),
        tcp_path_percent=values.mean("tcp_path_percent"),
        congestion_window_mb_mean=values.mean("congestion_window_mb_mean"),
        in_flight_mb_max=values.mean("in_flight_mb_max"),
        rtt_ms=max(rtts_ms, default=None),
        retransmitted_percent=values.mean("retransmitted_percent"),
        timeouts=values.mean("timeouts"),
        timeout_wait_s=values.mean("timeout_wait_s"),
        window_growth=values.mean("window_growth"),
    )
