"""Sentences with the arithmetic behind a verdict: closed forms, windows over round-trip times,
counts.
"""

from __future__ import annotations

from typing import Literal

from hakaru.analysis.bounds import Bound
from hakaru.analysis.rules.evidence import Evidence, Flow
from hakaru.units import format_rate, format_size
from hakaru.wording import say


def bound_words(language: str, evidence: Evidence, name: str) -> list[str]:
    """A sentence about a closed form and its terms: `512 KiB per command; 3 round trips of 20 ms
    and 4.5 ms of transfer`. Empty if the evidence lacks that form.
    """
    bound = evidence.bound(name)
    if bound is None:
        return []
    message, values = _message_of(bound)
    return [say(language, message, values | {"mb_per_s": bound.bytes_per_s / 1e6})]


def _message_of(bound: Bound) -> tuple[str, dict[str, object]]:
    numbers = bound.numbers
    if bound.name == "link":
        return "bound.link", {"rate": format_rate(int(numbers["rate_bits_per_s"]))}
    if bound.name == "window":
        return "bound.window", {"window": numbers["window_bytes"] / 1e6, "rtt": _ms(numbers["rtt_s"])}
    values: dict[str, object] = {
        "size": format_size(numbers["command_bytes"]),
        "request": format_size(numbers["request_bytes"]),
        "commands": numbers["commands_per_request"],
        "outstanding": numbers["outstanding"],
        "count": round(numbers["turns"], 1),
        "rtt": _ms(numbers["rtt_s"]),
        "transfer": _ms(numbers["transfer_s"]),
    }
    if numbers["outstanding"] == 1:
        return "bound.turns.command", values
    if numbers["queue_depth"] == 1 and numbers["outstanding"] >= numbers["commands_per_request"]:
        # All commands of a request share the link, so the transfer time of the whole request
        # counts.
        transfer_s = numbers["seconds"] - numbers["turns"] * numbers["rtt_s"]
        return "bound.turns.request", values | {"transfer": _ms(transfer_s)}
    return "bound.turns.several", values


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def in_flight_words(language: str, flow: Flow, evidence: Evidence, side: Literal["send", "receive"]) -> list[str]:
    """A sentence about the maximum of data in flight over the round-trip time. If that is unknown,
    about the buffer that the study sets, or none.
    """
    most, rtt_ms, buffer = flow.in_flight_mb_max, evidence.rtt_ms, evidence.buffers_bytes.get(side)
    if most and rtt_ms:
        return [say(language, "bound.in_flight", {"window": most, "rtt": rtt_ms, "mb_per_s": most / rtt_ms * 1e3})]
    return [say(language, "bound.buffer", {"size": format_size(buffer)})] if buffer else []


def window_words(language: str, flow: Flow) -> list[str]:
    """A sentence about the mean congestion window over the round-trip time, if both are known."""
    window, rtt_ms = flow.congestion_window_mb_mean, flow.rtt_ms
    if not window or not rtt_ms:
        return []
    values = {"window": window, "rtt": rtt_ms, "mb_per_s": window / rtt_ms * 1e3}
    return [say(language, "bound.congestion_window", values)]


def count(value: float | None) -> int | float:
    """A mean of counts, rounded to a whole number from 100 on and to one decimal below."""
    number = float(value or 0.0)
    return round(number) if number >= 100 or number == round(number) else round(number, 1)
