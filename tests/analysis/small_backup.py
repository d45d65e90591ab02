"""Runs of a few copies each, written with the real store. The counters follow from the description
of each copy.

The lab is the published one: host and source on 10 Gbit/s, a switch `edge` whose port to the
destination has 1 Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.store import Samples

from tests.analysis.run_files import SECOND, RepetitionData, lateness, repetition, write

START = 5_000 * SECOND
FRAME_BYTES = 1518
PAYLOAD = 1448

LAB: dict[str, Any] = {
    "backend": "fabric",
    "hosts": ["kvm-1"],
    "arrays": ["primary", "vtl"],
    "switches": {"core": {}, "edge": {}},
    "mtu": 1500,
    "tcp": {"stack": "today", "congestion_control": "cubic", "ecn": False},
    "links": {
        "kvm-1": {"between": ["kvm-1", "core"], "rate": "10 Gbit/s", "queue": "2 MiB"},
        "primary": {"between": ["primary", "core"], "rate": "10 Gbit/s", "queue": "2 MiB"},
        "uplink": {"between": ["core", "edge"], "rate": "10 Gbit/s", "queue": "2 MiB"},
        "vtl": {"between": ["vtl", "edge"], "rate": "1 Gbit/s", "queue": "64 KiB", "pause": False},
    },
}
VARIABLES: dict[str, Any] = {
    "case": {
        "unthrottled": {},
        "throttled": {"lab.links.kvm-1.send_rate": "1 Gbit/s"},
        "ten-to-ten": {"lab.links.vtl.rate": "10 Gbit/s"},
        "ecn": {"lab.tcp.ecn": True, "lab.links.vtl.discipline": {"mark": "4 KiB"}},
        "deep": {"lab.links.vtl.queue": "2 MiB"},
    },
    "tcp": {"2009": {"lab.tcp.stack": "2009"}, "today": {"lab.tcp.stack": "today"}},
    "buffer": {"sets": ["lab.links.vtl.queue"]},
    "streams": {"sets": ["load.streams"]},
    "pause": {"off": {}, "on": {"lab.links.vtl.pause": True}},
    "initiator": {"open-iscsi": {"load.initiator": "kernel"}},
}
CHANNELS = (
    ("primary", "a-b"),
    ("kvm-1", "b-a"),
    ("kvm-1", "a-b"),
    ("uplink", "a-b"),
    ("vtl", "b-a"),
)
"""Channels of the data from the source to the destination."""
RETURN_CHANNELS = (("vtl", "a-b"), ("uplink", "b-a"), ("primary", "b-a"))


LTO5: dict[str, Any] = {
    "lun": 1,
    "generation": "lto5",
    "rate_min_bytes_per_s": 47e6,
    "rate_max_bytes_per_s": 140e6,
    "buffer_bytes": 256e6,
    "backhitch_s": 3.0,
}
"""The parameters of an LTO-5 drive, as its array reports them."""


@dataclass(frozen=True)
class Tape:
    """The LTO-5 drive `tape/0` of the destination in one repetition."""

    stops: int = 1
    streaming: float = 0.5
    """Share of the time in which the tape streams."""
    filemarks: int = 1
    """Filemarks that wait for the tape."""
    compression: float = 1.0

    def at(self, copy: Copy, second: int) -> dict[str, float]:
        """Return the drive's counters after `second` seconds."""
        return {
            "streaming_ns": self.streaming * second * SECOND,
            "backhitches": self.stops * second / copy.seconds,
            "stored_bytes": copy.rate * 1e6 * copy.jobs * second / self.compression,
        }


