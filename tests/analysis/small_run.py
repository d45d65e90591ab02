"""Runs of a few numbers each, written with the real store.

A repetition is described by the requests of its VMs per second. The counters follow from that
exactly, in whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.store import Histograms, Samples

from tests.analysis.run_files import SECOND, RepetitionData, alike, repetition, write

START = 1_000 * SECOND


@dataclass
class Group:
    """A group of VMs with a share of the requests of a repetition."""

    share: float
    late_share: float = 0.0
    """Share of the latency that passed before a request was issued."""
    in_flight: int = 0


@dataclass
class Rep:
    """One repetition: `reads` and `writes` per second of each VM, second by second."""

    reads: Sequence[int] = (700,) * 8
    writes: Sequence[int] = (300,) * 8
    vms: int = 2
    size: int = 4096
    warmup_ns: int = SECOND
    latency_ns: int = 10_000_000
    outstanding: float | None = None
    errors: int = 0
    late: int = 0
    unissued: float = 0.0
    """Requests that were due and never issued."""
    late_share: float = 0.0
    """Share of the latency that passed before a request was issued."""
    in_flight: int = 0
    status: str = "done"
    error: str | None = None
    busy: Mapping[str, float] = field(default_factory=dict)
    """Entity of the array → share of the time that it was busy."""
    initiator_cpu: float = 0.1
    array_cpu: float | None = None
    machine_cpu: float | None = None
    array_bytes_more: int = 0
    vms_more: int = 0
    """Requests added to the total, so that it contradicts the VMs."""
    nic: Mapping[str, float] | None = None
    """Bytes per second of the array's NIC: `tx`, `rx`."""
    histograms: bool = True
    caveats: Sequence[dict[str, Any]] = ()
    groups: Mapping[str, Group] = field(default_factory=dict)
    """Groups of VMs; the lateness and the requests in flight of all VMs are then the sums of
    theirs.
    """


@dataclass
class Pt:
    """A point with its repetitions."""

    factors: dict[str, Any]
    reps: Sequence[Rep]


def counters_at(rep: Rep, second: int) -> dict[str, dict[str, float]]:
    """Return the initiator's counters after `second` seconds."""
    reads, writes = sum(rep.reads[:second]), sum(rep.writes[:second])
    per_vm = {
        "reads": reads,
        "writes": writes,
        "read_bytes": reads * rep.size,
        "write_bytes": writes * rep.size,
        "read_latency_ns_sum": reads * rep.latency_ns,
        "write_latency_ns_sum": writes * rep.latency_ns,
        "errors": 0,
        "outstanding_ns": (reads + writes) * rep.latency_ns,
        "in_flight_now": 0,
        "late": 0,
    }
    total: dict[str, float] = {k: v * rep.vms for k, v in per_vm.items()}
    total["errors"], total["late"] = rep.errors * second, rep.late * second
    total["late_ns_sum"] = rep.late_share * (reads + writes) * rep.vms * rep.latency_ns
    total["unissued"] = rep.unissued
    total["in_flight_now"] = rep.in_flight
    if rep.outstanding is not None:
        total["outstanding_ns"] = rep.outstanding * second * SECOND
    total["reads"] += rep.vms_more
    cpu = {"cpu_user_ns": rep.initiator_cpu * second * SECOND, "cpu_system_ns": 0}
    counters: dict[str, dict[str, float]] = {"vms": total, "process": cpu}
    for name, group in rep.groups.items():
        own = {counter: value * group.share for counter, value in total.items()}
        own["late_ns_sum"] = group.late_share * (own["read_latency_ns_sum"] + own["write_latency_ns_sum"])
        counters[f"vms/{name}"] = own | {"in_flight_now": group.in_flight}
    if rep.groups:
        for counter in ("late_ns_sum", "in_flight_now"):
            total[counter] = sum(counters[f"vms/{name}"][counter] for name in rep.groups)
    return counters | {f"vm/vm{i}": dict(per_vm) for i in range(rep.vms)}


def _counted(_: dict[str, Any], rep: Rep) -> RepetitionData:
    """Return a repetition of `len(rep.reads)` measured seconds after a warm-up without requests."""
    samples, histograms = Samples(), Histograms()
    samples.add("host-1", "initiator", START - rep.warmup_ns, counters_at(rep, 0))
    seconds = len(rep.reads)
    for second in range(seconds + 1):
        at = START + second * SECOND
        counted = counters_at(rep, second)
        samples.add("host-1", "initiator", at, counted)
        moved = {k: counted["vms"][k] for k in ("read_bytes", "write_bytes")}
        moved["read_bytes"] += rep.array_bytes_more
        array: dict[str, dict[str, float]] = {"lu/0": moved}
        for entity, share in rep.busy.items():
            array[entity] = {"busy_ns": share * second * SECOND, "ops": 100.0 * second}
        if rep.array_cpu is not None:
            array["process"] = {"cpu_user_ns": rep.array_cpu * second * SECOND, "cpu_system_ns": 0}
        samples.add("array", "array", at, array)
        if rep.machine_cpu is not None:
            shares = {"user_ns": rep.machine_cpu, "idle_ns": 1 - rep.machine_cpu}
            used = {name: share * second * SECOND for name, share in shares.items()}
            samples.add("switch", "watch", at, {"machine": used})
        if rep.nic:
            octets = {f"{d}_bytes": v * second for d, v in rep.nic.items()}
            packets = {f"{d}_packets": v * second / 1514 for d, v in rep.nic.items()}
            samples.add("array", "watch", at, {"nic/eth0": octets | packets})
    if rep.histograms:
        counts = {"read": sum(rep.reads) * rep.vms, "write": sum(rep.writes) * rep.vms}
        named = [
            {"entity": "vms", "name": f"{k}_latency_ns", "hdr": alike(rep.latency_ns, n)} for k, n in counts.items()
        ]
        histograms.add("host-1", "initiator", None, named)
    engine = {"node": "host-1", "engine": "initiator"}
    record = repetition(START, seconds, engine, status=rep.status, error=rep.error, caveats=list(rep.caveats))
    return record, samples, histograms


def write_run(folder: Path, points: Sequence[Pt], **more: Any) -> Path:
    """Write a finished run; `more` replaces parts of study.json (`title`, …), run.json (`run_…`),
    lab.json (`lab_…`).
    """
    study: dict[str, Any] = {
        "id": "small",
        "title": {"en": "A small study", "ja": "小さな検証"},
        "question": {"en": "What is it?", "ja": "何か。"},
        "expectation": {"en": "Nothing.", "ja": "なし。"},
        "load": {"kind": "vms"},
    }
    link = {
        "name": "array.0",
        "node": "array",
        "interface": "eth0",
        "switch": "switch",
        "port": "array.0",
        "path": 0,
        "address": "10.77.0.1",
        "prefix_length": 20,
        "rate_bits_per_s": 1_000_000_000,
        "queue_bytes": 524288,
        "mtu": 1500,
    }
    lab: dict[str, Any] = {"nodes": [{"name": "array", "kind": "array"}], "links": [link]}
    parts: dict[str, Any] = {"run": {}, "study": study, "lab": lab, "machine": {"cpu_model": "x"}}
    for name, value in more.items():
        part, _, key = name.partition("_")
        parts[part if key else "study"][key or name] = value
    return write(folder, parts, points, _counted)
