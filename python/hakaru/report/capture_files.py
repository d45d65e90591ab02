"""The captures of a run for its report: which files, what they hold, what they lack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hakaru.analysis import sentences
from hakaru.units import format_size
from hakaru.wording import number, say

Json = dict[str, Any]
SHOWN_MAX = 200
"""Rows; a run of very many repetitions has more files than anybody reads in a list."""


def rows(summary: Json, to_run: str, language: str) -> list[Json]:
    """One row per node and repetition; `to_run`: from the report's folder to the run directory."""
    factors: Mapping[str, Any] = {point["point"]: point["factors"] for point in summary["points"]}
    return [_row(one, factors, to_run, language) for one in (summary.get("captures") or [])[:SHOWN_MAX]]


def _row(one: Json, factors: Mapping[str, Any], to_run: str, language: str) -> Json:
    point = sentences.series(factors.get(one["point"], {}), language)
    files = [{"name": name.rpartition("/")[2], "href": quote(f"{to_run}/{name}")} for name in one["files"]]
    return {
        "files": files,
        "what": ", ".join(part for part in (point, str(one["repetition"])) if part),
        "node": one["node"],
        "packets": number(one["packets"], language),
        "bytes": format_size(one["bytes"] >> 20 << 20) if one["bytes"] >= 1 << 24 else f"{one['bytes'] // 1000} kB",
        "lost": _lost(one, language),
    }


def _lost(one: Json, language: str) -> str:
    said = []
    if one["dropped"]:
        said.append(say(language, "captures.dropped", {"packets": one["dropped"]}))
    if one["deleted_files"]:
        said.append(say(language, "captures.deleted", {"files": one["deleted_files"]}))
    if one["cut_short"]:
        said.append(say(language, "captures.cut_short"))
    return ", ".join(said) or say(language, "captures.nothing")