@dataclass
class Copy:
    """One repetition: four jobs of `rate` MB/s each for `seconds`."""

    rate: float = 20.0
    seconds: int = 8
    jobs: int = 4
    dropped: int = 0
    """Frames dropped at edge's port to the destination."""
    dropped_elsewhere: int = 0
    marked: int = 0
    """Frames marked at the same port."""
    timeouts: int = 0
    recovering_s: float = 0.0
    """Time that all connections spent in recovery after a retransmission timeout."""
    retransmitted: int = 0
    busy: Mapping[str, float] = field(default_factory=dict)
    """`NODE ENTITY` (such as `vtl drive/0.0`) → share of the time that it was busy."""
    link_busy: Mapping[str, float] = field(default_factory=dict)
    """`LINK DIRECTION` → share, if it is not the one that follows from the rate."""
    fabric_cpu: float = 0.3
    late_us: float | None = None
    """Lateness of every frame in the fabric; None: not recorded."""
    machine_cpu: float | None = None
    cpu_wait: float = 0.0
    """Share of the time in which some process waited for a processor."""
    backup_cpu: float = 0.2
    unaccounted: int = 0
    lost: int = 0
    """Packets that an interface of the fabric lost outside its model, evenly over the time."""
    lost_until: int | None = None
    """Second until which they were lost; None: the end."""
    old_kernel: bool = False
    """Whether TCP_INFO lacks the count of timeouts."""
    array_bytes_more: int = 0
    read_by_kernel: int | None = None
    """Bytes that the initiator, a guest's kernel, read on its own; None with hakaru's initiator."""
    warmup: int = 0
    """Seconds at the start that do not count."""
    first_seconds: int | None = None
    """Time of the first job, if it differs from `seconds`. Its bytes are those of the others."""
    slowest_seconds: int | None = None
    """Time of the last job, if it differs from `seconds`. Its bytes are those of the others."""
    tape: Tape | None = None
    """The drive that the copies are written to; None: disks."""
    status: str = "done"


@dataclass
class Pt:
    """A point with its repetitions."""

    factors: dict[str, Any]
    reps: Sequence[Copy]


def _rate_of(factors: Mapping[str, Any], link: str, direction: str) -> float:
    """Return the rate of a channel's serialiser, including the throttle of a node."""
    narrow = link == "vtl" and factors.get("case") != "ten-to-ten"
    throttled = (link, direction) == ("kvm-1", "a-b") and factors.get("case") == "throttled"
    return 1e9 if narrow or throttled else 10e9


def channel(copy: Copy, factors: Mapping[str, Any], link: str, direction: str, second: int) -> dict[str, float]:
    """Return a channel's counters after `second` seconds. Drops are spread evenly over time."""
    share = second / copy.seconds
    frames = round(copy.rate * 1e6 * copy.jobs * second / PAYLOAD)
    port = (link, direction) == ("vtl", "b-a")
    lost = round(
        (copy.dropped if port else copy.dropped_elsewhere if (link, direction) == ("uplink", "a-b") else 0) * share
    )
    if (link, direction) in RETURN_CHANNELS:
        frames //= 2
    arrived = frames + lost
    busy = copy.link_busy.get(
        f"{link} {direction}", arrived * (FRAME_BYTES + 20) * 8 / _rate_of(factors, link, direction) / max(1, second)
    )
    zeros = dict.fromkeys(("dropped_early", "dropped_loss", "dropped_mtu", "duplicated", "corrupted"), 0.0)
    return zeros | {
        "frames_in": arrived,
        "bytes_in": arrived * FRAME_BYTES,
        "frames_out": frames - (copy.unaccounted if port and second else 0),
        "bytes_out": frames * FRAME_BYTES,
        "dropped_buffer": lost,
        "marked": round(copy.marked * share) if port else 0,
        "pauses": 0,
        "paused_ns": 0,
        "busy_ns": busy * second * SECOND,
        "frames_now": 0,
        "queue_bytes_now": 0,
        "queue_peak_bytes_now": 60_000.0 if port and second else 3_000.0,
    }


def fabric_at(copy: Copy, factors: Mapping[str, Any], second: int) -> dict[str, dict[str, float]]:
    """Return the fabric's counters after `second` seconds."""
    counters = {
        f"link/{link}/{direction}": channel(copy, factors, link, direction, second)
        for link, direction in (*CHANNELS, *RETURN_CHANNELS)
    }
    counters["interface/vtl"] = {
        "lost_overrun": copy.lost * min(1.0, second / (copy.lost_until or copy.seconds)),
        "lost_unknown": 0,
        "lost_refused": 0,
    }
    return counters | {"process": {"cpu_user_ns": copy.fabric_cpu * second * SECOND, "cpu_system_ns": 0}}


