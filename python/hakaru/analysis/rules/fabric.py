"""The emulated network itself: it lost packets that a real network would not lose, or was late."""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.limits import fell_behind, fill_of
from hakaru.analysis.rules.rule import Rule, Verdict, sentence

AT_BOUND_PERCENT = 95.0
"""Share of the lowest closed form from which the rate is valid in spite of a late network: lateness
can only slow a load.
"""
CPU = "cpu/fabric"


def _evaluate(evidence: Evidence) -> Verdict | None:
    if evidence.lost_packets > (evidence.dropped_frames or 0.0):
        return Verdict("fabric", fill=1.0, values={"lost": round(evidence.lost_packets, 1)})
    percent = evidence.used.get(CPU, 0.0)
    if fell_behind(percent, evidence.late_us) and (evidence.bound_share_percent or 0.0) < AT_BOUND_PERCENT:
        return Verdict("fabric", CPU, percent, fill_of(CPU, percent))
    return None


def _words(language: str, verdict: Verdict, _: Evidence) -> list[str]:
    return [sentence(language, verdict, "because.fabric" if verdict.resource else "because.fabric.lost")]


FABRIC = Rule(
    "fabric",
    "test setup",
    "The emulated network lost more packets outside its model than the model dropped. Or: its busiest thread uses at "
    "least 90 % of a CPU, the 99th percentile of the frames' lateness exceeds 200 µs, and the rate is below 95 % of "
    "the lowest closed form.",
    _evaluate,
    _words,
)
