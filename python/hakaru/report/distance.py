"""What a report of a load over a distance shows beside its figures: the answer, tiles, tables; as text.

Called by `document`, which has what all reports share.
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.report import distance_figures
from hakaru.report.backup_figures import note
from hakaru.wording import number, say, tenths

Json = dict[str, Any]
TILES_MAX = 4


def is_distance(summary: Json) -> bool:
    """Whether the distance between VMs and array varies: rates over the round trip are what the report is about."""
    return bool(summary.get("curves"))


def _chief_points(summary: Json) -> list[Json]:
    """Those of the first group at the distance that is told first; else the first points of the run."""
    rtt = distance_figures.chief_rtt(summary)
    if rtt is None:
        return list(summary["points"][:TILES_MAX])
    return [p for p in distance_figures.bar_points(summary) if p["path"]["rtt_ms"] == rtt]


def chief_findings(summary: Json) -> list[Json]:
    """Those that answer the question: what the settings gain at that distance, and what limits each of them."""
    points = _chief_points(summary)
    levels = [p["factors"] for p in points]
    gains = [
        f
        for f in summary["findings"]
        if f["kind"] == "gain" and any(f["where"].items() <= own.items() for own in levels)
    ]
    return gains[:1] + [f for f in summary["findings"] if f["kind"] == "limiter" and (f["where"] in levels)]


def tiles(summary: Json, language: str) -> list[Json]:
    """The rate of each setting at that distance, and what limits it."""
    found = []
    for point in _chief_points(summary)[:TILES_MAX]:
        metrics = point["metrics"]
        limiter, percent = say(language, f"limiter.{point['limiter']}"), metrics["payload_percent"]["mean"]
        share = {"percent": tenths(percent, language), "limiter": limiter}
        small = limiter if percent is None else say(language, "tile.distance.share", share)
        value = f"{number(metrics['mb_per_s']['mean'], language)} MB/s"
        title = say(language, "tile.distance", {"series": distance_figures.label(summary, point)})
        found.append({"title": title, "value": value, "small": small})
    return found


def parts(summary: Json, letters: dict[str, str], language: str) -> Json:
    """One table for each set of factors."""
    groups: dict[tuple[str, ...], list[Json]] = {}
    for point in summary["points"]:
        groups.setdefault((*point["factors"], str(point["factors"].get("pattern"))), []).append(point)
    tables = [_table(points, letters, language) for points in groups.values()]
    return {"about": say(language, "table.distance"), "tables": tables}


def _table(points: list[Json], letters: dict[str, str], language: str) -> Json:
    """Factors that have one level in all rows stand above the table."""
    factors = list(points[0]["factors"])
    varied = [f for f in factors if len({str(p["factors"][f]) for p in points}) > 1] or factors
    same = sentences.series({f: v for f, v in points[0]["factors"].items() if f not in varied}, language)
    origin = note(points, language)
    caption = say(language, "series", {"series": same, "text": origin}) if same else origin
    return {"factors": varied, "rows": [_row(p, varied, letters, language) for p in points], "caption": caption}


def _row(point: Json, varied: list[str], letters: dict[str, str], language: str) -> Json:
    metrics = point["metrics"]

    def percent(name: str) -> str:
        return tenths(metrics[f"{name}_percent"]["mean"], language)

    rate = metrics["mb_per_s"]
    ends = [number(rate[end], language) for end in ("low", "high")]
    return {
        "levels": [str(point["factors"][f]) for f in varied],
        "valid": point["valid"],
        "n": rate["n"],
        "mb_per_s": number(rate["mean"], language),
        "interval": "" if rate["low"] is None else "–".join(ends),
        "bound": number(metrics["bound_mb_per_s"]["mean"], language),
        "of_bound": percent("bound_share"),
        "of_payload": percent("payload"),
        "r2ts": number(metrics["r2ts_per_command"]["mean"], language),
        "wait_r2t": percent("wait_r2t"),
        "idle": percent("tcp_idle"),
        "receive_window": percent("tcp_receive_window"),
        "send_buffer": percent("tcp_send_buffer"),
        "again": percent("retransmitted"),
        "timeouts": number(metrics["timeouts"]["mean"], language),
        "limiter": say(language, f"limiter.{point['limiter']}"),
        "marks": [letters[c["caveat"]] for c in point["caveats"]],
    }


def method(language: str) -> list[str]:
    """How rates and bounds are made."""
    return [say(language, "method.distance"), say(language, "method.distance.bounds")]
