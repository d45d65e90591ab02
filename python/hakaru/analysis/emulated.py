"""Checks that the emulated network moved frames as its model says (limits and reasons:
docs/methodology/checks.md).

The model decides in its own virtual time what it drops, marks and pauses, and how long a link is
busy. These results do not depend on the speed of the machine. A slow machine can deliver frames
late, or miss packets altogether.
"""

from __future__ import annotations

from collections.abc import Iterator

from hakaru.analysis.latency import merge, percentiles_ms
from hakaru.analysis.rules.limits import LATE_MAX_US, fell_behind
from hakaru.analysis.run_data import Repetition
from hakaru.analysis.utilisation import Use
from hakaru.caveats import Caveat
from hakaru.lost_packets import LOST

LATENESS = "lateness_ns"


def of_repetition(repetition: Repetition, use: dict[str, Use]) -> Iterator[Caveat]:
    """Caveats for frames that were delivered late and for a fabric that could not keep up. `use`
    has no `cpu/fabric` if the fabric may busy-poll.
    """
    late_us = lateness_us(repetition)
    if late_us is not None and late_us > LATE_MAX_US:
        yield Caveat("fabric_late", {"late_us": late_us})
    if "cpu/fabric" in use and fell_behind(use["cpu/fabric"].percent, late_us):
        yield Caveat("fabric_saturated", {"percent": use["cpu/fabric"].percent})


def lateness_us(repetition: Repetition) -> float | None:
    """99th percentile of the lateness of frames in the measuring phase, µs; None if the fabric does
    not report it. Without samples in that phase, it is that of the whole engine run.
    """
    rows = repetition.histograms.to_pylist() if repetition.histograms.num_rows else []
    lateness_rows = [r for r in rows if r["engine"] == "fabric" and r["entity"] == "fabric" and r["name"] == LATENESS]
    begin, end = repetition.window
    measured = [r["hdr"] for r in lateness_rows if r["at_ns"] is not None and begin < r["at_ns"] <= end]
    histograms = measured or [r["hdr"] for r in lateness_rows if r["at_ns"] is None]
    return percentiles_ms(merge(histograms), [99.0])[0] * 1e3 if histograms else None


def lost_outside(repetition: Repetition) -> float:
    """Packets that the fabric lost outside its model in the measuring phase."""
    selected = (repetition.counters.select(engine="fabric", entity="interface/", name=name) for name in LOST)
    return sum(series.grown(*repetition.window) for each in selected for _, series in each)
