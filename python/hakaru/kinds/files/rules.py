"""The possible bottlenecks of a load on files, in the order in which they are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.fabric import FABRIC
from hakaru.analysis.rules.judge import Stages
from hakaru.analysis.rules.link import LINK
from hakaru.analysis.rules.processor import ARRAY_CPU, MACHINE_CPU
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.wording import say, tenths

WAITED_PERCENT = 50.0
DELAY_MS = 10.0
"""Delay of the begin of operations, 99th percentile, from which on the tool limits the load."""
REACHED_PERCENT = 98.0
"""Share of the requested rate from which on it is reached."""


@dataclass(frozen=True)
class FilesEvidence(Evidence):
    """Evidence of a load on files."""

    served: bool = False
    """Whether the files are on a file server."""
    time_percent: Mapping[str, float] = field(default_factory=dict)
    """Operation → share of the tools' time in which they waited for it."""
    is_of_users: bool = False
    """Whether the tools are users, who wait between operations."""
    achieved_percent: float | None = None
    """Rate in percent of the requested one; None without a request."""
    delay_ms: float | None = None
    """Time by which users begin late although they are free, 99th percentile."""

    def to_json(self) -> dict[str, Any]:
        """As `Evidence.to_json`, with the shares."""
        found = super().to_json() | {"time_percent": dict(self.time_percent)}
        if self.is_of_users:
            found |= {"achieved_percent": self.achieved_percent, "delay_ms": self.delay_ms}
        return found


def _waited(name: str, *, served: bool) -> Callable[[Evidence], Verdict | None]:
    def evaluate(evidence: Evidence) -> Verdict | None:
        if not isinstance(evidence, FilesEvidence) or evidence.served != served:
            return None
        # Tools wait for a server behind a full link, or far away, just as long.
        if served and not any(resource.startswith("link/") for resource in evidence.used):
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


def _late(evidence: Evidence) -> Verdict | None:
    if not isinstance(evidence, FilesEvidence) or (evidence.delay_ms or 0.0) < DELAY_MS:
        return None
    return Verdict("users_late", values={"delay": evidence.delay_ms})


def _late_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    return [say(language, "because.users_late", {"delay": tenths(verdict.values["delay"], language)})]


def _offered(evidence: Evidence) -> Verdict | None:
    if not isinstance(evidence, FilesEvidence) or not evidence.is_of_users:
        return None
    achieved, waited = evidence.achieved_percent, sum(evidence.time_percent.values())
    is_reached = waited < WAITED_PERCENT if achieved is None else achieved >= REACHED_PERCENT
    return Verdict("users", percent=waited, values={"achieved": achieved}) if is_reached else None


def _offered_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    achieved = verdict.values["achieved"]
    if achieved is None:
        return [say(language, "because.users", {"percent": tenths(verdict.percent, language)})]
    return [say(language, "because.users.rate", {"achieved": tenths(achieved, language)})]


USERS_LATE = Rule(
    "users_late",
    "test setup",
    "Operations of users begin at least 10 ms (99th percentile) after their instant, although their user is free.",
    _late,
    _late_words,
)
USERS = Rule(
    "users",
    "load",
    "At least 98 % of the rate that the study requests from users is reached; or users with think times wait for "
    "operations for less than half of their time.",
    _offered,
    _offered_words,
)
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
    "The same for tools whose files are on a file server, if links were watched and none is full either.",
    _waited("file_server", served=True),
    _words,
)
STAGES: Stages = ((FABRIC,), (LINK,), (ARRAY_CPU,), (MACHINE_CPU,), (USERS_LATE,), (USERS,), (FILE_SYSTEM, FILE_SERVER))
