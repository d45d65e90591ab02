"""A tape drive that takes data at its native rate."""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.rule import Rule, Verdict

REACHED_PERCENT = 97.0


def _evaluate(evidence: Evidence) -> Verdict | None:
    percent = evidence.tape_percent
    return Verdict("tape_drive") if percent is not None and percent >= REACHED_PERCENT else None


TAPE_DRIVE = Rule(
    "tape_drive",
    "device",
    "Data arrives at the tape drives at 97 % or more of the rate that their generation can write.",
    _evaluate,
)
