"""The possible bottlenecks of a load on files, in the order in which they are evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.rules.processor import MACHINE_CPU
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.wording import say, tenths

WAITED_PERCENT = 50.0


@dataclass(frozen=True)
class FilesEvidence(Evidence):
    """Evidence of a load on files."""

    time_percent: Mapping[str, float] = field(default_factory=dict)
    """Operation → share of the tools' time in which they waited for it."""

    def to_json(self) -> dict[str, Any]:
        """As `Evidence.to_json`, with the shares."""
        return super().to_json() | {"time_percent": dict(self.time_percent)}


def _file_system(evidence: Evidence) -> Verdict | None:
    shares = evidence.time_percent if isinstance(evidence, FilesEvidence) else {}
    waited = sum(shares.values())
    if waited < WAITED_PERCENT:
        return None
    longest = max(shares, key=lambda name: shares[name])
    return Verdict("file_system", percent=waited, values={"operation": longest, "share": shares[longest]})


def _file_system_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    values = {
        "percent": tenths(verdict.percent, language),
        "operation": say(language, f"operation.{verdict.values['operation']}"),
        "share": tenths(verdict.values["share"], language),
    }
    return [say(language, "because.file_system", values)]


FILE_SYSTEM = Rule(
    "file_system",
    "device",
    "Tools of a load on files wait for the file system for at least half of their time, and the machine is not full.",
    _file_system,
    _file_system_words,
)
STAGES: Stages = ((MACHINE_CPU,), (FILE_SYSTEM,))
