"""The findings of a report.

Up to `EACH_MAX` points, each point's bottleneck is an entry with its arithmetic. In a longer run,
points with the same bottleneck share one entry: the text of the first of them, and the names of the
others. The results of the run have the text of every point.
"""

from __future__ import annotations

from typing import Any

from hakaru.analysis import sentences
from hakaru.report.point_names import names
from hakaru.wording import say, tenths

Json = dict[str, Any]

EACH_MAX = 40
"""Number of bottlenecks up to which every point has an entry of its own. A page holds about
seven.
"""
SHOWN_MAX = 6
"""Number of resources listed as the evidence of an entry, the busiest first."""


def rows(summary: Json, language: str) -> list[Json]:
    """The findings in their order, as the template shows them."""
    findings: list[Json] = summary["findings"]
    limiters = [f for f in findings if f["kind"] == "limiter"]
    if len(limiters) <= EACH_MAX:
        return [_row(finding, [], language) for finding in findings]
    groups: dict[tuple[str | None, str | None], list[Json]] = {}
    for finding in limiters:
        groups.setdefault(_bottleneck(finding, summary["points"]), []).append(finding)
    firsts = {id(group[0]): group[1:] for group in groups.values()}
    shown = [f for f in findings if f["kind"] != "limiter" or id(f) in firsts]
    return [_row(f, names((o["where"] for o in firsts.get(id(f), [])), language), language) for f in shown]


def _bottleneck(finding: Json, points: list[Json]) -> tuple[str | None, str | None]:
    resource = next((p.get("resource") for p in points if p["factors"] == finding["where"]), None)
    return finding["limiter"], resource


def _row(finding: Json, places: list[str], language: str) -> Json:
    evidence, shown = finding["evidence"], []
    if finding["kind"] == "limiter":
        at_peak = evidence.get("at_peak") or {}
        ranked = sorted(at_peak.items(), key=lambda item: -item[1])[:SHOWN_MAX]
        shown = [f"{sentences.resource(language, r)} {tenths(u, language)} %" for r, u in ranked]
    heading = "evidence.at_point" if "port" in evidence or "jobs" in evidence else "evidence.at_limit"
    return {
        "kind": finding["kind"],
        "text": finding["text" if language == "en" else f"text_{language}"],
        "evidence": shown,
        "evidence_of": say(language, heading),
        "places": places,
    }