def backup_at(copy: Copy, second: int) -> dict[str, dict[str, float]]:
    """Return the backup engine's counters after `second` seconds."""
    octets = copy.rate * 1e6 * second
    blocks = octets / 262144
    job = {"read_bytes": octets, "written_bytes": octets, "reads": blocks, "writes": blocks, "errors": 0}
    job |= {"read_latency_ns_sum": blocks * 1e6, "write_latency_ns_sum": blocks * 40e6, "in_flight_now": 0}
    counters: dict[str, dict[str, float]] = {"backups": {k: v * copy.jobs for k, v in job.items()}}
    share = second / copy.seconds / copy.jobs
    for i in range(1, copy.jobs + 1):
        counters[f"backup/vm2_{i}"] = dict(job)
        if i == 1 and copy.first_seconds is not None:
            counters["backup/vm2_1"]["read_bytes"] = (
                copy.rate * 1e6 * copy.seconds * min(1.0, second / copy.first_seconds)
            )
        if copy.read_by_kernel is not None:
            continue
        tcp = {"sent_bytes": octets + copy.retransmitted * PAYLOAD * share, "acked_bytes": octets}
        tcp |= {"retransmits": copy.retransmitted * share, "retransmitted_bytes": copy.retransmitted * PAYLOAD * share}
        if not copy.old_kernel:
            tcp |= {"timeouts": copy.timeouts * share, "timeout_recoveries": copy.timeouts * share}
            tcp |= {"timeout_wait_ns": copy.recovering_s * SECOND * share}
        counters[f"tcp/vm2_{i}/destination"] = tcp
        counters[f"tcp/vm2_{i}/source"] = {"sent_bytes": 48 * blocks, "acked_bytes": 48 * blocks}
    return counters | {"process": {"cpu_user_ns": copy.backup_cpu * second * SECOND, "cpu_system_ns": 0}}


def values_of(copy: Copy) -> dict[str, float]:
    """Return `result.values` of the backup engine."""
    last = copy.slowest_seconds or copy.seconds
    first = copy.first_seconds or copy.seconds
    values: dict[str, float] = {"first_done_s": first, "last_done_s": last, "jobs_done": copy.jobs}
    for i in range(1, copy.jobs + 1):
        seconds = last if i == copy.jobs else first if i == 1 else copy.seconds
        values |= {f"seconds/vm2_{i}": seconds, f"bytes/vm2_{i}": copy.rate * 1e6 * copy.seconds}
    return values | {"bytes": copy.rate * 1e6 * copy.seconds * copy.jobs}


def _counted(factors: dict[str, Any], copy: Copy) -> RepetitionData:
    samples = Samples()
    for second in range(copy.seconds + 1):
        at, share = START + second * SECOND, second / copy.seconds
        samples.add("fabric", "fabric", at, fabric_at(copy, factors, second))
        counted = backup_at(copy, second)
        if copy.tape is not None:
            counted["backups"]["synchronisations"] = copy.tape.filemarks * share
        samples.add("kvm-1", "backup", at, counted)
        octets = counted["backups"]["read_bytes"]
        for node, name in (("primary", "read_bytes"), ("vtl", "write_bytes")):
            more = copy.array_bytes_more + ((copy.read_by_kernel or 0) if node == "primary" else 0)
            array: dict[str, dict[str, float]] = {"lu/0": {name: octets + more}}
            for node_and_entity, busy in copy.busy.items():
                owner, _, entity = node_and_entity.partition(" ")
                if owner == node:
                    array[entity] = {"busy_ns": busy * second * SECOND, "ops": 10.0 * second}
            if copy.tape is not None and node == "vtl":
                array["tape/0"] = copy.tape.at(copy, second)
            samples.add(node, "array", at, array)
        sent = {"segments_out": round(octets / PAYLOAD), "retransmits": round(copy.retransmitted * share)}
        samples.add("kvm-1", "watch", at, {"tcp": sent | {"timeouts": round(copy.timeouts * share)}})
        if copy.machine_cpu is not None:
            shares = {"user_ns": copy.machine_cpu, "idle_ns": 1 - copy.machine_cpu, "pressure_cpu_ns": copy.cpu_wait}
            samples.add("edge", "watch", at, {"machine": {n: v * second * SECOND for n, v in shares.items()}})
        samples.add(
            "vtl", "watch", at, {"tcp": {"segments_out": round(octets / PAYLOAD / 2), "out_of_order": 9 * second}}
        )
    engine = {"node": "kvm-1", "engine": "backup", "values": values_of(copy)}
    error = None if copy.status == "done" else "gone"
    record = repetition(START, copy.slowest_seconds or copy.seconds, engine, status=copy.status, error=error)
    record["measure"]["start_ns"] += copy.warmup * SECOND
    if copy.read_by_kernel is not None:
        record["guests"] = {"kvm-1": {"initiator": "open-iscsi"}}
    if copy.tape is not None:
        found = {"tape_drives": [LTO5]}
        record["engines"].append({"node": "vtl", "engine": "array", "found": found, "values": {}})
    return record, samples, lateness(copy.late_us)


