"""The evidence from which rules judge a point: typed means over its repetitions. It needs no
counters and no files.

Analysis fills in what a run measured. All other fields keep their defaults, which mean "not
measured" and never "zero".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hakaru.analysis.bounds import Bound
from hakaru.analysis.rules.limits import SUMS, is_test_setup, limit_of

FLOW_SHARE_MIN = 0.25
"""Smallest share of the payload with which a direction takes part in the verdict."""


@dataclass(frozen=True)
class Flow:
    """One direction of the data: `read` from the arrays to the hosts, `write` from the hosts to the
    arrays.

    Percentages refer to the measuring time; the four shares of TCP add up to 100. None means not
    measured.
    """

    op: Literal["read", "write"]
    share: float
    """Share of all payload bytes, 0 to 1."""
    mb_per_s: float
    link_busy_percent: float | None = None
    """Busy time of the busiest link in this direction."""
    tcp_idle_percent: float | None = None
    tcp_receive_window_percent: float | None = None
    tcp_send_buffer_percent: float | None = None
    tcp_path_percent: float | None = None
    congestion_window_mb_mean: float | None = None
    in_flight_mb_max: float | None = None
    rtt_ms: float | None = None
    """TCP's own estimate, which includes queueing, and at least the round trip of the idle path.
    Each sender (a VM at an initiator, or the array) reports its slowest connection; this is the
    mean of the senders, because it divides the sum of their windows.
    """
    retransmitted_percent: float | None = None
    timeouts: float | None = None
    timeout_wait_s: float | None = None
    retransmits: float | None = None
    """Segments that the senders' kernels retransmitted on all connections. Only for connections
    that are not counted one by one.
    """
    window_growth: float | None = None
    """Mean congestion window of the last third of the measuring phase over that of the first third.
    """

    @property
    def unused_percent(self) -> float | None:
        """Time in which the busiest link of this direction sent nothing, in percent."""
        return None if self.link_busy_percent is None else max(0.0, 100.0 - self.link_busy_percent)

    @property
    def lossy(self) -> bool:
        """Whether TCP retransmitted data or had a retransmission timeout."""
        return any((self.retransmitted_percent, self.retransmits, self.timeouts))


@dataclass(frozen=True)
class Port:
    """The port that dropped and marked most data frames, with its counters (means over
    repetitions).
    """

    link: str
    source: str
    target: str
    leg: str
    rate_bits_per_s: float | None
    queue_bytes: int | None
    queue_peak_bytes: float
    frames: float
    dropped: float
    """Frames dropped by a full queue or early (RED)."""
    marked: float
    sender_rate_bits_per_s: float | None = None
    """Rate of the fastest link before the port, at which bursts arrive."""


@dataclass(frozen=True)
class Cache:
    """The write cache of an array's timing model."""

    pending_percent: float
    """Write-pending bytes in percent of their limit."""
    stalled_percent: float
    """Time in which writes waited for space, in percent of the time that requests spent in the
    cache.
    """


@dataclass(frozen=True)
class ClosedLoad:
    """A load that keeps a number of requests outstanding.

    `asked` is that number, `outstanding` the measured mean. `rate_bytes_per_s` is the rate that
    follows from Little's law and the known time of a request: for VMs, that of round trips,
    transfer and the array's devices; for a copy, the measured time of a block. None if no such time
    is known.
    """

    asked: float
    outstanding: float | None = None
    rate_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Copying:
    """Evidence that only a copy has: jobs, blocks, and the time spent waiting for retransmission
    timers.
    """

    jobs: int
    streams: int
    depth: int
    block_bytes: int
    path_percent: float | None
    read_latency_ms_mean: float | None
    write_latency_ms_mean: float | None
    timeout_wait_percent: float | None


