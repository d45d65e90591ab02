"""The possible bottlenecks of a load on files, in the order in which they are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.rules.link import LINK
from hakaru.analysis.rules.processor import MACHINE_CPU
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.wording import say, tenths

WAITED_PERCENT = 50.0


@dataclass(frozen=True)
class FilesEvidence(Evidence):
    """Evidence of a load on files."""

    served: bool = False
    """Whether the files are on a file server."""
    time_percent: Mapping[str, float] = field(default_factory=dict)
    """Operation → share of the tools' time in which they waited for it."""

    def to_json(self) -> dict[str, Any]:
        """As `Evidence.to_json`, with the shares."""
        return super().to_json() | {"time_percent": dict(self.time_percent)}


def _waited(name: str, *, served: bool) -> Callable[[Evidence], Verdict | None]:
    def evaluate(evidence: Evidence) -> Verdict | None:
        if not isinstance(evidence, FilesEvidence) or evidence.served != served:
            return None
        shares = evidence.time_percent
        waited = sum(shares.values())
        if waited < WAITED_PERCENT:
            return None
        longest = max(shares, key=lambda operation: shares[operation])
        return Verdict(name, percent=waited, values={"operation": longest, "share": shares[longest]})

    return evaluate


def _words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    values = {
        "percent": tenths(verdict.percent, language),
        "operation": say(language, f"operation.{verdict.values['operation']}"),
        "share": tenths(verdict.values["share"], language),
    }
    return [say(language, f"because.{verdict.limiter}", values)]


FILE_SYSTEM = Rule(
    "file_system",
    "device",
    "Tools of a load on files wait for the file system for at least half of their time, and the machine is not full.",
    _waited("file_system", served=False),
    _words,
)
FILE_SERVER = Rule(
    "file_server",
    "device",
    "The same for tools whose files are on a file server, if no link is full either.",
    _waited("file_server", served=True),
    _words,
)
STAGES: Stages = ((LINK,), (MACHINE_CPU,), (FILE_SYSTEM, FILE_SERVER))
