"""TCP stalled by the receiver's window or by the sender's own buffer, as counted by the kernel or
as shown by the data in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hakaru.analysis.rules.arithmetic import in_flight_words
from hakaru.analysis.rules.evidence import Evidence, Flow
from hakaru.analysis.rules.losses import EXPLAINS
from hakaru.analysis.rules.rule import Rule, Verdict, sentence
from hakaru.wording import say

Stall = Literal["receive_window", "send_buffer"]


def _share(flow: Flow, stall: Stall) -> float:
    percent = flow.tcp_receive_window_percent if stall == "receive_window" else flow.tcp_send_buffer_percent
    return percent or 0.0


def _stalled(flow: Flow) -> Stall | None:
    """The longer of both stalls, if it is at least half of the time in which the link sent nothing;
    else None.
    """
    unused = flow.unused_percent
    if unused is None:
        return None
    stalls: tuple[Stall, Stall] = ("receive_window", "send_buffer")
    longest = max(stalls, key=lambda stall: _share(flow, stall))
    return longest if _share(flow, longest) > 0 and _share(flow, longest) >= EXPLAINS * unused else None


def _stalled_by(stall: Stall) -> Callable[[Evidence], Verdict | None]:
    def evaluate(evidence: Evidence) -> Verdict | None:
        flow = next((f for f in evidence.deciding if _stalled(f) == stall), None)
        return Verdict(stall, percent=_share(flow, stall), values={"op": flow.op}) if flow else None

    return evaluate


def _words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    flow = next(f for f in evidence.flows if f.op == verdict.values["op"])
    side: Literal["send", "receive"] = "send" if verdict.limiter == "send_buffer" else "receive"
    return [sentence(language, verdict), *in_flight_words(language, flow, evidence, side)]


RECEIVE_WINDOW = Rule(
    "receive_window",
    "tcp",
    "The time that the kernel counts in `tcpi_rwnd_limited` for the sender's connections is at least half of the "
    "unused time.",
    _stalled_by("receive_window"),
    _words,
)
SEND_BUFFER = Rule(
    "send_buffer",
    "tcp",
    "The time that the kernel counts in `tcpi_sndbuf_limited` for the sender's connections is at least half of the "
    "unused time.",
    _stalled_by("send_buffer"),
    _words,
)

IDLE_PERCENT = 10.0
"""Largest share of time without data to send, and largest share of time stalled by the receiver's
window, at which the sender's buffer alone explains the data in flight.
"""
WINDOW_SHARE = 0.5
"""Largest share of the congestion window that a small send buffer leaves in flight."""
BUFFER_SHARE = 0.9
"""Smallest share of the buffer that is in flight if the buffer is full."""


def _filled_buffer(evidence: Evidence) -> Flow | None:
    """The direction whose sender has its buffer full in flight and uses little of the congestion
    window, although it has data to send and the receiver's window is open.
    """
    size = evidence.buffers_bytes.get("send")
    if size is None:
        return None
    full_mb = BUFFER_SHARE * size * evidence.connections / 1e6
    # The buffer's size is known for the direction with most payload, which comes first.
    flow = evidence.flows[0] if evidence.flows else None
    return flow if flow is not None and _is_short_of_buffer(flow, full_mb) else None


def _is_short_of_buffer(flow: Flow, full_mb: float) -> bool:
    idle, stalled = flow.tcp_idle_percent, flow.tcp_receive_window_percent
    window, in_flight = flow.congestion_window_mb_mean, flow.in_flight_mb_max
    if idle is None or stalled is None or window is None or in_flight is None:
        return False
    return idle < IDLE_PERCENT and stalled < IDLE_PERCENT and full_mb <= in_flight <= WINDOW_SHARE * window


def _evaluate_in_flight(evidence: Evidence) -> Verdict | None:
    flow = _filled_buffer(evidence)
    return None if flow is None else Verdict("send_buffer", values={"op": flow.op})


def _in_flight_sentences(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    flow = _filled_buffer(evidence)
    assert flow is not None, "the rule held"
    values = {"in_flight": flow.in_flight_mb_max, "window": flow.congestion_window_mb_mean}
    first = say(language, "because.send_buffer.in_flight", values)
    return [first, *in_flight_words(language, flow, evidence, "send")]


SEND_BUFFER_IN_FLIGHT = Rule(
    "send_buffer",
    "tcp",
    "A send buffer of a known size was in flight in full, which was never more than half of the congestion window, "
    "and TCP had data to send and an open receive window over 90 % of the time.",
    _evaluate_in_flight,
    _in_flight_sentences,
)
"""Linux counts `tcpi_sndbuf_limited` only while its send queue is empty, so packets that wait for
segmentation hide a small buffer from `SEND_BUFFER`.
"""
