"""An analysis as text: tables and sentences, in either language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hakaru.capture.findings import findings
from hakaru.capture.place import place_of_capture
from hakaru.terminal import new_console
from hakaru.terminal import say as print_paragraph
from hakaru.units import approximate_duration
from hakaru.wording import number, say, tenths

KINDS = ("reads", "writes", "others")


def print_analysis(analysed: dict[str, Any], language: str) -> None:
    """Print the capture, then each session."""
    console = new_console()
    capture = analysed["capture"]
    values = {
        "packets": capture["packets"],
        "seconds": f"{abs(capture['last_ns'] - capture['first_ns']) / 1e9:.3f}",
        "cut": capture["packets_cut"],
        "sessions": len(capture["sessions"]),
        "others": capture["other_connections"],
    }
    print_paragraph(console, say(language, "analyse.capture", values))
    for line in _omissions(analysed, language):
        print_paragraph(console, line)
    for count, session in enumerate(capture["sessions"], 1):
        console.print()
        _print_session(console, count, session, language)


def _omissions(analysed: dict[str, Any], language: str) -> Iterator[str]:
    capture = analysed["capture"]
    causes = [
        say(language, f"analyse.cause.{cause}", {"packets": packets})
        for cause, packets in capture["not_seen"].items()
        if packets
    ]
    if causes:
        yield say(language, "analyse.not_read", {"causes": ", ".join(causes)})
    if capture["packets_back_in_time"]:
        yield say(language, "analyse.back_in_time", {"packets": capture["packets_back_in_time"]})
    if analysed["packets_dropped_in_capture"]:
        yield say(language, "analyse.dropped", {"packets": analysed["packets_dropped_in_capture"]})
    for file in analysed["files"]:
        if file["truncated"]:
            yield say(language, "analyse.truncated", {"path": file["path"], "packets": file["packets"]})
    if capture["connections_not_followed"]:
        yield say(language, "analyse.not_followed", {"packets": capture["connections_not_followed"]})


def _print_session(console: Console, count: int, session: dict[str, Any], language: str) -> None:
    for line in _heading(count, session, language):
        print_paragraph(console, line)
    if any(session[kind]["commands"] for kind in KINDS):
        console.print(_phases(session, language))
    writes = session["writes"]
    if writes["r2ts"]:
        values = {"mean": f"{writes['r2ts'] / writes['commands']:.2f}", "most": writes["r2ts_per_command_max"]}
        print_paragraph(console, say(language, "analyse.r2ts", values))
    if session["slowest"]:
        print_paragraph(console, say(language, "analyse.slowest"))
        console.print(_slowest(session, language))
    if len(session["luns"]) > 1:
        console.print(_luns(session, language))
    if any(row["status"] for row in session["statuses"]):
        console.print(_statuses(session, language))
    for side in ("initiator", "target"):
        print_paragraph(console, _direction(session[f"from_{side}"], side, language))
    for sentence in findings(session, language):
        print_paragraph(console, f"* {sentence}")


def _heading(count: int, session: dict[str, Any], language: str) -> Iterator[str]:
    yield f"{count}. {session['initiator']} → {session['target']}"
    names = session["initiator_name"], session["target_name"]
    if any(names):
        unknown, discovery = say(language, "analyse.unknown"), say(language, "analyse.discovery")
        yield f"{names[0] or unknown} → {names[1] or discovery}"
    if session["login_status"] not in (None, "0000"):
        yield say(language, "analyse.login_refused", {"status": session["login_status"]})
    place = say(language, f"analyse.place.{place_of_capture(session)}")
    rtt = session["handshake_rtt_ns"]
    trip = [] if rtt is None else [say(language, "analyse.round_trip", {"rtt": approximate_duration(rtt)})]
    yield "; ".join([place, *trip])
    yield _keys(session, language)
    values = {
        "commands": session["commands"],
        **{kind: session[kind]["commands"] for kind in KINDS},
        "not_timed": session["commands_not_whole"],
        "unfinished": session["commands_unfinished"],
    }
    yield say(language, "analyse.commands", values)


def _keys(session: dict[str, Any], language: str) -> str:
    if session["negotiated"] is not None:
        keys = ", ".join(f"{name}={value}" for name, value in session["negotiated"].items())
        return keys or say(language, "analyse.keys.none")
    known = say(language, "analyse.keys.in_part" if session["from_start"] else "analyse.keys.before")
    if session["digests"] is None:
        return known
    header, data = (say(language, "analyse.on" if digest else "analyse.off") for digest in session["digests"])
    return f"{known}; " + say(language, "analyse.digests", {"header": header, "data": data})


def _table(titles: Sequence[str], left: int = 1) -> Table:
    """A table with these column titles, the first `left` columns left-aligned."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, title in enumerate(titles):
        table.add_column(Text(title), justify="left" if place < left else "right", overflow="fold")
    return table