def write_run(folder: Path, points: Sequence[Pt], **more: Any) -> Path:
    """Write a finished run; `more` replaces parts of study.json."""
    end = {"lus": [0]}
    study: dict[str, Any] = {
        "id": "copies",
        "title": {"en": "Copies over a mismatch", "ja": "速度差を越える複写"},
        "question": {"en": "Why is it slow?", "ja": "なぜ遅いか。"},
        "expectation": {"en": "The buffer.", "ja": "バッファ。"},
        "lab": LAB,
        "variables": VARIABLES,
        "load": {
            "kind": "copy",
            "jobs": 4,
            "streams": 1,
            "image": "160 MB",
            "rate_limit": None,
            "from": {"array": "primary"} | end,
            "to": {"array": "vtl"} | end,
        },
    }
    return write(folder, {"study": study | more}, points, _counted)


PUBLICATIONS: dict[str, Any] = {
    "jdsf-2013": {
        "title": {"en": "Japan Data Storage Forum, 2013", "ja": "JDSF 2013"},
        "source": "Japan Data Storage Forum, 2013",
    }
}
PUBLISHED: dict[str, Any] = {
    "kind": "table",
    "publication": "jdsf-2013",
    "table": "jdsf-2013-backup",
    "over": "case",
    "column": "pattern",
    "levels": {"unthrottled": 1, "throttled": 2, "ten-to-ten": 3},
    "combine": "sum",
    "where": {"tcp": "2009", "buffer": None, "pause": None},
    "metrics": {"mib_per_s": "mb_per_s"},
    "rows": [
        {"pattern": p, "vm": f"vm2_{i}", "mb_per_s": rate, "rank": sorted(rates, reverse=True).index(rate) + 1}
        for p, rates in (
            (1, (5.31, 5.29, 5.30, 5.34)),
            (2, (16.56, 26.28, 26.62, 26.26)),
            (3, (65.87, 104.06, 99.06, 59.57)),
        )
        for i, rate in enumerate(rates, start=1)
    ],
}

PUBLISHED_VMS: list[dict[str, Any]] = [
    {k: v for k, v in PUBLISHED.items() if k != "combine"}
    | {"select": {"rank": rank}, "metrics": {f"ranked_mib_per_s/{rank}": "mb_per_s"}}
    for rank in range(1, 5)
]
"""The VMs of `PUBLISHED`, the fastest first."""

SLOW = Copy(rate=6.0, dropped=3412, timeouts=118, recovering_s=0.4, retransmitted=3500)
FULL = Copy(rate=28.0)


def published_shape(
    folder: Path,
    buffers: Sequence[int] = (32, 64, 128, 256, 512),
    streams_of: Sequence[int] = (1, 2, 4, 8),
    references: Sequence[dict[str, Any]] = (PUBLISHED,),
) -> Path:
    """Write a run of the published shape: three patterns with both TCPs, a map over buffer (KiB)
    and streams, pause.
    """
    patterns = {
        ("unthrottled", "2009"): SLOW,
        ("unthrottled", "today"): Copy(rate=22.0, dropped=5000, timeouts=2, recovering_s=0.1, retransmitted=5100),
        ("throttled", "2009"): FULL,
        ("throttled", "today"): FULL,
        ("ten-to-ten", "2009"): Copy(rate=82.0, busy={"primary drive/0.0": 0.99, "vtl drive/0.0": 0.6}),
        ("ten-to-ten", "today"): Copy(rate=83.0, busy={"primary drive/0.0": 0.99, "vtl drive/0.0": 0.6}),
    }
    points = [Pt({"case": c, "tcp": t}, [copy] * 2) for (c, t), copy in patterns.items()]
    for tcp in ("2009", "today"):
        for k, buffer in enumerate(buffers):
            for j, streams in enumerate(streams_of):
                rate = min(28.0, (4 + 5 * k + 3 * j) * (1 if tcp == "2009" else 1.6))
                copy = Copy(rate=rate, dropped=4000 // (k + 1), timeouts=round(160 / (1 + k + j)), retransmitted=4000)
                levels = {"case": "unthrottled", "buffer": f"{buffer} KiB", "streams": streams, "tcp": tcp}
                points.append(Pt(levels, [copy]))
    points += [Pt({"case": "unthrottled", "tcp": "2009", "pause": p}, [c]) for p, c in (("off", SLOW), ("on", FULL))]
    return write_run(folder, points, publications=PUBLICATIONS, reference=list(references))
