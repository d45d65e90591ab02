"""Why a point over a distance is as fast as it is, in words, with the arithmetic. One language at a time."""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.analysis.verdict import Verdict
from hakaru.units import format_rate, format_size
from hakaru.wording import say, tenths

SHARE_SHOWN = 1.0
"""Percent from which a share is worth a sentence."""


def why(language: str, verdict: Verdict) -> str:
    """The sentences that say what limits a point."""
    evidence, limiter = verdict.evidence, verdict.limiter
    if evidence.get("reason") == "no_value":
        return say(language, "backup.limiter.no_value")
    parts: list[str] = []
    if limiter in ("r2t_turns", "depth"):
        parts = [say(language, f"distance.limiter.{limiter}"), arithmetic(language, evidence, "turns")]
        parts.append(_phases(language, evidence) if limiter == "r2t_turns" else "")
    elif limiter in ("receive_window", "send_buffer"):
        stalled = {"percent": tenths(evidence[f"tcp_{limiter}_percent"], language)}
        parts = [say(language, f"distance.limiter.{limiter}", stalled), _in_flight(language, evidence, limiter)]
    elif limiter == "congestion_window":
        parts = [_losses(language, evidence), _window(language, evidence)]
    elif limiter == "slow_start":
        grown = {"growth": round(evidence["window_growth"], 2)}
        parts = [say(language, "distance.limiter.slow_start", grown), _window(language, evidence)]
    elif limiter == "link":
        parts = [_busy(language, verdict, "backup.limiter.link"), arithmetic(language, evidence, "link")]
    elif limiter == "array":
        parts = [_busy(language, verdict, "backup.limiter.device")]
    elif limiter == "undetermined":
        parts = [
            say(language, "distance.limiter.undetermined"),
            _lowest(language, evidence),
            _clocks(language, evidence),
        ]
    elif verdict.resource is None:
        parts = [say(language, "distance.limiter.fabric_lost", {"lost": _count(evidence["lost_outside"])})]
    else:
        parts = [_busy(language, verdict, "backup.limiter.own")]
    return sentences.sentences(language, *parts, _rate(language, evidence))


def arithmetic(language: str, evidence: dict[str, Any], name: str) -> str:
    """A bound and how it comes about: `512 KiB per command; 3 round trips of 20 ms and 4.5 ms of transfer`."""
    bound = next((b for b in evidence["bounds"] if b["bound"] == name), None)
    if bound is None:
        return ""
    if name == "link":
        return say(
            language,
            "distance.arithmetic.link",
            {"rate": format_rate(int(bound["rate_bits_per_s"])), "mb_per_s": bound["mb_per_s"]},
        )
    if name == "window":
        window = {"window": bound["window_bytes"] / 1e6, "rtt": _ms(bound["rtt_s"]), "mb_per_s": bound["mb_per_s"]}
        return say(language, "distance.arithmetic.window", window)
    values = {
        "size": format_size(bound["command_bytes"]),
        "request": format_size(bound["request_bytes"]),
        "commands": bound["commands_per_request"],
        "outstanding": bound["outstanding"],
        "count": round(bound["turns"], 1),
        "rtt": _ms(bound["rtt_s"]),
        "transfer": _ms(bound["transfer_s"]),
        "mb_per_s": bound["mb_per_s"],
    }
    alone = bound["queue_depth"] == 1
    if bound["outstanding"] == 1:
        return say(language, "distance.arithmetic.command", values)
    if alone and bound["outstanding"] >= bound["commands_per_request"]:
        # All commands of a request share the link: the request's transfer is what counts.
        whole = bound["seconds"] - bound["turns"] * bound["rtt_s"]
        return say(language, "distance.arithmetic.request", values | {"transfer": _ms(whole)})
    return say(language, "distance.arithmetic.several", values)


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def _rate(language: str, evidence: dict[str, Any]) -> str:
    values = {
        "mb_per_s": evidence["mb_per_s"],
        "payload": tenths(evidence["payload_percent"], language),
        "share": tenths(evidence["bound_share_percent"], language),
    }
    if evidence["bound_share_percent"] is None or evidence["payload_percent"] is None:
        return say(language, "distance.rate.only", values)
    return say(language, "distance.rate", values)


def _phases(language: str, evidence: dict[str, Any]) -> str:
    percent = evidence.get("wait_r2t_percent")
    if percent is None or percent < SHARE_SHOWN:
        return ""
    return say(language, "distance.phases", {"percent": tenths(percent, language)})


def _in_flight(language: str, evidence: dict[str, Any], limiter: str) -> str:
    """What was in flight at most, over the round trip; else the buffer that the study gives."""
    most, rtt_ms = evidence["in_flight_mb_max"], evidence["rtt_ms"]
    if most and rtt_ms:
        values = {"window": most, "rtt": rtt_ms, "mb_per_s": most / rtt_ms * 1e3}
        return say(language, "distance.in_flight", values)
    side = "send_buffer_bytes" if limiter == "send_buffer" else "receive_buffer_bytes"
    return say(language, "distance.buffer", {"size": format_size(evidence[side])}) if evidence[side] else ""


def _losses(language: str, evidence: dict[str, Any]) -> str:
    again = {"again": evidence["retransmitted_percent"]}
    timeouts = evidence["timeouts"]
    first = say(language, "distance.limiter.congestion_window", again)
    if not timeouts:
        return first
    waited = {"count": _count(timeouts), "wait": evidence["timeout_wait_s"]}
    return sentences.sentences(language, first, say(language, "distance.timeouts", waited))


def _window(language: str, evidence: dict[str, Any]) -> str:
    window, rtt_ms = evidence["congestion_window_mb_mean"], evidence["rtt_ms"]
    if not window or not rtt_ms:
        return ""
    values = {"window": window, "rtt": rtt_ms, "mb_per_s": window / rtt_ms * 1e3}
    return say(language, "distance.congestion_window", values)


def _busy(language: str, verdict: Verdict, message: str) -> str:
    percent = verdict.evidence.get("at_peak_percent")
    percent = verdict.evidence["link_busy_percent"] if percent is None else percent
    named = sentences.resource(language, str(verdict.resource))
    return say(language, message, {"resource": named, "percent": tenths(percent, language)})


def _lowest(language: str, evidence: dict[str, Any]) -> str:
    return arithmetic(language, evidence, evidence["bounds"][0]["bound"]) if evidence["bounds"] else ""


def _clocks(language: str, evidence: dict[str, Any]) -> str:
    """How TCP spent its time, where the kernel told."""
    names = ("idle", "receive_window", "send_buffer", "path")
    if any(evidence[f"tcp_{name}_percent"] is None for name in names):
        return say(language, "distance.clocks.none")
    return say(language, "distance.clocks", {n: tenths(evidence[f"tcp_{n}_percent"], language) for n in names})


def _count(value: float | None) -> int | float:
    number = float(value or 0.0)
    return round(number) if number >= 100 or number == round(number) else round(number, 1)
