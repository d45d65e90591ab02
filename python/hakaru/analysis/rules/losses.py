"""Losses and congestion marks that keep TCP's window small, caused by a switch's buffer, by ECN or
by a lossy line.

These rules hold only if the emulated network counted a drop or a mark, because retransmissions
alone may be spurious. Drops, retransmissions and waiting must belong to the same direction of the
data: a direction that loses little and waits for the array explains nothing about the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hakaru.analysis.rules.arithmetic import count, window_words
from hakaru.analysis.rules.evidence import Evidence, Flow
from hakaru.analysis.rules.rule import Rule, Verdict
from hakaru.units import format_rate, format_size
from hakaru.wording import say, tenths

EXPLAINS = 0.5
"""Share of the unused time from which a stall counts as its cause."""
WIDE = 3.0
"""A congestion window that allows this many times the measured rate does not limit it, unless there
were timeouts.
"""
MARKS_PER_DROP = 10


def window_limits(flow: Flow) -> bool:
    """Whether TCP waited for the path during at least half of the unused time, with a window small
    enough to explain it.
    """
    unused = flow.unused_percent
    if unused is None or flow.tcp_path_percent is None:
        return False
    window, rtt_ms = flow.congestion_window_mb_mean, flow.rtt_ms
    if window and rtt_ms and not flow.timeouts and window / rtt_ms * 1e3 > WIDE * flow.mb_per_s:
        return False
    return flow.tcp_path_percent - (100.0 - unused) >= EXPLAINS * unused


def _held_back(evidence: Evidence, ops: Collection[str] | None) -> Iterator[Flow]:
    """Flows in the directions `ops` (None: in any) that TCP's window limited, by the kernel's
    clocks. Every flow of a copy, which is judged by its waiting for timers.
    """
    if evidence.copying is not None:
        yield from evidence.flows
        return
    for flow in evidence.deciding:
        if (ops is None or flow.op in ops) and window_limits(flow):
            yield flow


def _port_ops(evidence: Evidence) -> Collection[str]:
    """Directions of the data that pass the port."""
    assert evidence.port is not None, "the rules look at it first"
    return (evidence.port.leg,) if evidence.port_ops is None else evidence.port_ops


def _congestion_marks(evidence: Evidence) -> Verdict | None:
    port = evidence.port
    if port is None or port.marked <= 0 or port.marked < MARKS_PER_DROP * port.dropped:
        return None
    waits = evidence.copying is not None and _timers_explain(evidence)
    held_back = next(_held_back(evidence, _port_ops(evidence)), None)
    return None if waits or held_back is None else Verdict("congestion_marks")


def _timers_explain(evidence: Evidence) -> bool:
    copying = evidence.copying
    wait, timeouts = (copying.timeout_wait_percent if copying else None) or 0.0, evidence.timeouts or 0.0
    return timeouts > 0 and wait >= (evidence.unused_percent or 0.0) / 2


def _of_buffer(evidence: Evidence) -> Flow | None:
    """The flow that the drops of the port hold back."""
    if evidence.port is None or evidence.port.dropped <= 0:
        return None
    return next((f for f in _held_back(evidence, _port_ops(evidence)) if f.lossy), None)


def _switch_buffer(evidence: Evidence) -> Verdict | None:
    return None if _of_buffer(evidence) is None else Verdict("switch_buffer")


def _of_line(evidence: Evidence) -> Flow | None:
    """The flow that the losses of lines hold back."""
    if evidence.dropped_by_lines <= 0:
        return None
    return next((f for f in _held_back(evidence, evidence.loss_ops) if f.lossy), None)


def _lossy_line(evidence: Evidence) -> Verdict | None:
    return None if _of_line(evidence) is None else Verdict("congestion_window")


# --- Words


def _switch_buffer_words(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    port = evidence.port
    assert port is not None, "the rule held"
    sender, rate = port.sender_rate_bits_per_s, port.rate_bits_per_s
    faster = bool(sender and rate and sender > rate)
    burst = _port_values(language, evidence) | ({"sender": format_rate(int(sender or 0))} if faster else {})
    sentence = say(language, "because.switch_buffer.bursts" if faster else "because.switch_buffer", burst)
    return [sentence, _other_drops(language, evidence), *_effect_words(language, evidence)]


def _congestion_marks_words(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    assert evidence.port is not None, "the rule held"
    values = _port_values(language, evidence) | {"marked": count(evidence.port.marked)}
    parts = [say(language, "because.congestion_marks", values), _other_drops(language, evidence)]
    if evidence.unused_percent is not None:
        unused = {"unused": tenths(evidence.unused_percent, language)}
        parts.append(say(language, "because.congestion_marks.unused", unused))
    return parts


def _port_values(language: str, evidence: Evidence) -> dict[str, object]:
    """Values for a sentence about the port that drops or marks frames."""
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


def _other_drops(language: str, evidence: Evidence) -> str:
    elsewhere = count(evidence.dropped_elsewhere)
    return say(language, "because.elsewhere" if elsewhere else "because.elsewhere.none", {"frames": elsewhere})


def _effect_words(language: str, evidence: Evidence) -> list[str]:
    """Sentences about the effect of losses. Copy: the time that jobs waited for timers. Load of
    VMs: retransmissions, timeouts and the window.
    """
    copying = evidence.copying
    if copying is None:
        return _retransmission_words(language, _of_buffer(evidence))
    wait, unused, timeouts = copying.timeout_wait_percent, evidence.unused_percent, evidence.timeouts
    if timeouts is None or wait is None:
        return [say(language, "because.waiting.unknown")]
    values = {"jobs": copying.jobs, "wait": tenths(wait, language), "unused": tenths(unused, language)}
    if timeouts == 0:
        return [say(language, "because.waiting.none", values)]
    message = "explains" if unused is not None and wait >= unused / 2 else "partly"
    return [say(language, f"because.waiting.{message}", values | {"count": count(timeouts)})]


def _retransmission_words(language: str, flow: Flow | None) -> list[str]:
    assert flow is not None, "the rule held"
    parts = [say(language, "because.congestion_window", {"again": flow.retransmitted_percent})]
    if flow.timeouts:
        values = {"count": count(flow.timeouts), "wait": flow.timeout_wait_s}
        parts.append(say(language, "because.congestion_window.timeouts", values))
    return [*parts, *window_words(language, flow)]


def _lossy_line_words(language: str, _: Verdict, evidence: Evidence) -> list[str]:
    return _retransmission_words(language, _of_line(evidence))


CONGESTION_MARKS = Rule(
    "congestion_marks",
    "network",
    "A port whose link is not at its limit marked frames (ECN), at least ten for each frame that it dropped. Copies: "
    "waiting for timers does not explain half of the unused path. Loads of VMs: in a direction of the data that passes "
    "the port, TCP waited for the path during at least half of the unused time.",
    _congestion_marks,
    _congestion_marks_words,
)
SWITCH_BUFFER = Rule(
    "switch_buffer",
    "network",
    "A port whose link is not at its limit dropped frames, and TCP retransmitted or its timers expired. Loads of VMs: "
    "they did so in a direction of the data that passes the port, and in the same direction TCP waited for the path "
    "during at least half of the unused time.",
    _switch_buffer,
    _switch_buffer_words,
)
CONGESTION_WINDOW = Rule(
    "congestion_window",
    "network",
    "A link lost frames of data at the loss rate that the study sets. In the direction of these frames, TCP "
    "retransmitted or its timers expired, and TCP waited for the path during at least half of the unused time.",
    _lossy_line,
    _lossy_line_words,
)
__all__ = ["CONGESTION_MARKS", "CONGESTION_WINDOW", "SWITCH_BUFFER", "window_limits"]
