"""A rate limit that the study sets for its senders."""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.rule import Rule, Verdict

REACHED_PERCENT = 90.0


def _evaluate(evidence: Evidence) -> Verdict | None:
    limit, rate = evidence.asked_bytes_per_s, (evidence.mb_per_s or 0.0) * 1e6
    if limit and 100 * rate >= REACHED_PERCENT * limit:
        return Verdict("rate_limit")
    throttled = {r: evidence.used[r] for r in evidence.throttled_links if evidence.used.get(r, 0.0) >= REACHED_PERCENT}
    fullest = max(sorted(throttled), key=lambda r: throttled[r], default=None)
    return Verdict("rate_limit", fullest, throttled[fullest]) if fullest else None


RATE_LIMIT = Rule(
    "rate_limit",
    "load",
    "Jobs, or the host's port, reach at least 90 % of the rate limit that the study sets for them.",
    _evaluate,
)
