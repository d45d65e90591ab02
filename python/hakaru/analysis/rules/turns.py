"""Commands that wait for round trips: for R2Ts, or for their responses because too few commands are
outstanding.
"""

from __future__ import annotations

from hakaru.analysis.bounds import Bound
from hakaru.analysis.rules.arithmetic import bound_words
from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.rule import Rule, Verdict, sentence
from hakaru.wording import say, tenths

NEAR_BOUND = 0.85
OVER_BOUND = 1.05
"""Largest ratio of the rate to a closed form that can explain it. A faster load disproves it."""
R2TS_OFF_MAX = 0.1
PATH_SHARE_MIN = 0.5
"""Smallest share of round trips and transfers in the time of a command, beside the devices."""
WAITING_MIN = 10.0
"""Smallest share in percent that waits for a full queue. Shorter waits are those of bursts."""
SHARE_SHOWN = 1.0
"""Smallest share in percent that is mentioned."""


def _explaining_bound(evidence: Evidence) -> Bound | None:
    """The bound `turns`, if its number of R2Ts agrees with the counters, the rate does not exceed
    it, round trips, transfers and the array's devices account for the rate, and devices take less
    than half of the time; else None.
    """
    bound = evidence.bound("turns")
    if bound is None or not evidence.rtt_ms:
        return None
    rate = (evidence.mb_per_s or 0.0) * 1e6
    if rate > OVER_BOUND * bound.bytes_per_s:
        return None
    load = evidence.load
    accounted = load.rate_bytes_per_s if load is not None and load.rate_bytes_per_s else bound.bytes_per_s
    if rate < NEAR_BOUND * accounted or accounted < PATH_SHARE_MIN * bound.bytes_per_s:
        return None
    return bound if r2ts_agree(evidence, bound) else None


def r2ts_agree(evidence: Evidence, bound: Bound) -> bool:
    """Whether the number of R2Ts counted agrees with the closed form; True if R2Ts were not
    counted.
    """
    counted, r2ts = evidence.r2ts_per_command, bound.numbers["r2ts"]
    return counted is None or abs(counted - r2ts) <= R2TS_OFF_MAX * max(1, r2ts)


def ring_is_full(evidence: Evidence) -> bool:
    """Whether requests wait in the guests for a descriptor, so that more of them would change
    nothing.
    """
    return (evidence.guest_queue_percent or 0.0) >= WAITING_MIN


def _r2ts(evidence: Evidence) -> Verdict | None:
    bound = _explaining_bound(evidence)
    return Verdict("r2t_turns") if bound is not None and bound.numbers["r2ts"] else None


def _few_outstanding(evidence: Evidence) -> Verdict | None:
    bound = None if ring_is_full(evidence) else _explaining_bound(evidence)
    return Verdict("depth") if bound is not None and not bound.numbers["r2ts"] else None


def _words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    parts = [sentence(language, verdict), *bound_words(language, evidence, "turns")]
    percent = evidence.wait_r2t_percent
    if verdict.limiter == "r2t_turns" and percent is not None and percent >= SHARE_SHOWN:
        parts.append(say(language, "because.r2t_turns.phases", {"percent": tenths(percent, language)}))
    return parts


R2T_TURNS = Rule(
    "r2t_turns",
    "load",
    "The rate is at most 105 % of the closed form `turns`, and at least 85 % of that form with the time in the array's "
    "devices added, which is less than half of it. A command waits for R2Ts, and the number of R2Ts counted agrees "
    "with the closed form.",
    _r2ts,
    _words,
)
FEW_TURNS = Rule(
    "depth",
    "load",
    "The rate is at most 105 % of the closed form `turns`, and at least 85 % of that form with the time in the array's "
    "devices added, which is less than half of it. No command waits for R2Ts, too few requests are outstanding, and "
    "less than 10 % of them wait in the guests.",
    _few_outstanding,
    _words,
)
