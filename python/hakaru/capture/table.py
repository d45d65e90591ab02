"""A capture's analysis as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hakaru.capture.findings import duration, findings


def lines(found: dict[str, Any]) -> Iterator[str]:
    """What `hakaru analyse` prints: the capture, then each session."""
    capture = found["capture"]
    seconds = (capture["last_ns"] - capture["first_ns"]) / 1e9
    yield (
        f"{capture['packets']} packets in {seconds:.3f} s, {capture['packets_cut']} cut by the snap length; "
        f"{len(capture['sessions'])} iSCSI connections, {capture['other_connections']} others"
    )
    yield from _not_decoded(found)
    for number, session in enumerate(capture["sessions"], 1):
        yield ""
        yield from _session(number, session)


def _not_decoded(found: dict[str, Any]) -> Iterator[str]:
    capture = found["capture"]
    causes = {
        "of an unknown link layer": capture["not_seen"]["unknown_link"],
        "not IP": capture["not_seen"]["not_ip"],
        "not TCP": capture["not_seen"]["not_tcp"],
        "fragments": capture["not_seen"]["fragments"],
        "cut within their headers": capture["not_seen"]["cut"],
        "malformed": capture["not_seen"]["malformed"],
        "earlier than the one before": capture["packets_back_in_time"],
    }
    said = [f"{count} {cause}" for cause, count in causes.items() if count]
    if said:
        yield "packets not looked into: " + ", ".join(said)
    if found["packets_dropped_in_capture"]:
        yield f"dropped while capturing: {found['packets_dropped_in_capture']} packets"
    for file in found["files"]:
        if file["truncated"]:
            yield f"{file['path']} ends within a packet, or is damaged after {file['packets']} packets"
    if capture["connections_not_followed"]:
        yield f"{capture['connections_not_followed']} segments of connections beyond 1024 were not followed"


def _session(number: int, session: dict[str, Any]) -> Iterator[str]:
    yield f"{number}. {session['initiator']} -> {session['target']}"
    names = [session["initiator_name"], session["target_name"]]
    if any(names):
        yield f"   {names[0] or '?'} -> {names[1] or '(discovery)'}"
    if session["login_status"] not in (None, "0000"):
        yield f"   the login was refused with status {session['login_status']}"
    yield f"   {_keys(session)}"
    yield (
        f"   {session['commands']} commands: {session['reads']['commands']} reads, {session['writes']['commands']} "
        f"writes, {session['others']['commands']} others; {session['commands_not_whole']} not timed, "
        f"{session['commands_unfinished']} unfinished"
    )
    kinds = [(kind, session[kind]) for kind in ("reads", "writes", "others") if session[kind]["commands"]]
    if kinds:
        yield f"   {'':<20}{'commands':>10}{'MB':>10}{'p50':>12}{'p99':>12}{'share':>9}"
    for kind, commands in kinds:
        yield _row(kind, commands["latency"], f"{commands['commands']:>10}{commands['bytes'] / 1e6:>10.3f}", "")
        for name, phase in commands["phases"].items():
            share = phase["sum_ns"] / max(1, commands["latency_sum_ns"])
            yield _row(f"  {name}", phase, f"{'':>20}", f"{100 * share:.1f} %")
        if commands["r2ts"]:
            mean = commands["r2ts"] / commands["commands"]
            yield f"     R2Ts per command: {mean:.2f}, at most {commands['r2ts_per_command_max']}"
    for side in ("initiator", "target"):
        yield f"   from the {side}: {_way(session[f'from_{side}'])}"
    for sentence in findings(session):
        yield f"   * {sentence}"


def _row(name: str, spread: dict[str, int], middle: str, share: str) -> str:
    return f"   {name:<20}{middle}{duration(spread['p50_ns']):>12}{duration(spread['p99_ns']):>12}{share:>9}"


def _keys(session: dict[str, Any]) -> str:
    if session["negotiated"] is None:
        begun = "the login was captured in part" if session["from_start"] else "the capture begins after the login"
        digests = session["digests"]
        seen = "" if digests is None else f"; header digest {_on(digests[0])}, data digest {_on(digests[1])}"
        return f"keys unknown, since {begun}{seen}"
    return ", ".join(f"{name}={value}" for name, value in session["negotiated"].items()) or "no key was negotiated"


def _on(on: bool) -> str:
    return "on" if on else "off"


def _way(way: dict[str, Any]) -> str:
    pdus = ", ".join(f"{count} {name}" for name, count in way["pdus"].items()) or "no PDU"
    faults = {
        "sent again": way["retransmitted_bytes"],
        "missing": way["missing_bytes"],
        "passed over": way["skipped_bytes"],
    }
    said = "".join(f", {count} bytes {what}" for what, count in faults.items() if count)
    return f"{pdus}; {way['bytes']} bytes{said}"
