"""Losses and congestion marks on the way that keep TCP's window small: by a switch's buffer, by
ECN, by a bad line.

None of these rules holds unless the emulated network counted a drop or a mark: bytes sent again
alone may be spurious.
"""

from __future__ import annotations

from hakaru.analysis.rules.arithmetic import count, window_words
from hakaru.analysis.rules.evidence import Evidence, Flow
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.units import format_rate, format_size
from hakaru.wording import say, tenths

EXPLAINS = 0.5
"""Share of the unused time from which a stall is its reason."""
WIDE = 3.0
"""A congestion window that would carry so many times what was reached holds nothing back, unless
timers ran.
"""
MARKS_PER_DROP = 10


def window_holds_back(flow: Flow) -> bool:
    """Whether TCP waited for the path most of the unused time, with a window that could explain
    it.
    """
    unused = flow.unused_percent
    if unused is None or flow.tcp_path_percent is None:
        return False
    window, rtt_ms = flow.congestion_window_mb_mean, flow.rtt_ms
    if window and rtt_ms and not flow.timeouts and window / rtt_ms * 1e3 > WIDE * flow.mb_per_s:
        return False
    return flow.tcp_path_percent - (100.0 - unused) >= EXPLAINS * unused


def _held_back(evidence: Evidence) -> bool:
    """By the kernel's clocks where a load has them; a copy has its waiting for timers instead."""
    return evidence.copying is not None or any(window_holds_back(f) for f in evidence.deciding)


def _lossy(evidence: Evidence) -> bool:
    return any(flow.lossy for flow in evidence.flows)


def _marks(evidence: Evidence) -> Verdict | None:
    port = evidence.port
    if port is None or port.marked <= 0 or port.marked < MARKS_PER_DROP * port.dropped:
        return None
    waits = evidence.copying is not None and _waiting_explains(evidence)
    return None if waits or not _held_back(evidence) else Verdict("congestion_marks")


def _waiting_explains(evidence: Evidence) -> bool:
    copying = evidence.copying
    wait, timeouts = (copying.timeout_wait_percent if copying else None) or 0.0, evidence.timeouts or 0.0
    return timeouts > 0 and wait >= (evidence.unused_percent or 0.0) / 2


def _buffer(evidence: Evidence) -> Verdict | None:
    dropped = evidence.port is not None and evidence.port.dropped > 0
    return Verdict("switch_buffer") if dropped and _lossy(evidence) and _held_back(evidence) else None


def _line(evidence: Evidence) -> Verdict | None:
    lossy = evidence.dropped_by_lines > 0 and _lossy(evidence)
    return Verdict("congestion_window") if lossy and _held_back(evidence) else None


# --- Words


def _overflow(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    port = evidence.port
    assert port is not None, "the rule held"
    sender, rate = port.sender_rate_bits_per_s, port.rate_bits_per_s
    faster = bool(sender and rate and sender > rate)
    burst = _port(language, evidence) | ({"sender": format_rate(int(sender or 0))} if faster else {})
    first = say(language, "because.switch_buffer.bursts" if faster else "because.switch_buffer", burst)
    return [first, _elsewhere(language, evidence), *_waiting(language, evidence)]


def _marked(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    assert evidence.port is not None, "the rule held"
    values = _port(language, evidence) | {"marked": count(evidence.port.marked)}
    parts = [say(language, "because.congestion_marks", values), _elsewhere(language, evidence)]
    if evidence.unused_percent is not None:
        unused = {"unused": tenths(evidence.unused_percent, language)}
        parts.append(say(language, "because.congestion_marks.unused", unused))
    return parts


def _port(language: str, evidence: Evidence) -> dict[str, object]:
    """The port that drops or marks, in words."""
    port = evidence.port
    assert port is not None, "the rule held"
    rate = port.rate_bits_per_s
    return {
        "switch": port.source,
        "target": port.target,
        "rate": format_rate(int(rate)) if rate else say(language, "lab.unlimited"),
        "queue": format_size(port.queue_bytes) if port.queue_bytes else "–",
        "dropped": count(port.dropped),
        "frames": count(port.frames),
    }


def _elsewhere(language: str, evidence: Evidence) -> str:
    elsewhere = count(evidence.dropped_elsewhere)
    return say(language, "because.elsewhere" if elsewhere else "because.elsewhere.none", {"frames": elsewhere})


def _waiting(language: str, evidence: Evidence) -> list[str]:
    """A copy: how long its jobs waited for timers. A load: bytes sent again, timers and the
    window.
    """
    copying = evidence.copying
    if copying is None:
        return _resent(language, evidence)
    wait, unused, timeouts = copying.timeout_wait_percent, evidence.unused_percent, evidence.timeouts
    if timeouts is None or wait is None:
        return [say(language, "because.waiting.unknown")]
    values = {"jobs": copying.jobs, "wait": tenths(wait, language), "unused": tenths(unused, language)}
    if timeouts == 0:
        return [say(language, "because.waiting.none", values)]
    message = "explains" if unused is not None and wait >= unused / 2 else "partly"
    return [say(language, f"because.waiting.{message}", values | {"count": count(timeouts)})]


def _resent(language: str, evidence: Evidence) -> list[str]:
    flow = next((f for f in evidence.deciding if window_holds_back(f)), evidence.flows[0])
    parts = [say(language, "because.congestion_window", {"again": flow.retransmitted_percent})]
    if flow.timeouts:
        values = {"count": count(flow.timeouts), "wait": flow.timeout_wait_s}
        parts.append(say(language, "because.congestion_window.timeouts", values))
    return [*parts, *window_words(language, flow)]


def _line_words(language: str, verdict: Verdict, evidence: Evidence) -> list[str]:
    del verdict
    return _resent(language, evidence) if evidence.copying is None else _waiting(language, evidence)


CONGESTION_MARKS = Rule(
    "congestion_marks",
    "network",
    "A port whose link is not at its limit marked frames (ECN), at least ten for each frame that it dropped, and "
    "waiting for timers does not explain most of the unused path.",
    _marks,
    _marked,
)
SWITCH_BUFFER = Rule(
    "switch_buffer",
    "network",
    "A port whose link is not at its limit dropped frames, TCP retransmitted or its timers expired, and (loads of VMs "
    "only) TCP waited for the path during at least half of the unused time.",
    _buffer,
    _overflow,
)
CONGESTION_WINDOW = Rule(
    "congestion_window",
    "network",
    "A link lost frames at the loss rate that the study sets, TCP retransmitted or its timers expired, and TCP waited "
    "for the path during at least half of the unused time.",
    _line,
    _line_words,
)
__all__ = ["CONGESTION_MARKS", "CONGESTION_WINDOW", "SWITCH_BUFFER", "window_holds_back"]
