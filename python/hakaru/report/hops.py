"""Hop tables: the counters of frames of a point on every channel between two TCP endpoints."""

from __future__ import annotations

from typing import Any

from hakaru.report.blocks import Across, Cell, Column, Row, Section, Table
from hakaru.units import format_rate, format_size
from hakaru.wording import MISSING, number, say, tenths

Json = dict[str, Any]
CAUSES = ("buffer", "early", "loss", "mtu", "down")
COLUMNS = ("hop", "rate", "frames_in", "frames_out", "dropped", "marked", "pauses", "peak", "busy")
COUNTERS = {
    "sender": ("segments_out", "retransmits", "fast_retransmits", "timeouts", "loss_probes"),
    "receiver": ("out_of_order",),
}


def section(named: list[tuple[str, Json]], language: str) -> list[Section]:
    """A section with one table for each `(name, point)` that has hops; no section if no point has
    any.
    """
    tables = [_table(name, point, language) for name, point in named if point.get("hops")]
    if not tables:
        return []
    return [Section("hops", say(language, "section.hops"), say(language, "hops.about"), tables)]


def _table(name: str, point: Json, language: str) -> Table:
    columns = [Column(say(language, f"table.{c}"), header=c == "hop") for c in COLUMNS]
    rows: list[Row | Across] = []
    for leg in ("read", "write"):
        hops = [hop for hop in point["hops"] if hop["leg"] == leg and hop["carries"] == "data"]
        if not hops:
            continue
        ends = {"source": hops[0]["from"], "target": hops[-1]["to"]}
        rows.append(Across(say(language, f"hops.{leg}", ends), heading=True))
        rows += _tcp(point, ends["source"], "sender", language)
        rows += [_hop(hop, language) for hop in hops]
        rows += _tcp(point, ends["target"], "receiver", language)
    replies = [hop for hop in point["hops"] if hop["carries"] == "replies"]
    if replies:
        rows.append(Across(say(language, "hops.replies"), heading=True))
        rows += [_hop(hop, language) for hop in replies]
    return Table(name, columns, rows, "numbers hops")


def _hop(hop: Json, language: str) -> Row:
    def mean(name: str) -> str:
        return number(hop[name]["mean"], language) if name in hop else MISSING

    rate, sender_limit = hop["rate_bits_per_s"], hop["held_bits_per_s"]
    rate_text = format_rate(int(rate)) if rate else say(language, "lab.unlimited")
    limit_text = say(language, "hops.held", {"held": format_rate(int(sender_limit))}) if sender_limit else ""
    causes = [(cause, hop.get(f"dropped_{cause}", {}).get("mean") or 0.0) for cause in CAUSES]
    cause_text = say(language, "list.separator").join(
        f"{say(language, f'hops.cause.{cause}')} {number(count, language)}" for cause, count in causes if count
    )
    peak, queue = hop.get("queue_peak_bytes", {}).get("mean"), hop["queue_bytes"]
    filled = MISSING if peak is None else number(peak / 1024, language)
    room = say(language, "hops.of", {"size": format_size(int(queue))}) if queue else ""
    lossy = (hop["dropped"]["mean"] or 0.0) > 0
    return Row(
        [
            f"{hop['from']} → {hop['to']}",
            Cell(rate_text, limit_text),
            mean("frames_in"),
            mean("frames_out"),
            Cell(mean("dropped"), cause_text, bold=lossy),
            mean("marked"),
            mean("pauses"),
            Cell(filled, room),
            tenths(hop["busy_percent"]["mean"], language) if "busy_percent" in hop else MISSING,
        ],
        "lossy" if lossy else "",
    )


def _tcp(point: Json, node: str, role: str, language: str) -> list[Across]:
    """One line about TCP at a node, with the counters that its kernel has; none without
    counters.
    """
    counters = ((point.get("tcp") or {}).get("nodes") or {}).get(node) or {}
    counts = [
        say(language, f"hops.tcp.{name}", {"count": _whole(counters[name]["mean"])})
        for name in COUNTERS[role]
        if name in counters
    ]
    listed = say(language, "list.separator").join(counts)
    return [Across(say(language, "hops.tcp", {"node": node, "counts": listed}), heading=False)] if counts else []


def _whole(value: float | None) -> float | None:
    """A mean of counts, rounded to a whole number from 100 on."""
    return value if value is None or value < 100 else round(value)
