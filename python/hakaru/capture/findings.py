"""What a session's figures mean, in sentences. Data in, data out."""

from __future__ import annotations

from typing import Any

# A phase that takes less than this share of the time is not named.
WORTH_NAMING = 0.2

_MEANING = {
    ("writes", "wait_r2t"): "waiting for R2T",
    ("writes", "r2t_to_data"): "between an R2T and its first data, in the initiator",
    ("writes", "data_transfer"): "sending data",
    ("writes", "data_to_response"): "waiting for the response after all data was sent",
    ("reads", "command_to_data"): "waiting for the first data",
    ("reads", "data_transfer"): "receiving data",
    ("reads", "data_to_response"): "waiting for the response after all data had come",
}


def findings(session: dict[str, Any]) -> list[str]:
    """Sentences about one session of `hakaru analyse`, the most important first; may be empty."""
    return [*_phases(session, "writes"), *_phases(session, "reads"), *_network(session), *_doubts(session)]


def _phases(session: dict[str, Any], kind: str) -> list[str]:
    commands = session[kind]
    total = commands["latency_sum_ns"]
    if not total:
        return []
    shares = [(phase["sum_ns"] / total, name) for name, phase in commands["phases"].items()]
    said = []
    for share, name in sorted(shares, reverse=True):
        if share < WORTH_NAMING:
            break
        sentence = f"{share:.0%} of the time of {kind} is {_MEANING[kind, name]}".replace("%", " %", 1)
        if name == "wait_r2t" and commands["commands"]:
            wait = commands["r2t_wait"]
            turns = wait["count"] / commands["commands"]
            rtt = session["handshake_rtt_ns"]
            seen = f"; the handshake's round trip was {duration(rtt)}" if rtt else ""
            sentence += f": {turns:.1f} turns per command, {duration(wait['p50_ns'])} each{seen}"
        said.append(sentence + ".")
    if commands["failed"]:
        said.append(f"{commands['failed']} of {commands['commands']} {kind} ended with a status other than GOOD.")
    return said


def _network(session: dict[str, Any]) -> list[str]:
    said = []
    for side in ("initiator", "target"):
        way = session[f"from_{side}"]
        if way["retransmitted_bytes"]:
            share = 100 * way["retransmitted_bytes"] / max(1, way["bytes"])
            said.append(
                f"The {side} sent {share:.2g} % of its bytes again ({way['retransmitted_bytes']} bytes, as seen here)."
            )
        if way["data_digest_errors"]:
            said.append(f"{way['data_digest_errors']} PDUs from the {side} do not have their data digest.")
    return said


def _doubts(session: dict[str, Any]) -> list[str]:
    said = []
    ways = [session["from_initiator"], session["from_target"]]
    missing = sum(way["missing_bytes"] for way in ways)
    skipped = sum(way["skipped_bytes"] for way in ways)
    if missing:
        said.append(f"{missing} bytes that the receiver acknowledged are in no packet: the capture lost them.")
    if skipped:
        said.append(f"{skipped} bytes were passed over until the next PDU was found.")
    if session["assumed_pdus"]:
        said.append(
            f"{session['assumed_pdus']} headers of PDUs lie behind the snap length and were assumed from what is "
            "around them; a longer one captures them."
        )
    if session["commands_not_whole"]:
        said.append(
            f"{session['commands_not_whole']} of {session['commands']} commands are not timed, since something of them "
            "may be missing."
        )
    if session["commands_without_response"]:
        said.append(f"{session['commands_without_response']} commands got no response before their tag was used again.")
    return said


def duration(ns: float) -> str:
    """With a unit that gives one to three digits before the point."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"
