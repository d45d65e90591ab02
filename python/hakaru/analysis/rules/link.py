"""A link that is full in the direction of the data or of the replies."""

from __future__ import annotations

from hakaru.analysis.rules.arithmetic import bound_words
from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.limits import fill_of, limit_of
from hakaru.analysis.rules.rule import Rule, Verdict, sentence


def _evaluate(evidence: Evidence) -> Verdict | None:
    links = {r: p for r, p in evidence.used.items() if r.startswith("link/") and r not in evidence.throttled_links}
    fullest = max(links, key=lambda r: links[r], default=None)
    if fullest is None or links[fullest] < limit_of(fullest):
        return None
    return Verdict("link", fullest, links[fullest], fill_of(fullest, links[fullest]))


def _words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    return [sentence(language, verdict), *bound_words(language, evidence, "link")]


LINK = Rule(
    "link",
    "link",
    "A link is busy at least 90 % of the time in one direction. Drops in front of a full link are normal: TCP finds "
    "the link's rate by them. A link whose node has a rate limit below the link's rate does not count.",
    _evaluate,
    _words,
)
