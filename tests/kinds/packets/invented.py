"""Runs of packet forwarding with invented trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakaru.analysis import summarise
from hakaru.kinds.packets.load import PacketsLoad
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.store import Histograms, Samples

from tests.analysis.run_files import RepetitionData, repetition, write
from tests.kinds.packets.simulated import NODE, Bench, run
from tests.kinds.packets.study import LAB, fields

SAMPLE_NS = 100_000_000
LATENCY_NS = 2_000_000_000
"""Length of a trial for the latency, by default."""


@dataclass
class Rep:
    """A search on a simulated device. `busy`: use of each processor in percent."""

    bench: Bench
    busy: Mapping[str, float] = field(default_factory=lambda: {"0": 40.0, "1": 99.0})
    search: Mapping[str, Any] = field(default_factory=dict)
    sample_ns: int = SAMPLE_NS
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Frames that hakaru's switch drops in each trial, by counter."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """Further parts of the record of the repetition."""


@dataclass
class Pt:
    factors: dict[str, Any]
    reps: list[Rep]


def build(factors: dict[str, Any], rep: Rep) -> RepetitionData:
    of_packets = PacketsLoad.model_validate({"kind": "packets", "frame": factors["frame"], "search": rep.search})
    start_ns = rep.bench.now_ns
    dialogue = run(rep.bench, of_packets)
    samples, histograms = Samples(), Histograms()
    starts = [entry["start_ns"] for entry in dialogue.describe()["log"]]
    for at_ns in range(start_ns - rep.sample_ns, rep.bench.now_ns + rep.sample_ns, rep.sample_ns):
        begun = sum(start < at_ns for start in starts)
        if rep.dropped:
            samples.add(NODE, "fabric", at_ns, {"link/left/a-b": {n: float(v * begun) for n, v in rep.dropped.items()}})
        counters = {}
        for name, percent in rep.busy.items():
            names = dict.fromkeys(("user_ns", "irq_ns", "softirq_ns", "steal_ns", "iowait_ns"), 0.0)
            counters[f"cpu/{name}"] = names | {
                "system_ns": at_ns * percent / 100,
                "idle_ns": at_ns * (100 - percent) / 100,
            }
        # A disk of this machine that is always busy.
        counters["disk/vda"] = {"busy_ns": float(at_ns)}
        samples.add(NODE, "watch", at_ns, counters)
    for node, found in dialogue.histograms().items():
        histograms.add(node, "trials", None, [h.model_dump() for h in found])
    window = dialogue.window()
    assert window is not None
    measure = {"start_ns": window[0], "end_ns": window[1]}
    record = repetition(window[0], 1, {"node": NODE, "engine": "packets"}, measure=measure, origin="measured")
    return record | {"trials": dialogue.describe(), **rep.record}, samples, histograms


def summary_of(folder: Path, *points: Pt, **more: Any) -> dict[str, Any]:
    described = plan_lab(LabSpec.model_validate(LAB)).describe()
    study = fields(factors=[{"frame": [p.factors["frame"] for p in points]}]) | more
    parts = {"study": study, "lab": described}
    return summarise(write(folder, parts, points, build))
