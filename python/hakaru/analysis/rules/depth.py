"""Too few requests outstanding: a closed load that keeps its queue depth while no resource is near
its limit.
"""

from __future__ import annotations

from hakaru.analysis.rules.evidence import Evidence
from hakaru.analysis.rules.judge import busiest
from hakaru.analysis.rules.limits import limit_of
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.analysis.rules.turns import NEAR_BOUND, r2ts_agree, ring_is_full
from hakaru.units import format_size
from hakaru.wording import say, tenths

LOW_SHARE = 0.75
"""Share of its limit below which a resource could serve more requests at once."""
KEPT_SHARE = 0.9
LITTLE_MAX = 0.1


def _low_use(evidence: Evidence) -> Verdict | None:
    """The load kept its queue depth, devices and links were monitored, and every resource is used
    to less than three quarters of its limit.

    If the times of round trips, transfer and devices are known, they must account for the rate. A
    load that is much slower waits for something that is not measured.
    """
    load = evidence.load
    if (
        load is None
        or not evidence.watched
        or ring_is_full(evidence)
        or (load.outstanding or 0.0) < KEPT_SHARE * load.asked
    ):
        return None
    if _is_used(evidence):
        return None
    if load.rate_bytes_per_s and (evidence.mb_per_s or 0.0) * 1e6 < NEAR_BOUND * load.rate_bytes_per_s:
        return None
    bound = evidence.bound("turns") if evidence.rtt_ms else None
    if bound is not None and (bound.numbers["r2ts"] or not r2ts_agree(evidence, bound)):
        return None
    return Verdict("depth", values={"outstanding": load.asked})


def _is_used(evidence: Evidence) -> bool:
    """Whether a resource is used to at least three quarters of its limit."""
    return any(percent >= LOW_SHARE * limit_of(r) for r, percent in evidence.used.items())


def _blocks_explain_rate(evidence: Evidence) -> Verdict | None:
    """Little's law: the number of blocks outstanding, divided by the time that each takes, equals
    the rate.
    """
    load, rate = evidence.load, (evidence.mb_per_s or 0.0) * 1e6
    if load is None or not load.rate_bytes_per_s or not evidence.watched or any(f.lossy for f in evidence.flows):
        return None
    # A block also takes long where a device is busy, or where TCP waits for its losses.
    if _is_used(evidence):
        return None
    return Verdict("depth") if abs(rate / load.rate_bytes_per_s - 1) <= LITTLE_MAX else None


def _low_use_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    values = {"count": verdict.values["outstanding"]}
    # The requests may spend their time in devices, and the lab may have no delay.
    few = say(language, "because.depth.few")
    return [few, say(language, "because.depth.low", values), *busiest(language, evidence)]


def _blocks_words(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    copying = evidence.copying
    assert copying is not None, "the rule is a copy's"
    values = {
        "blocks": copying.jobs * copying.streams * copying.depth,
        "block": format_size(copying.block_bytes),
        "read": tenths(copying.read_latency_ms_mean, language),
        "write": tenths(copying.write_latency_ms_mean, language),
    }
    return [say(language, "because.depth.blocks", values), *busiest(language, evidence)]


LOW_USE = Rule(
    "depth",
    "load",
    "The load is closed and keeps its queue depth, less than 10 % of the requests wait in the guests, devices and "
    "links were watched, no utilisation reaches 75 % of its limit, and round trips, transfer and service times of the "
    "array's devices account for at least 85 % of the rate. More requests outstanding would raise the rate.",
    _low_use,
    _low_use_words,
)
BLOCKS = Rule(
    "depth",
    "load",
    "The number of blocks that may be outstanding (jobs x streams x depth), divided by the time to read and write a "
    "block, equals the rate within 10 %. This is true of every copy that keeps its depth, so this rule comes last. "
    "Devices and links were watched, no utilisation reaches 75 % of its limit, and TCP lost nothing.",
    _blocks_explain_rate,
    _blocks_words,
)
