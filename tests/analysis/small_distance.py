"""Runs of loads over a distance, written with the real store. Their counters come from a simulation
in virtual time.

`simulate` sends every command of a closed load over a link with a rate and a delay, burst by burst,
as RFC 7143 specifies. It does not use the closed forms of `hakaru.analysis.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.store import Samples

from tests.analysis.run_files import SECOND, RepetitionData, lateness, repetition, write

START = 5_000 * SECOND
RATE_BYTES_PER_S = 1e9 / 8 * 1448 / 1538
KIB, MIB = 1 << 10, 1 << 20

LAB: dict[str, Any] = {
    "backend": "fabric",
    "hosts": ["host"],
    "arrays": ["array"],
    "switches": {"wan": {}},
    "mtu": 1500,
    "tcp": {"stack": "2009"},
    "links": {
        "host": {"between": ["host", "wan"], "rate": "1 Gbit/s", "queue": "32 MiB"},
        "array": {"between": ["wan", "array"], "rate": "1 Gbit/s", "queue": "32 MiB", "delay": "0 ms"},
    },
}
ERA = {
    "initiator": {"command_max": "512 KiB", "commands": 1, "max_recv_data_segment_length": "128 KiB"},
    "target": {
        "max_recv_data_segment_length": "8 KiB",
        "max_burst_length": "256 KiB",
        "first_burst_length": "64 KiB",
        "initial_r2t": True,
        "immediate_data": False,
        "max_outstanding_r2t": 1,
    },
}
OPEN = {
    "load.iscsi.target.max_recv_data_segment_length": "256 KiB",
    "load.iscsi.target.max_burst_length": "16777215 B",
    "load.iscsi.target.first_burst_length": "16777215 B",
    "load.iscsi.initiator.first_burst_length": "16776192 B",
    "load.iscsi.target.initial_r2t": False,
    "load.iscsi.target.immediate_data": True,
}
VARIABLES: dict[str, Any] = {
    "transport": {"sets": ["load.transport"]},
    "rtt": {f"{ms} ms": {"lab.links.array.delay": f"{ms * 500} us"} for ms in (0, 10, 20, 40)},
    "settings": {
        "default": {},
        "parameters": OPEN,
        "optimised": OPEN | {"load.iscsi.initiator.commands": 32, "lab.tcp.buffer_max": "16 MiB"},
    },
    "buffer": {"sets": ["lab.tcp.buffer_max"]},
}
PATTERN = {
    "sizes": [{"size": "4 MiB", "weight": 1}],
    "read_percent": 0,
    "random_percent": 0,
    "load": {"kind": "closed", "queue_depth": 1},
}


@dataclass(frozen=True)
class LoadSpec:
    """Load of a simulation: requests of `request` bytes in commands of at most `command`,
    `lanes` at a time.
    """

    rtt_s: float
    request: int = 4 * MIB
    command: int = 512 * KIB
    lanes: int = 1
    depth: int = 1
    unsolicited: int = 0
    burst: int = 256 * KIB
    r2ts: int = 1
    segment: int = 8 * KIB
    op: str = "write"


@dataclass
class Simulated:
    """Result of a simulation: throughput, mean latency and phases."""

    mb_per_s: float
    latency_s: float
    phases_s: dict[str, float]
    commands: int
    r2t_count: int
    link_share: float


class _Link:
    """A link that sends data strictly in order."""

    def __init__(self) -> None:
        self.free_s, self.busy_s = 0.0, 0.0

    def send(self, at: float, octets: float) -> float:
        """Send `octets` handed over at `at`; return when the last byte leaves."""
        duration_s = octets / RATE_BYTES_PER_S
        self.free_s, self.busy_s = max(self.free_s, at) + duration_s, self.busy_s + duration_s
        return self.free_s


def simulate(spec: LoadSpec, requests: int = 40) -> Simulated:
    """Simulate `requests` requests in virtual time. Commands of different requests wait for a lane
    in the order of requests.
    """
    link, half = _Link(), spec.rtt_s / 2
    lanes = [0.0] * spec.lanes
    slots = [0.0] * spec.depth  # instants at which a request of the closed load may begin
    phases = dict.fromkeys(("wait_r2t", "write_data_transfer", "write_data_to_response"), 0.0)
    commands = r2ts = 0
    latency = end = 0.0
    for _ in range(requests):
        began = min(slots)
        remaining, last = spec.request, began
        while remaining > 0:
            length = min(remaining, spec.command)
            lane = min(range(len(lanes)), key=lanes.__getitem__)
            at = max(lanes[lane], began)
            ended, spent, r2ts_sent = _command(link, spec, at, length, half)
            lanes[lane] = ended
            for phase, seconds in spent.items():
                phases[phase] += seconds
            commands, r2ts, remaining, last = commands + 1, r2ts + r2ts_sent, remaining - length, max(last, ended)
        latency += last - began
        slots[slots.index(began)] = last
        end = max(end, last)
    octets = requests * spec.request
    mean = latency / requests if spec.depth == 1 else spec.depth * end / requests
    return Simulated(octets / end / 1e6, mean, phases, commands, r2ts, link.busy_s / end)


def _command(link: _Link, spec: LoadSpec, at: float, length: int, half: float) -> tuple[float, dict[str, float], int]:
    """Return when a command's response arrives, its phases, and its number of R2Ts."""
    spent = dict.fromkeys(("wait_r2t", "write_data_transfer", "write_data_to_response"), 0.0)
    if spec.op == "read":
        arrived = link.send(at + half, length + 48 * -(-length // spec.segment)) + half
        return arrived, spent, 0
    first = min(length, spec.unsolicited)
    pdus = -(-first // spec.segment) if first else 1
    sent_at = link.send(at, first + 48 * pdus)
    spent["write_data_transfer"] += sent_at - at
    offers = [sent_at + 2 * half] * spec.r2ts  # instants at which R2Ts reach the initiator
    sent, count = first, 0
    while sent < length:
        burst = min(spec.burst, length - sent)
        begin = max(sent_at, offers[count])
        spent["wait_r2t"] += begin - sent_at
        last, sent_at = begin, link.send(begin, burst + 48 * -(-burst // spec.segment))
        spent["write_data_transfer"] += sent_at - last
        offers.append(sent_at + 2 * half)
        sent, count = sent + burst, count + 1
    spent["write_data_to_response"] += 2 * half
    return sent_at + 2 * half, spent, count


@dataclass
class Load:
    """One repetition: a simulated load, and TCP's clocks during it, in shares of the time."""

    spec: LoadSpec
    seconds: int = 6
    busy: float = 1.0
    receive_window: float = 0.0
    send_buffer: float = 0.0
    retransmitted: float = 0.0
    spurious: bool = False
    """Whether TCP retransmitted although the network dropped nothing."""
    timeouts: int = 0
    window_bytes: float = 2e6
    window_growth: float = 1.0
    slower: float = 1.0
    """Factor by which the load takes longer than the simulation, without a recorded reason."""
    lost: int = 0
    fabric_cpu: float = 0.3
    late_us: float | None = None
    """Lateness of every frame in the fabric; None: not recorded."""
    array_busy: float = 0.0
    tcp: bool = True
    """Whether the engines report TCP counters."""
    negotiated: Mapping[str, Any] = field(default_factory=dict)
    stream_mb_per_s: float | None = None
    """Rate of a plain TCP stream that is sent instead of the load; None: the load over iSCSI."""


@dataclass
class Pt:
    """A point with its repetitions."""

    factors: dict[str, Any]
    reps: Sequence[Load]


def _at(load: Load, result: Simulated, second: float) -> dict[str, dict[str, float]]:
    """Return the initiator's counters after `second` seconds."""
    rate = result.mb_per_s * 1e6 / load.slower
    octets, requests = rate * second, rate * second / load.spec.request
    latency = result.latency_s * load.slower
    op, other = load.spec.op, "read" if load.spec.op == "write" else "write"
    vms: dict[str, float] = {
        f"{op}s": round(requests * 1e6) / 1e6,
        f"{op}_bytes": octets,
        f"{op}_latency_ns_sum": requests * latency * 1e9,
        f"{other}s": 0.0,
        f"{other}_bytes": 0.0,
        f"{other}_latency_ns_sum": 0.0,
        "errors": 0,
        "outstanding_ns": load.spec.depth * second * 1e9,
        "in_flight_now": load.spec.depth,
        "late": 0,
        "busy": 0,
        "commands": requests * result.commands / 40,
        "r2ts": requests * result.r2t_count / 40,
    }
    for phase, seconds in result.phases_s.items():
        vms[f"{phase}_ns_sum"] = seconds / 40 * requests * 1e9
    counters = {"vms": vms, "vm/vm01": dict(vms), "process": {"cpu_user_ns": 0.1 * second * 1e9, "cpu_system_ns": 0.0}}
    return counters | ({"tcp/vm01": _tcp(load, rate, second)} if load.tcp and op == "write" else {})


def _tcp(load: Load, rate: float, second: float) -> dict[str, float]:
    ns, sent = second * 1e9, rate * second
    share = second / load.seconds
    return {
        "sent_bytes": sent * (1 + load.retransmitted),
        "acked_bytes": sent,
        "retransmits": sent * load.retransmitted / 1448,
        "retransmitted_bytes": sent * load.retransmitted,
        "timeouts": load.timeouts * share,
        "timeout_recoveries": load.timeouts * share,
        "timeout_wait_ns": 0.0,
        "busy_ns": load.busy * ns,
        "receive_window_limited_ns": load.receive_window * ns,
        "send_buffer_limited_ns": load.send_buffer * ns,
        "congestion_window_bytes_now": load.window_bytes * (1 + (load.window_growth - 1) * share),
        "unacked_bytes_now": load.window_bytes / 2,
        "not_sent_bytes_now": 1e5,
    }


def _channel(load: Load, result: Simulated, second: float, forward: bool) -> dict[str, float]:
    rate = result.mb_per_s * 1e6 / load.slower
    frames = round(rate * second / 1448) // (1 if forward else 2)
    lost = round(rate * second * load.retransmitted / 1448) if forward and not load.spurious else 0
    names = ("dropped_buffer", "dropped_early", "dropped_mtu", "duplicated", "marked", "pauses", "paused_ns")
    share = result.link_share / load.slower if forward else 0.01
    return dict.fromkeys(names, 0.0) | {
        "frames_in": frames + lost,
        "frames_out": frames,
        "dropped_loss": lost,
        "busy_ns": share * second * 1e9,
        "frames_now": 0,
        "queue_bytes_now": 0,
        "queue_peak_bytes_now": 5e4,
    }


def _streamed(load: Load, mb_per_s: float) -> RepetitionData:
    """Return the samples of a plain stream."""
    samples = Samples()
    for i in range(load.seconds * 5 + 1):
        counters = {"tcp/streams": _tcp(load, mb_per_s * 1e6, i / 5) | {"connections_now": 1.0}}
        samples.add("host", "probe", START + round(i / 5 * SECOND), counters)
    return repetition(START, load.seconds, {"node": "host", "engine": "probe", "found": {}}), samples, lateness(None)


def _counted(_: dict[str, Any], load: Load) -> RepetitionData:
    if load.stream_mb_per_s is not None:
        return _streamed(load, load.stream_mb_per_s)
    samples, result = Samples(), simulate(load.spec)
    forward = load.spec.op == "write"
    for i in range(load.seconds * 5 + 1):
        second = i / 5
        at = START + round(second * SECOND)
        counted = _at(load, result, second)
        samples.add("host", "initiator", at, counted)
        array: dict[str, dict[str, float]] = {
            "lu/0": {f"{load.spec.op}_bytes": counted["vms"][f"{load.spec.op}_bytes"]}
        }
        array["controller"] = {"busy_ns": load.array_busy * second * 1e9, "ops": second}
        if load.tcp and not forward:
            array["tcp/sessions"] = _tcp(load, result.mb_per_s * 1e6, second)
        samples.add("array", "array", at, array)
        fabric = {
            f"link/{link}/{direction}": _channel(load, result, second, (direction == "a-b") == forward)
            for link in ("host", "array")
            for direction in ("a-b", "b-a")
        }
        fabric["interface/array"] = {
            "lost_overrun": load.lost * second / load.seconds,
            "lost_unknown": 0,
            "lost_refused": 0,
        }
        fabric["process"] = {"cpu_user_ns": load.fabric_cpu * second * 1e9, "cpu_system_ns": 0.0}
        samples.add("fabric", "fabric", at, fabric)
    engine = {"node": "host", "engine": "initiator", "found": {"negotiated": dict(load.negotiated)}}
    return repetition(START, load.seconds, engine), samples, lateness(load.late_us)


def write_run(folder: Path, points: Sequence[Pt], **more: Any) -> Path:
    """Write a finished run; `more` replaces parts of study.json."""
    study: dict[str, Any] = {
        "id": "far",
        "title": {"en": "Writes over a long path", "ja": "長い経路を越える書き込み"},
        "question": {"en": "How fast?", "ja": "どれだけ速いか。"},
        "expectation": {"en": "Not very.", "ja": "あまり速くない。"},
        "lab": LAB,
        "load": {
            "kind": "vms",
            "columns": [[0]],
            "patterns": {
                "write-4m": PATTERN,
                "read-4m": PATTERN | {"read_percent": 100},
                "mixed": PATTERN | {"read_percent": 50},
            },
            "iscsi": ERA,
        },
        "variables": VARIABLES,
        "measure": {"repetitions": 2, "warmup": "1 s", "time": "6 s", "sample_interval": "200 ms"},
    }
    return write(folder, {"study": study | more}, points, _counted)


def factors(rtt_ms: int = 20, settings: str = "default", **more: Any) -> dict[str, Any]:
    """Return the factors of a point."""
    return {"pattern": "write-4m", "vms": 1, "settings": settings, "rtt": f"{rtt_ms} ms"} | more


def spec_of(settings: str, rtt_ms: int, **more: Any) -> LoadSpec:
    """Return the simulated load of a setting."""
    if settings == "default":
        return LoadSpec(rtt_ms / 1e3, **more)
    lanes = 1 if settings == "parameters" else 8
    return LoadSpec(rtt_ms / 1e3, **({"unsolicited": 4 * MIB, "segment": 256 * KIB, "lanes": lanes} | more))


def published_shape(folder: Path) -> Path:
    """Write a run of three settings at four distances, and a deeper load."""
    points = [
        Pt(factors(rtt, s), [Load(spec_of(s, rtt))] * 2)
        for s in ("default", "parameters", "optimised")
        for rtt in (0, 10, 20, 40)
    ]
    deep = spec_of("optimised", 20, lanes=32, depth=4)
    return write_run(folder, [*points, Pt(factors(20, "optimised", queue_depth=4), [Load(deep)] * 2)])
