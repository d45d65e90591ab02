"""What a report of a tuning shows: the course of its search, what each knob is worth, what to set.

parts     tables and ready text, from the part `tuning` of the summary
figures   course: every trial and the best so far; knobs: what switching each one back costs
"""

from __future__ import annotations

from typing import Any

from hakaru.report import charts
from hakaru.report.charts import Axes, Bar, Chart, Line, Size
from hakaru.report.figures import Figure
from hakaru.units import format_size
from hakaru.wording import number, say

Json = dict[str, Any]
CHIEF = ("tuning_failed", "tuning_best", "tuning_reach", "tuning_peer", "tuning_advised")
"""Findings that are the answer."""
TICKS_MAX = 10
"""Trials each of which has its tick; of more the axis chooses."""


def is_tuning(summary: Json) -> bool:
    """Whether a summary is that of a tuning."""
    return "tuning" in summary


def parts(summary: Json, language: str) -> Json:
    """Tables and texts of the tuning."""
    tuning = summary["tuning"]
    limiters = {p["point"]: say(language, f"limiter.{p['limiter']}") for p in summary["points"] if p.get("limiter")}
    return {
        "limited": bool(limiters),
        "given": _given(tuning, language),
        "knobs": [_knob(tuning, knob, language) for knob in tuning["knobs"]],
        "trials": [_trial(t, limiters, language) for t in tuning["trials"]],
        "text": [
            {"title": say(language, f"tuning.text.{b['name']}"), "file": b["file"], "text": b["text"]}
            for b in tuning["text"]
        ],
    }


def tiles(summary: Json, language: str) -> list[Json]:
    """The four numbers: best, default, what could be reached, memory."""
    tuning = summary["tuning"]
    advised = tuning["advised"]
    if advised is None:
        return []
    rate, before, reachable = advised["mb_per_s"], tuning["default"]["mb_per_s"]["median"], tuning["reachable_mb_per_s"]
    spread = "" if rate["n"] == 1 else say(language, "tile.of", rate)
    share = advised["reachable_percent"]
    shown = [
        ("advised", _mb(rate["median"], language), spread),
        ("default", _mb(before, language), say(language, "tile.search", {"trials": len(tuning["trials"])})),
        (
            "reachable",
            _mb(reachable, language),
            "" if share is None else say(language, "tile.share", {"percent": share}),
        ),
        ("memory", _memory(advised["memory_bytes"]), say(language, "tile.both_ends")),
    ]
    return [{"title": say(language, f"tile.{name}"), "value": value, "small": small} for name, value, small in shown]


def figures(summary: Json, language: str) -> list[Figure]:
    """Figures, where there is something to draw."""
    tuning = summary["tuning"]
    searched = [t for t in tuning["trials"] if t["phase"] == "search" and t["mb_per_s"] is not None]
    origins = ", ".join(say(language, f"origin.{o}") for o in dict.fromkeys(p["origin"] for p in summary["points"]))
    found = []
    if len(searched) > 1:
        note = say(language, "figure.course.note", {"origin": origins})
        title = say(language, "figure.course")
        found.append(Figure("course", title, note, lambda size: _course(searched, tuning, language, size)))
    if tuning["contributions"]:
        count = tuning["contributions"][0]["n"]
        note = say(language, "figure.knobs.note", {"origin": origins, "n": count})
        losses = sorted(tuning["contributions"], key=lambda c: -c["loss_percent"])
        rows = [_loss(c, language) for c in losses]
        axis, title = say(language, "axis.loss"), say(language, "figure.knobs")
        found.append(Figure("knobs", title, note, lambda size: charts.bars(rows, axis, size, 100.0)))
    return found


def _loss(worth: Json, language: str) -> Bar:
    """The loss when one knob is reverted. The axis begins at 0: a gain is written, not drawn."""
    low, high = (None if worth[end] is None else max(0.0, worth[end]) for end in ("low", "high"))
    text = f"{number(worth['loss_percent'], language)} %"
    return Bar(say(language, f"knob.{worth['knob']}"), max(0.0, worth["loss_percent"]), low, high, text)


