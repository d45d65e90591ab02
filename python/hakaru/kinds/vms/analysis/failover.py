"""Results of one repetition of VMs with several paths each: lost paths, what became of their
commands, and the longest gap in service beside the sum of the timers that cause it.
"""

from __future__ import annotations

from hakaru.analysis.run_data import Repetition
from hakaru.kinds.vms.analysis.metrics import quotient

ENTITIES = "paths/"
"""Entities of the counters of paths, one per VM (docs/reference/metrics.md)."""
UNITS: dict[str, str] = {
    "path_losses": "losses",
    "path_switches": "switches",
    "commands_repeated": "commands",
    "gap_ms_max": "ms",
    "failover_ms_mean": "ms",
    "failover_timers_ms": "ms",
    "failback_ms_mean": "ms",
}
"""Metrics of loads with `paths_per_vm`, and their units, in the order of the report."""


def of_repetition(repetition: Repetition, timers_ms: float | None) -> dict[str, float]:
    """Metric → value; empty without several paths (`timers_ms` None).

    The counts are those of the measuring phase, in the samples around it. The gap is the longest of
    any VM up to the end of the phase, as seen by the VM's host. Counts that the initiator does not
    report, as the kernel's, or only at the end, are NaN. So is a mean time of failovers or of
    failbacks of which the phase completed none.
    """
    if timers_ms is None:
        return {}
    counters, (start_ns, end_ns) = repetition.counters, repetition.window

    def grown(name: str) -> float:
        selected = [series for _, series in counters.select(engine="initiator", entity=ENTITIES, name=name)]
        # Of many VMs, only the last sample has counters of each one's paths.
        is_known = bool(selected) and all(len(series.at_ns) > 1 for series in selected)
        return sum(series.grown(start_ns, end_ns) for series in selected) if is_known else float("nan")

    gaps = counters.select(engine="initiator", entity=ENTITIES, name="longest_gap_ns_now")
    return {
        "path_losses": grown("path_losses"),
        "path_switches": grown("path_switches"),
        "commands_repeated": grown("commands_repeated"),
        "gap_ms_max": max((series.at(end_ns) for _, series in gaps), default=float("nan")) / 1e6,
        "failover_ms_mean": quotient(grown("failover_ns_sum"), grown("failovers")) / 1e6,
        "failover_timers_ms": timers_ms,
        "failback_ms_mean": quotient(grown("failback_ns_sum"), grown("failbacks")) / 1e6,
    }
