"""TCP that still increased its congestion window during the measurement."""

from __future__ import annotations

from hakaru.analysis.rules.arithmetic import window_words
from hakaru.analysis.rules.evidence import Evidence, Flow
from hakaru.analysis.rules.losses import window_limits
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.wording import say

GROWTH = 1.2
"""Smallest ratio of the congestion windows at the end and at the start that counts as growth (slow
start or congestion avoidance).
"""


def _growing(evidence: Evidence) -> Flow | None:
    """The flow whose window grew and held it back. The window of a flow that waits for the array
    may grow as well.
    """
    growing = (f for f in evidence.deciding if (f.window_growth or 0.0) >= GROWTH and f.retransmitted_percent == 0)
    return next((f for f in growing if window_limits(f)), None)


def _evaluate(evidence: Evidence) -> Verdict | None:
    flow = _growing(evidence)
    return None if flow is None else Verdict("slow_start", values={"op": flow.op})


def _words(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    flow = _growing(evidence)
    assert flow is not None and flow.window_growth is not None, "the rule held"
    first = say(language, "because.slow_start", {"growth": round(flow.window_growth, 2)})
    return [first, *window_words(language, flow)]


SLOW_START = Rule(
    "slow_start",
    "tcp",
    "TCP retransmitted nothing, its congestion window grew by at least 20 % from the first third of the measurement to "
    "the last, and TCP waited for the path during at least half of the time that the busiest link was unused.",
    _evaluate,
    _words,
)
