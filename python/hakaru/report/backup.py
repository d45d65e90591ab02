"""What a report of a backup study shows beside its figures: tables of points and hops, tiles, the answer; as text.

Called by `document`, which has what all reports share.
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.report import backup_figures
from hakaru.report.backup_figures import plain_points
from hakaru.units import format_rate, format_size
from hakaru.wording import MISSING, number, say, tenths

Json = dict[str, Any]
ANSWERS = ("limiter", "ratio", "tcp_age", "remedy")
CAUSES = ("buffer", "early", "loss", "mtu")


def is_backup(summary: Json) -> bool:
    """Whether the run copied images."""
    return "maps" in summary


def chief_findings(summary: Json) -> list[Json]:
    """Those that answer the question: about the slow point, and about the points that another path limits."""
    slow = backup_figures.slow_point(summary)
    if slow is None:
        return [f for f in summary["findings"] if f["kind"] in ANSWERS][:1]
    levels = slow["factors"].items()
    about = [f for f in summary["findings"] if f["kind"] in ANSWERS and f["where"].items() <= levels]
    other = next((p for p in plain_points(summary) if _elsewhere(p, slow)), None)
    also = [f for f in summary["findings"] if f["kind"] == "limiter" and other and f["where"] == other["factors"]]
    return about + also


def _elsewhere(point: Json, slow: Json) -> bool:
    """Whether a point's path is another one."""
    return bool(
        point["path"]["payload_mb_per_s"] != slow["path"]["payload_mb_per_s"] and point["limiter"] != slow["limiter"]
    )


def tiles(summary: Json, language: str) -> list[Json]:
    """The slow copy, the one that it is held against (on the same path), how many times, and why."""
    slow = backup_figures.slow_point(summary)
    if slow is None:
        return []
    shown = [_rate_tile(language, "slow", slow)]
    for finding in summary["findings"]:
        evidence = finding["evidence"]
        if finding["kind"] != "ratio" or not finding["where"].items() <= slow["factors"].items():
            continue
        levels = finding["where"] | {evidence["over"]: evidence["fast"]}
        shown += [_rate_tile(language, "fast", p) for p in plain_points(summary) if p["factors"] == levels]
        theirs = evidence["published_ratio"]
        small = say(language, "tile.published", {"ratio": round(theirs, 2)}) if theirs else ""
        times = say(language, "tile.times", {"ratio": round(evidence["ratio"], 2)})
        shown.append({"title": say(language, "tile.ratio"), "value": times, "small": small})
    waited = slow["metrics"]["timeout_wait_percent"]["mean"]
    small = say(language, "tile.waited", {"percent": tenths(waited, language)}) if waited else ""
    limiter = {
        "title": say(language, "tile.limits"),
        "value": say(language, f"limiter.{slow['limiter']}"),
        "small": small,
    }
    return [*shown, limiter]


def _rate_tile(language: str, name: str, point: Json) -> Json:
    metrics = point["metrics"]
    share = {"percent": tenths(metrics["path_percent"]["mean"], language)}
    small = f"{sentences.series(point['factors'], language)}; {say(language, 'tile.path', share)}"
    value = f"{number(metrics['mb_per_s']['mean'], language)} MB/s"
    return {"title": say(language, f"tile.{name}"), "value": value, "small": small}


