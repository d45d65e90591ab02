"""The captures of a run for its report: files, contents and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hakaru.analysis import sentences
from hakaru.units import format_size
from hakaru.wording import number, say

Json = dict[str, Any]
SHOWN_MAX = 200
"""Maximum number of rows, so that a run with many repetitions keeps a readable list."""


def rows(summary: Json, run_path: str, language: str) -> list[Json]:
    """One row per node and repetition. `run_path`: relative path from the folder of the report to
    the run directory.
    """
    factors: Mapping[str, Any] = {point["point"]: point["factors"] for point in summary["points"]}
    return [_row(capture, factors, run_path, language) for capture in (summary.get("captures") or [])[:SHOWN_MAX]]


def _row(capture: Json, factors: Mapping[str, Any], run_path: str, language: str) -> Json:
    point = sentences.series(factors.get(capture["point"], {}), language)
    files = [{"name": name.rpartition("/")[2], "href": quote(f"{run_path}/{name}")} for name in capture["files"]]
    return {
        "files": files,
        "what": ", ".join(part for part in (point, str(capture["repetition"])) if part),
        "node": capture["node"],
        "packets": number(capture["packets"], language),
        "bytes": format_size(capture["bytes"] >> 20 << 20)
        if capture["bytes"] >= 1 << 24
        else f"{number(capture['bytes'] // 1000, language)} kB",
        "lost": _lost(capture, language),
    }


def _lost(capture: Json, language: str) -> str:
    parts = []
    if capture["dropped"]:
        parts.append(say(language, "captures.dropped", {"packets": capture["dropped"]}))
    if capture["deleted_files"]:
        parts.append(say(language, "captures.deleted", {"files": capture["deleted_files"]}))
    if capture["cut_short"]:
        parts.append(say(language, "captures.cut_short"))
    return ", ".join(parts) or say(language, "captures.nothing")
