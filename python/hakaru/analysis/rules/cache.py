"""A full write cache: writes wait until the drives have written earlier data."""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.wording import say, tenths

STALLED_PERCENT = 50.0


def _evaluate(evidence: Evidence) -> Verdict | None:
    cache = evidence.cache
    if cache is None or cache.stalled_percent < STALLED_PERCENT:
        return None
    return Verdict("cache", "cache", cache.pending_percent, cache.stalled_percent / 100)


def _words(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    assert evidence.cache is not None, "the rule held"
    values = {
        "pending": tenths(evidence.cache.pending_percent, language),
        "stalled": tenths(evidence.cache.stalled_percent, language),
    }
    return [say(language, "because.cache", values)]


CACHE = Rule(
    "cache",
    "device",
    "Waiting for space below the write-pending limit of the array's cache is at least half of the time that requests "
    "spend in the array. The array then runs at the speed of its drives.",
    _evaluate,
    _words,
)