def _course(searched: list[Json], tuning: Json, language: str, size: Size) -> Chart:
    def points(name: str) -> list[tuple[float, float, float | None, float | None]]:
        return [(float(t["trial"]), t[name], None, None) for t in searched]

    lines = [
        Line(say(language, "course.trial"), points("mb_per_s"), charts.THEIRS, hollow=True, dash=(0, 1)),
        Line(say(language, "course.best"), points("best_mb_per_s")),
    ]
    reachable = tuning["reachable_mb_per_s"]
    if reachable is not None:
        ends = [(float(t["trial"]), reachable, None, None) for t in (searched[0], searched[-1])]
        lines.append(Line(say(language, "course.reachable"), ends, charts.THEIRS, dash=(4, 3)))
    few = [float(t["trial"]) for t in searched] if len(searched) <= TICKS_MAX else []
    return charts.lines(lines, Axes(say(language, "axis.trial"), "MB/s", x_ticks=few, x_whole=True), size)


def _given(tuning: Json, language: str) -> list[tuple[str, str]]:
    given = tuning["conditions"]
    depth = given["depth"] if given["depth"] is not None else say(language, "tuned.any")
    op = say(language, f"tuned.{given['op']}")
    rows = [
        ("rtt", given["rtt"] or "–"),
        ("rate", given["rate"] or "–"),
        ("loss", f"{number(given['loss_percent'], language)} %"),
        ("load", f"{op} {given['block']}"),
        ("depth", str(depth)),
        ("goal", say(language, f"tuned.goal.{tuning['goal']}")),
        ("start", say(language, "tuned.start.defaults") if tuning["start"] == "defaults" else tuning["start"]),
    ]
    if tuning["peer"] is not None:
        rows.append(("peer", tuning["peer"]["name"]))
    return [(say(language, f"tuned.{name}"), value) for name, value in rows]


def _knob(tuning: Json, knob: Json, language: str) -> Json:
    """A knob's row: its default, where the best has it, what it is worth, and what is advised."""
    name = knob["knob"]
    best, advised = tuning["best"], tuning["advised"]
    worth = next((c for c in tuning["contributions"] if c["knob"] == name), None)
    interval = ""
    if worth is not None and worth["low"] is not None:
        interval = say(language, "tuning.bounds", {"low": worth["low"], "high": worth["high"]})
    turned = advised is not None and name in advised["settings"]
    return {
        "name": say(language, f"knob.{name}"),
        "default": knob["default"],
        "best": "" if best is None else best["settings"].get(name, "="),
        "loss": "" if worth is None else f"{number(worth['loss_percent'], language)} %",
        "interval": interval,
        "advised": advised["settings"][name] if advised is not None and turned else knob["default"],
        "turned": turned,
    }


def _trial(trial: Json, limiters: dict[str, str], language: str) -> Json:
    knob = say(language, f"knob.{trial['knob']}") if trial["knob"] else ""
    if trial["phase"] == "contribution" and not knob:
        knob = say(language, "tuned.none")
    return {
        "trial": f"{trial['trial']} ({trial['point']})",
        "phase": " ".join(part for part in (say(language, f"tuned.phase.{trial['phase']}"), knob) if part),
        "mb_per_s": number(trial["mb_per_s"], language) if trial["error"] is None else trial["error"],
        "limiter": limiters.get(trial["point"], "") if trial["error"] is None else "",
        "memory": _memory(trial["memory_bytes"]),
        "settings": ", ".join(f"{say(language, f'knob.{k}')} {v}" for k, v in trial["settings"].items()),
    }


def _mb(value: float | None, language: str) -> str:
    return f"{number(value, language)} MB/s"


def _memory(size: int) -> str:
    unit = 1 << 20 if size >= 10 << 20 else 1 << 10
    return format_size(-(-size // unit) * unit)