def _titles(names: Sequence[str], language: str) -> list[str]:
    """Column titles by column names."""
    return [
        name if name[0].isupper() or (name[0] == "p" and name[1:].isdigit()) else _title(name, language)
        for name in names
    ]


def _title(name: str, language: str) -> str:
    return say(language, f"analyse.column.{name}")


def _spread(spread: dict[str, int]) -> list[str]:
    return [approximate_duration(spread[name]) for name in ("mean_ns", "p50_ns", "p99_ns", "max_ns")]


def _phases(session: dict[str, Any], language: str) -> Table:
    titles = ("kind", "commands", "MB", "IOPS", "MB/s", "mean", "p50", "p99", "max", "share")
    table = _table(_titles(titles, language))
    seconds = max(1, session["last_ns"] - session["first_ns"]) / 1e9
    is_complete = not session["commands_not_whole"]
    for kind in KINDS:
        commands = session[kind]
        if not commands["commands"]:
            continue
        megabytes = commands["bytes"] / 1e6
        # Counts are those of timed commands. A rate of some commands is not that of the session.
        rates = [commands["commands"] / seconds, megabytes / seconds] if is_complete else [None, None]
        cells = [number(count, language) for count in (commands["commands"], megabytes, *rates)]
        table.add_row(say(language, f"analyse.kind.{kind}"), *cells, *_spread(commands["latency"]), "")
        for name, phase in commands["phases"].items():
            share = 100 * phase["sum_ns"] / max(1, commands["latency_sum_ns"])
            label = "  " + say(language, f"analyse.phase.{name}")
            table.add_row(label, "", "", "", "", *_spread(phase), f"{tenths(share, language)} %")
    return table


def _slowest(session: dict[str, Any], language: str) -> Table:
    titles = ("command", "lun", "tag", "size", "time", "longest", "packets")
    table = _table(_titles(titles, language))
    for command in session["slowest"]:
        kind = say(language, f"analyse.kind.{command['kind']}", {"operation": f"{command['operation']:02x}h"})
        table.add_row(
            kind,
            command["lun"],
            f"{command['itt']:#x}",
            number(command["bytes"] / 1e3, language),
            approximate_duration(command["latency_ns"]),
            _longest(command["phases"], language),
            f"{command['first_packet']}–{command['last_packet']}",
        )
    return table


def _longest(phases: dict[str, int], language: str) -> str:
    if not phases:
        return ""
    name = max(phases, key=phases.__getitem__)
    return f"{say(language, f'analyse.phase.{name}')} {approximate_duration(phases[name])}"


def _luns(session: dict[str, Any], language: str) -> Table:
    titles = ("lun", "commands", "failed", "MB", "mean", "p50", "p99", "max")
    table = _table(_titles(titles, language))
    for row in session["luns"]:
        counts = [row["latency"]["count"], row["failed"], row["bytes"] / 1e6]
        table.add_row(row["lun"], *(number(count, language) for count in counts), *_spread(row["latency"]))
    return table


def _statuses(session: dict[str, Any], language: str) -> Table:
    table = _table(_titles(("status", "sense", "commands"), language), left=2)
    for row in session["statuses"]:
        sense = "" if row["sense"] is None else " ".join(f"{byte:02x}h" for byte in row["sense"])
        table.add_row(f"{row['status']:02x}h", sense, number(row["commands"], language))
    return table


def _direction(direction: dict[str, Any], side: str, language: str) -> str:
    pdus = ", ".join(f"{count} {name}" for name, count in direction["pdus"].items()) or say(language, "analyse.no_pdu")
    return say(language, f"analyse.direction.{side}", {"pdus": pdus, "bytes": direction["bytes"]})