@dataclass(frozen=True)
class Forwarding:
    """Evidence that only a search for the highest rate of frames has."""

    verdict: str
    """How far the search came, a `hakaru.search.Verdict`."""
    tester_percent: float | None
    """The rate found, in percent of what the tester sends and counts without a device."""
    busiest_cpu: str | None
    busiest_cpu_percent: float | None
    """The busiest processor in the trials next to the result, and its use."""
    machine_percent: float | None
    at_input_percent: float | None
    """Share of the lost frames that found the queue in front of the device full: the device's end
    of the cable, or the TAPs and bridges in front of a guest.
    """
    generator_percent: float | None = None
    """CPU use of the busiest thread of the tester in these trials."""
    in_device_percent: float | None = None
    """Share of the lost frames that the device accepted and did not forward."""
    cap: str | None = None
    """Origin of the highest rate that was tried; None if the search did not reach it."""
    cap_frames_per_s: float | None = None
    """That rate."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of one point. `used`: resource → percent, without the resources that only sum up
    others.
    """

    mb_per_s: float | None
    used: Mapping[str, float]
    lost_packets: float = 0.0
    """Packets that the emulated network lost outside its model."""
    late_us: float | None = None
    """99th percentile of the lateness of frames in the emulated network, µs."""
    dropped_frames: float | None = None
    """Frames that the emulated network dropped according to its model; None if drops were not
    counted.
    """
    dropped_by_lines: float = 0.0
    """Those of `dropped_frames` that are due to the configured loss of a line."""
    loss_ops: frozenset[str] | None = None
    """Directions of the data (`Flow.op`) in which lines lost these frames; None if not known."""
    port: Port | None = None
    port_ops: frozenset[str] | None = None
    """Directions of the data that pass `port`; None if only its `leg` is known."""
    flows: tuple[Flow, ...] = ()
    """Directions of the data, the one with most payload first."""
    throttled_links: frozenset[str] = frozenset()
    """Links whose node has a rate limit below the rate of the link."""
    asked_bytes_per_s: float | None = None
    """Sum of the rate limits that the study sets for its senders."""
    bounds: tuple[Bound, ...] = ()
    """Closed forms, the lowest first."""
    rtt_ms: float | None = None
    """Round-trip time of the idle path."""
    buffers_bytes: Mapping[str, int | None] = field(default_factory=dict)
    """Maximum size of a socket's buffers, by `send` and `receive`; None if the kernel decides."""
    connections: int = 1
    """TCP connections of the load, over which the data in flight is summed."""
    r2ts_per_command: float | None = None
    wait_r2t_percent: float | None = None
    cache: Cache | None = None
    load: ClosedLoad | None = None
    copying: Copying | None = None
    forwarding: Forwarding | None = None
    guest_queue_percent: float | None = None
    """Share of the requests outstanding that wait for the ring of their guest's disk."""
    host_queue_percent: float | None = None
    """Share of the commands in the hosts that wait for their session."""
    tape_percent: float | None = None
    """Rate at which data arrives at the tape drives, in percent of their native rate."""
    cpu_wait_percent: float | None = None
    """Time in which some process of this machine waited for a CPU."""

    @property
    def deciding(self) -> list[Flow]:
        """Flows that carry a quarter of the payload or more, the largest first."""
        return [flow for flow in self.flows if flow.share >= FLOW_SHARE_MIN]

    @property
    def timeouts(self) -> float | None:
        """Retransmission timeouts of all flows."""
        counted = [f.timeouts for f in self.flows if f.timeouts is not None]
        return sum(counted) if counted else None

    @property
    def unused_percent(self) -> float | None:
        """Unused time of the flow with most payload; for a copy, of the path to the destination."""
        if self.copying is not None:
            return None if self.copying.path_percent is None else max(0.0, 100.0 - self.copying.path_percent)
        return self.flows[0].unused_percent if self.flows else None

    @property
    def bound_share_percent(self) -> float | None:
        """The rate in percent of the lowest closed form."""
        if not self.bounds or self.mb_per_s is None:
            return None
        return 1e8 * self.mb_per_s / self.bounds[0].bytes_per_s

    @property
    def busiest(self) -> str | None:
        """The resource that is closest to its limit."""
        return max(self.used, key=lambda r: self.used[r] / limit_of(r), default=None)

    @property
    def dropped_elsewhere(self) -> float | None:
        """Frames dropped at other ports than `port`."""
        if self.dropped_frames is None:
            return None
        return max(0.0, self.dropped_frames - (self.port.dropped if self.port else 0.0))

    @property
    def watched(self) -> dict[str, float]:
        """Utilisation of devices and links, without the CPUs of this machine."""
        return {r: p for r, p in self.used.items() if not is_test_setup(r)}

    def bound(self, name: str) -> Bound | None:
        """The closed form with this name, or None."""
        return next((b for b in self.bounds if b.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON: the evidence of a finding."""
        return {
            "at_peak": dict(self.used),
            "busiest": self.busiest,
            "mb_per_s": self.mb_per_s,
            "lost_outside": self.lost_packets,
            "dropped_frames": self.dropped_frames,
            "port": asdict(self.port) if self.port else None,
            "dropped_elsewhere": self.dropped_elsewhere,
            "flows": [asdict(f) | {"unused_percent": f.unused_percent} for f in self.flows],
            "rtt_ms": self.rtt_ms,
            "bounds": [{"bound": b.name, "mb_per_s": b.bytes_per_s / 1e6, **b.numbers} for b in self.bounds],
            "bound_share_percent": self.bound_share_percent,
            "unused_percent": self.unused_percent,
            "r2ts_per_command": self.r2ts_per_command,
            "wait_r2t_percent": self.wait_r2t_percent,
            "cache": asdict(self.cache) if self.cache else None,
            "load": asdict(self.load) if self.load else None,
            "copying": asdict(self.copying) if self.copying else None,
            **({"forwarding": asdict(self.forwarding)} if self.forwarding else {}),
            "guest_queue_percent": self.guest_queue_percent,
            "host_queue_percent": self.host_queue_percent,
            "cpu_wait_percent": self.cpu_wait_percent,
            "send_buffer_bytes": self.buffers_bytes.get("send"),
            "receive_buffer_bytes": self.buffers_bytes.get("receive"),
        }


def without_sums(used: Mapping[str, float | None]) -> dict[str, float]:
    """Resources that were measured, without those that only sum up others."""
    return {r: p for r, p in used.items() if p is not None and not r.startswith(SUMS)}
