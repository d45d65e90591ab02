"""Whether the emulated network moved frames as its model says (limits and reasons in
docs/methodology/checks.md).

The model decides in its own time what is dropped, marked and paused and how long a link is busy;
these hold however slow the machine is. What a slow machine can spoil is when a frame is handed
over, and whether a packet is seen at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.analysis.counters import Counters
from hakaru.analysis.latency import merge, percentiles_ms
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Use
from hakaru.caveats import Caveat
from hakaru.lost_packets import LOST

LATE_MAX_US = 200.0
LATENESS = "lateness_ns"


def of_repetition(repetition: Repetition, use: dict[str, Use]) -> Iterator[Caveat]:
    """Frames handed over late, and whether the fabric could not keep up (no CPU in `use` where it
    may spin).
    """
    late_us = lateness_us(repetition)
    if late_us is not None and late_us > LATE_MAX_US:
        yield Caveat("fabric_late", {"late_us": late_us})
    if "cpu/fabric" in use and fell_behind(use["cpu/fabric"].percent, late_us):
        yield Caveat("fabric_saturated", {"percent": use["cpu/fabric"].percent})


def fell_behind(cpu_percent: float, late_us: float | None) -> bool:
    """A thread of the fabric was at its limit, and frames came late: a full processor that meets
    its instants is none.

    `late_us`: 99th percentile of lateness; where the fabric does not tell, the processor decides.
    """
    return cpu_percent >= limit_of("cpu/fabric") and (late_us is None or late_us > LATE_MAX_US)


def lateness_us(repetition: Repetition) -> float | None:
    """99th percentile of lateness, µs; None where the fabric does not tell."""
    rows = repetition.histograms.to_pylist() if repetition.histograms.num_rows else []
    told = [r for r in rows if r["engine"] == "fabric" and r["entity"] == "fabric" and r["name"] == LATENESS]
    whole = [r["hdr"] for r in told if r["at_ns"] is None] or [r["hdr"] for r in told]
    return percentiles_ms(merge(whole), [99.0])[0] * 1e3 if whole else None


def lost_outside(counters: Counters) -> float:
    """Packets that the fabric lost outside of its model, to the last sample."""
    return sum(counters.last_total(engine="fabric", entity="interface/", name=n) or 0.0 for n in LOST)
