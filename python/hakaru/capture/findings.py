"""Sentences on one session of an analysis, in either language. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hakaru.capture.place import place_of_capture
from hakaru.units import approximate_duration
from hakaru.wording import say

Session = dict[str, Any]

PHASE_SHARE_MIN = 0.2
"""A phase with a smaller share of the time is not mentioned."""
STALL_FACTOR_MIN = 10
"""The slowest command is mentioned if it took at least this many times the median."""
HANDSHAKE_MAX_NS = 1_000_000_000
"""A longer handshake is mentioned: TCP's first timeout is one second (RFC 6298)."""

# The part in which the time of a phase is spent, by the place of capture.
_PARTS = {
    ("wait_r2t", "initiator"): "target_and_network",
    ("wait_r2t", "target"): "target",
    ("r2t_to_data", "initiator"): "initiator",
    ("r2t_to_data", "target"): "initiator_and_network",
    ("command_to_data", "initiator"): "target_and_network",
    ("command_to_data", "target"): "target",
    ("data_to_response", "initiator"): "target_and_network",
    ("data_to_response", "target"): "target",
}


def findings(session: Session, language: str) -> list[str]:
    """Sentences on one session of `hakaru analyse`, the most important first; may be empty."""
    return [
        *_one_way(session, language),
        *_phases(session, "writes", language),
        *_phases(session, "reads", language),
        *_stalls(session, language),
        *_failures(session, language),
        *_network(session, language),
        *_doubts(session, language),
    ]


def _one_way(session: Session, language: str) -> Iterator[str]:
    for side, other in (("initiator", "target"), ("target", "initiator")):
        if session[f"from_{side}"]["bytes"] and not session[f"from_{other}"]["segments"]:
            yield say(language, f"analyse.finding.one_way.{side}")


def _phases(session: Session, kind: str, language: str) -> Iterator[str]:
    commands = session[kind]
    total = commands["latency_sum_ns"]
    if not total:
        return
    shares = sorted(((phase["sum_ns"] / total, name) for name, phase in commands["phases"].items()), reverse=True)
    place = place_of_capture(session)
    for share, name in shares:
        if share < PHASE_SHARE_MIN:
            break
        part = _PARTS.get((name, place))
        values = {
            "percent": round(100 * share),
            "phase": say(language, f"analyse.phase.{name}"),
            "where": say(language, f"analyse.where.{part}") if part else "",
        }
        yield say(language, f"analyse.finding.phase.{kind}", values)
        if name == "wait_r2t":
            yield _turns(session, language)


def _turns(session: Session, language: str) -> str:
    writes, rtt = session["writes"], session["handshake_rtt_ns"]
    wait = writes["r2t_wait"]
    values = {"turns": f"{wait['count'] / writes['commands']:.1f}", "wait": approximate_duration(wait["p50_ns"])}
    if rtt is None:
        return say(language, "analyse.finding.r2t_turns", values)
    return say(language, "analyse.finding.r2t_turns_and_round_trip", values | {"rtt": approximate_duration(rtt)})


def _stalls(session: Session, language: str) -> Iterator[str]:
    for kind, name in (("reads", "read"), ("writes", "write")):
        spread = session[kind]["latency"]
        slowest = next((command for command in session["slowest"] if command["kind"] == name), None)
        if slowest is None or slowest["latency_ns"] < STALL_FACTOR_MIN * max(1, spread["p50_ns"]):
            continue
        values = {
            "kind": say(language, f"analyse.kind.{kind}"),
            "longest": approximate_duration(slowest["latency_ns"]),
            "median": approximate_duration(spread["p50_ns"]),
            "times": round(slowest["latency_ns"] / max(1, spread["p50_ns"])),
            "first": slowest["first_packet"],
            "last": slowest["last_packet"],
        }
        yield say(language, "analyse.finding.stall", values)


def _failures(session: Session, language: str) -> Iterator[str]:
    for kind in ("reads", "writes", "others"):
        commands = session[kind]
        if commands["failed"]:
            name = say(language, f"analyse.kind.{kind}")
            values = {"failed": commands["failed"], "commands": commands["commands"], "kind": name}
            yield say(language, "analyse.finding.failed", values)


def _network(session: Session, language: str) -> Iterator[str]:
    for side in ("initiator", "target"):
        direction = session[f"from_{side}"]
        if direction["retransmitted_bytes"]:
            percent = 100 * direction["retransmitted_bytes"] / max(1, direction["bytes"])
            values = {"percent": percent, "bytes": direction["retransmitted_bytes"]}
            yield say(language, f"analyse.finding.retransmitted.{side}", values)
        if direction["late_segments"]:
            values = {"segments": direction["late_segments"], "longest": approximate_duration(direction["late_max_ns"])}
            yield say(language, f"analyse.finding.late.{side}", values)
        elif direction["out_of_order_segments"]:
            yield say(
                language, f"analyse.finding.out_of_order.{side}", {"segments": direction["out_of_order_segments"]}
            )
        if direction["data_digest_errors"]:
            yield say(language, f"analyse.finding.digest_errors.{side}", {"pdus": direction["data_digest_errors"]})
    yield from _handshake(session, language)


def _handshake(session: Session, language: str) -> Iterator[str]:
    duration, retransmissions = session["handshake_ns"], session["handshake_retransmissions"]
    if duration is None:
        return
    if retransmissions:
        values = {"duration": approximate_duration(duration), "segments": retransmissions}
        yield say(language, "analyse.finding.handshake", values)
    elif duration >= HANDSHAKE_MAX_NS:
        yield say(language, "analyse.finding.slow_handshake", {"duration": approximate_duration(duration)})


def _doubts(session: Session, language: str) -> Iterator[str]:
    directions = [session["from_initiator"], session["from_target"]]
    counts = (
        ("duplicates", "packets", sum(direction["duplicated_packets"] for direction in directions)),
        ("missing", "bytes", sum(direction["missing_bytes"] for direction in directions)),
        ("skipped", "bytes", sum(direction["skipped_bytes"] for direction in directions)),
        ("assumed", "pdus", session["assumed_pdus"]),
        ("not_timed", "not_timed", session["commands_not_whole"]),
        ("without_response", "commands", session["commands_without_response"]),
    )
    for name, unit, count in counts:
        if count:
            values = {"commands": session["commands"]} | {unit: count}
            yield say(language, f"analyse.finding.{name}", values)
