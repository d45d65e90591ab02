"""A full queue before the network: that of a guest's disk, or that of a host's session."""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import busiest
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.rules.rule import Rule, Verdict, sentence
from hakaru.analysis.rules.turns import WAITING_MIN

SPARE_SHARE = 0.95
"""Share of its limit below which a resource could serve more requests."""


def _holds(evidence: Evidence, waiting: float | None) -> bool:
    """Whether so many wait that the queue is full most of the time, while no device or link is
    near its limit. If none was watched, a slow array may be what fills the queue.
    """
    if waiting is None or waiting < WAITING_MIN or not evidence.watched:
        return False
    return all(percent < SPARE_SHARE * limit_of(r) for r, percent in evidence.watched.items())


def _host(evidence: Evidence) -> Verdict | None:
    waiting = evidence.host_queue_percent
    return Verdict("host_queue", values={"waiting": round(waiting or 0.0)}) if _holds(evidence, waiting) else None


def _guest(evidence: Evidence) -> Verdict | None:
    waiting = evidence.guest_queue_percent
    return Verdict("guest_queue", values={"waiting": round(waiting or 0.0)}) if _holds(evidence, waiting) else None


def _words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    return [sentence(language, verdict), *busiest(language, evidence)]


HOST_QUEUE = Rule(
    "host_queue",
    "load",
    "At least 10 % of the commands in the hosts wait because an LU or a session has its maximum of outstanding "
    "commands, devices or links were watched, and none reaches 95 % of its limit.",
    _host,
    _words,
)
GUEST_QUEUE = Rule(
    "guest_queue",
    "load",
    "At least 10 % of the requests outstanding wait in the guests because the rings of their disks are full, devices "
    "or links were watched, and none reaches 95 % of its limit. Commands that wait in the hosts fill the rings, so "
    "that rule comes first.",
    _guest,
    _words,
)
