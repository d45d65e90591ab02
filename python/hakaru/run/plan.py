"""What a run will be, before it starts: points, order, minutes, disk, memory, engines. Asks nothing, touches nothing.

Estimates are upper bounds where a bound is what matters (memory, disk) and expected values for time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hakaru.lab.plan import LabPlan
from hakaru.study import Expanded
from hakaru.units import format_duration, format_size

# Measured on two cores: starting hakaru and building the lab, checking one host's link (all at most 8 s), what a
# repetition takes beside its load (start, login, drain, stop, write), analysis with reports in two languages.
LAB_S = 2.0
LINK_CHECK_S, LINK_CHECKS_S_MAX = 1.1, 8.0
REPETITION_S = 0.8
REPORT_S = 12.0
# Bytes a sampled counter takes in a Parquet file, and an interval's histogram.
SAMPLE_BYTES = 6
HISTOGRAM_BYTES = 3000
ENGINE_BYTES = 24 << 20
LOOPBACK_BYTES_PER_S = 4_000_000_000


@dataclass(frozen=True)
class Estimate:
    """What a run takes. `memory_bytes`: engines, and all that one repetition can write into LUs held in memory."""

    seconds: float
    disk_bytes: int
    memory_bytes: int
    engines: int


def estimate(expanded: Expanded, lab: LabPlan | None) -> Estimate:
    """Upper bounds for memory and disk, expected time. `lab` is None where a site is used."""
    measure = expanded.measure
    hosts = len(lab.host_names) if lab else 1
    load_s = (measure.warmup_ns + measure.time_ns) / 1e9
    seconds = len(expanded.repetitions) * (load_s + REPETITION_S) + REPORT_S
    if lab:
        seconds += LAB_S + min(LINK_CHECKS_S_MAX, hosts * LINK_CHECK_S)
    drives = 12
    samples = load_s / (measure.sample_interval / 1e9)
    counters = sum(min(r.point.factors["vms"], 256) * 10 + hosts * 60 + drives * 8 + 60 for r in expanded.repetitions)
    disk = int(samples * (counters * SAMPLE_BYTES + len(expanded.repetitions) * hosts * 2 * HISTOGRAM_BYTES))
    engines = 2 * hosts + 2 if lab else 2
    written = max((_written(expanded, p.factors, lab, load_s) for p in expanded.points), default=0) if lab else 0
    return Estimate(seconds, disk, engines * ENGINE_BYTES + written, engines)


def _written(expanded: Expanded, factors: dict[str, Any], lab: LabPlan | None, load_s: float) -> int:
    """Most bytes that a repetition can write into memory: what the path carries, or all regions."""
    pattern = expanded.study.patterns[factors["pattern"]]
    read, write = pattern.read_percent / 100, 1 - pattern.read_percent / 100
    rates = [link.rate_bits_per_s for link in lab.links if link.node == lab.array_name] if lab else []
    path = sum(r / 8 for r in rates if r) if rates and all(rates) else LOOPBACK_BYTES_PER_S
    # Reads and writes go in opposite directions: the mix is as fast as its larger part allows.
    rate = path * write / max(read, write)
    return int(min(rate * load_s, factors["vms"] * expanded.study.seats.region_bytes))


def describe(expanded: Expanded, lab: LabPlan | None) -> dict[str, Any]:
    """The plan as `hakaru plan --json` prints it."""
    guess = estimate(expanded, lab)
    return {
        "study": expanded.study.id,
        "quick": expanded.quick,
        "seed": expanded.seed,
        "measure": expanded.measure.model_dump(mode="json"),
        "points": [{"point": p.id, "factors": p.factors} for p in expanded.points],
        "order": [r.name for r in expanded.repetitions],
        "lab": lab.describe() if lab else None,
        "portals": list(lab.portals()) if lab else None,
        "estimate": {
            "seconds": round(guess.seconds),
            "disk_bytes": guess.disk_bytes,
            "memory_bytes": guess.memory_bytes,
            "engines": guess.engines,
        },
    }


def lines(expanded: Expanded, lab: LabPlan | None) -> list[str]:
    """The plan for people."""
    guess, measure = estimate(expanded, lab), expanded.measure
    form = "quick form" if expanded.quick else "full form"
    text = [
        f"{expanded.study.id}: {expanded.study.title.en}",
        f"{len(expanded.points)} points x {measure.repetitions} repetitions ({form}), "
        f"{format_duration(measure.warmup_ns)} warm-up + {format_duration(measure.time_ns)} measured each",
        f"about {guess.seconds / 60:.1f} minutes, at most {_round(guess.disk_bytes)} of disk "
        f"and {_round(guess.memory_bytes)} of memory",
    ]
    if lab:
        text.append(
            f"lab: {len(lab.host_names)} hosts, 1 switch, array at {', '.join(lab.portals())}; {guess.engines} engines"
        )
    text.append(f"seed {expanded.seed}; order: {' '.join(r.name for r in expanded.repetitions)}")
    text.append("points:")
    text += [f"  {p.id}  " + "  ".join(f"{k} {v}" for k, v in p.factors.items()) for p in expanded.points]
    return text


def _round(size: int) -> str:
    unit = 1 << 30 if size >= 1 << 30 else 1 << 20
    return format_size(-(-size // unit) * unit)