def parts(summary: Json, letters: dict[str, str], language: str) -> Json:
    """Tables of points (one per set of factors) and of hops (one per plain point)."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for point in summary["points"]:
        groups.setdefault(tuple(point["factors"]), []).append(point)
    tables = [_table(points, letters, language) for points in groups.values()]
    ways = [_way(summary, p, language) for p in plain_points(summary) if p["hops"]]
    return {"about": say(language, "table.copies"), "tables": tables, "ways": ways}


def _table(points: list[Json], letters: dict[str, str], language: str) -> Json:
    """Factors that have one level in all rows stand above the table."""
    factors = list(points[0]["factors"])
    varied = [f for f in factors if len({str(p["factors"][f]) for p in points}) > 1] or factors
    same = sentences.series({f: v for f, v in points[0]["factors"].items() if f not in varied}, language)
    origin = backup_figures.note(points, language)
    caption = say(language, "series", {"series": same, "text": origin}) if same else origin
    return {"factors": varied, "rows": [_row(p, varied, letters, language) for p in points], "caption": caption}


def _row(point: Json, varied: list[str], letters: dict[str, str], language: str) -> Json:
    metrics = point["metrics"]

    def mean(name: str) -> str:
        return number(metrics[name]["mean"], language)

    rate = metrics["mb_per_s"]
    ends = [number(rate[end], language) for end in ("low", "high")]
    return {
        "levels": [str(point["factors"][f]) for f in varied],
        "valid": point["valid"],
        "n": rate["n"],
        "mb_per_s": mean("mb_per_s"),
        "interval": "" if rate["low"] is None else "–".join(ends),
        "path": tenths(metrics["path_percent"]["mean"], language),
        "done": _span(mean("first_done_s"), mean("last_done_s")),
        "again": tenths(metrics["retransmitted_percent"]["mean"], language),
        "timeouts": mean("timeouts"),
        "waited": tenths(metrics["timeout_wait_percent"]["mean"], language),
        "dropped": mean("dropped_frames"),
        "limiter": say(language, f"limiter.{point['limiter']}"),
        "marks": [letters[c["caveat"]] for c in point["caveats"]],
    }


def _span(first: str, last: str) -> str:
    """From the first job's end to the last's; open where one did not end."""
    return last if first == last else f"{first}–{'…' if last == MISSING else last}"


def _way(summary: Json, point: Json, language: str) -> Json:
    """The hop table of a point: TCP at each end, and every channel between, in the order of the data."""
    rows: list[Json] = []
    legs = {leg: [h for h in point["hops"] if h["leg"] == leg and h["carries"] == "data"] for leg in ("read", "write")}
    for leg, hops in legs.items():
        if not hops:
            continue
        ends = {"source": hops[0]["from"], "target": hops[-1]["to"]}
        rows.append({"kind": "head", "text": say(language, f"hops.{leg}", ends)})
        rows += _tcp(point, ends["source"], "sender", language)
        rows += [_hop(h, language) for h in hops]
        rows += _tcp(point, ends["target"], "receiver", language)
    back = [h for h in point["hops"] if h["carries"] == "replies"]
    if back:
        rows.append({"kind": "head", "text": say(language, "hops.replies")})
        rows += [_hop(h, language) for h in back]
    return {"name": backup_figures.label(summary, point), "rows": rows}


def _hop(hop: Json, language: str) -> Json:
    def mean(name: str) -> str:
        return number(hop[name]["mean"], language) if name in hop else "–"

    rate, held = hop["rate_bits_per_s"], hop["held_bits_per_s"]
    shown = format_rate(int(rate)) if rate else say(language, "lab.unlimited")
    causes = [(cause, hop.get(f"dropped_{cause}", {}).get("mean") or 0.0) for cause in CAUSES]
    why = [f"{say(language, f'hops.cause.{c}')} {number(v, language)}" for c, v in causes if v]
    peak, queue = hop.get("queue_peak_bytes", {}).get("mean"), hop["queue_bytes"]
    filled = "–" if peak is None else number(peak / 1024, language)
    return {
        "kind": "hop",
        "way": f"{hop['from']} → {hop['to']}",
        "link": shown,
        "held": say(language, "hops.held", {"held": format_rate(int(held))}) if held else "",
        "in": mean("frames_in"),
        "out": mean("frames_out"),
        "dropped": mean("dropped"),
        "why": ", ".join(why),
        "marked": mean("marked"),
        "pauses": mean("pauses"),
        "peak": filled,
        "queue": say(language, "hops.of", {"size": format_size(int(queue))}) if queue else "",
        "busy": tenths(hop["busy_percent"]["mean"], language) if "busy_percent" in hop else "–",
        "lossy": (hop["dropped"]["mean"] or 0.0) > 0,
    }


def _tcp(point: Json, node: str, role: str, language: str) -> list[Json]:
    """One line about TCP at a node, from all counters that its kernel has."""
    told = point["tcp"]["nodes"].get(node)
    if not told:
        return []
    names = {
        "sender": ("segments_out", "retransmits", "fast_retransmits", "timeouts", "loss_probes"),
        "receiver": ("out_of_order",),
    }[role]
    said = [say(language, f"hops.tcp.{n}", {"count": _whole(told[n]["mean"])}) for n in names if n in told]
    separator = ", " if language == "en" else "、"
    text = say(language, "hops.tcp", {"node": node, "counts": separator.join(said)})
    return [{"kind": "tcp", "text": text}] if said else []


def _whole(value: float | None) -> float | None:
    """A mean of counts, whole where it is large."""
    return value if value is None or value < 100 else round(value)


def method(study: Json, lab: Json, language: str) -> list[str]:
    """How images were copied, and over what network."""
    copy = study.get("backup") or {}
    values = {k: copy.get(k, "–") for k in ("jobs", "image", "block", "depth", "streams", "time_limit")}
    ends = {k: (copy.get(n) or {}).get("array", "–") for k, n in (("source", "from"), ("target", "to"))}
    found = [say(language, "method.backup", values | ends)]
    backend = lab.get("backend")
    if backend in ("fabric", "kernel"):
        found.append(say(language, f"method.network.{backend}"))
    return found
