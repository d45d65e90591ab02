"""TCP stalled by the receiver's window or by the sender's own buffer, as counted by the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from hakaru.analysis.rules.arithmetic import in_flight_words
from hakaru.analysis.rules.evidence import Evidence, Flow
from hakaru.analysis.rules.losses import EXPLAINS
from hakaru.analysis.rules.rule import Rule, Verdict, sentence

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
