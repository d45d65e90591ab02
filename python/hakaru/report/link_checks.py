"""Link checks for the report: those of the lab as built, then those after each change of links by
points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hakaru.analysis import sentences
from hakaru.units import format_rate, format_size
from hakaru.wording import number, say, with_note

Json = dict[str, Any]
_POINTS_NAMED_MAX = 3


def groups(checks: list[Json], factors: Mapping[str, Json], language: str) -> list[Json]:
    """Tables with a heading and one row per path. The heading names the changed links; that of the
    first table is empty. `factors` are by point.
    """
    tables: list[Json] = []
    several_paths = any(check.get("path") for check in checks)
    for check in checks:
        heading = _heading(check, factors, language)
        if not tables or tables[-1]["heading"] != heading:
            tables.append({"heading": heading, "rows": []})
        tables[-1]["rows"].append(_row(check, several_paths, language))
    return tables


def _heading(check: Json, factors: Mapping[str, Json], language: str) -> str:
    changed, points = check.get("changed"), check.get("points") or []
    if changed is None:
        return ""
    names = [sentences.series(factors.get(point, {}), language) or point for point in points]
    shown = "; ".join(names)
    if len(points) > _POINTS_NAMED_MAX:
        shown = say(language, "links.points", {"count": len(points), "first": names[0]})
    # Links with the same change are listed together.
    links_by_change: dict[str, list[str]] = {}
    for link, fields in changed.items():
        links_by_change.setdefault(_change(fields, language), []).append(link)
    changes = "; ".join(f"{', '.join(links)}: {change}" for change, links in links_by_change.items())
    return say(language, "links.variant", {"changes": changes, "points": shown, "seconds": check.get("seconds")})


def _change(fields: Json, language: str) -> str:
    parts = []
    for field, value in fields.items():
        if field.endswith("bits_per_s"):
            shown = say(language, "lab.unlimited") if value is None else format_rate(int(value))
        elif field == "delay_us":
            shown = f"{number(float(value) / 1e3, language)} ms"
        else:
            shown = format_size(int(value)) if field == "queue_bytes" else str(value)
        parts.append(f"{say(language, f'links.{field}')} {shown}")
    return ", ".join(parts)


def _row(check: Json, several_paths: bool, language: str) -> Json:
    def rate(name: str) -> str:
        value = check.get(name)
        return f"{number(float(value) / 1e6, language)} Mbit/s" if value else "–"

    requested, requested_back, rtt = rate("asked_bits_per_s"), rate("reverse_asked_bits_per_s"), check.get("rtt_us_p50")
    vlan = f" ({check['vlan']})" if check.get("vlan") else ""
    ends = f"{check.get('from', '')} – {check.get('to', '')}{vlan}"
    measured_rtt = f"{number(float(rtt), language)} µs" if rtt else "–"
    if check.get("asked_rtt_us"):
        asked_rtt = say(language, "links.asked", {"value": number(float(check["asked_rtt_us"]), language)})
        measured_rtt = with_note(language, measured_rtt, asked_rtt)
    return {
        "path": say(language, "links.path", {"ends": ends, "number": check["path"] + 1}) if several_paths else ends,
        "asked": requested
        if "reverse_asked_bits_per_s" not in check or requested == requested_back
        else f"{requested} / {requested_back}",
        "measured": rate("measured_bits_per_s"),
        "reverse": rate("reverse_bits_per_s"),
        "rtt": measured_rtt,
        "off": not (check.get("as_asked", True) and check.get("rtt_as_asked", True)),
    }
