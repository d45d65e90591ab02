"""Parts of the report of a tuning: the course of the search, the contribution of each setting, and
the settings to apply.
"""

from __future__ import annotations

from typing import Any

from hakaru.report import charts
from hakaru.report.blocks import Cell, Column, Row, Section, Table, Text
from hakaru.report.charts import Axes, Bar, Chart, Line, Size
from hakaru.report.figures import Figure, origin_of
from hakaru.units import format_size
from hakaru.wording import number, say

Json = dict[str, Any]
CHIEF = ("tuning_failed", "tuning_best", "tuning_reach", "tuning_peer", "tuning_advised")
"""Kinds of findings that answer the question."""
TICKS_MAX = 10
"""Maximum number of trials with one tick each; with more, the axis chooses its ticks."""


def tables(summary: Json, language: str) -> list[Table]:
    """Tables of conditions, knobs and trials."""
    tuning = summary["tuning"]
    conditions = [Row([name, value]) for name, value in _conditions(tuning, language)]
    return [
        Table(say(language, "tuned.given"), [], conditions, "pairs"),
        _knobs(tuning, language),
        _trials(summary, language),
    ]


def _knobs(tuning: Json, language: str) -> Table:
    titles = [say(language, f"table.{name}") for name in ("knob", "default", "best", "loss", "advised")]
    columns = [Column(title, "level", header=i == 0) for i, title in enumerate(titles)]
    rows = [_knob(tuning, knob, language) for knob in tuning["knobs"]]
    return Table(say(language, "tuned.knobs"), columns, rows, "text knobs")


def _trials(summary: Json, language: str) -> Table:
    limiters = {p["point"]: say(language, f"limiter.{p['limiter']}") for p in summary["points"] if p.get("limiter")}
    titles = [say(language, "axis.trial"), say(language, "table.phase"), "MB/s"]
    titles += [say(language, "table.limiter")] if limiters else []
    titles += [say(language, "table.memory"), say(language, "table.settings")]
    columns = [Column(title, "level", header=i == 0) for i, title in enumerate(titles)]
    rows = [_trial(trial, limiters, language) for trial in summary["tuning"]["trials"]]
    return Table(say(language, "tuned.trials"), columns, rows, "text trials")


def sections(summary: Json, language: str) -> list[Section]:
    """Section with the settings to apply, ready to copy."""
    texts = [
        Text(say(language, f"tuning.text.{block['name']}"), block["file"], block["text"])
        for block in summary["tuning"]["text"]
    ]
    if not texts:
        return []
    title, about = say(language, "section.set"), say(language, "tuned.set")
    return [Section("set", title, about, texts=texts, before_results=True)]


def tiles(summary: Json, language: str) -> list[Json]:
    """The four numbers at the head of the report: best and default rate, reachable rate, memory."""
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
    """Figures of the search and of the contributions of knobs, if the tuning has them."""
    tuning = summary["tuning"]
    searched = [t for t in tuning["trials"] if t["phase"] == "search" and t["mb_per_s"] is not None]
    origins = origin_of(summary["points"], language)
    figures = []
    if len(searched) > 1:
        note = say(language, "figure.course.note", {"origin": origins})
        title = say(language, "figure.course")
        figures.append(Figure("course", title, note, lambda size: _course(searched, tuning, language, size)))
    if tuning["contributions"]:
        count = tuning["contributions"][0]["n"]
        note = say(language, "figure.knobs.note", {"origin": origins, "n": count})
        losses = sorted(tuning["contributions"], key=lambda c: -c["loss_percent"])
        rows = [_loss(c, language) for c in losses]
        axis, title = say(language, "axis.loss"), say(language, "figure.knobs")
        figures.append(Figure("knobs", title, note, lambda size: charts.bars(rows, axis, size, 100.0)))
    return figures


def _loss(contribution: Json, language: str) -> Bar:
    """The loss when one knob is reverted. The axis starts at 0, so a gain appears only as text."""
    low, high = (None if contribution[end] is None else max(0.0, contribution[end]) for end in ("low", "high"))
    text = f"{number(contribution['loss_percent'], language)} %"
    return Bar(say(language, f"knob.{contribution['knob']}"), max(0.0, contribution["loss_percent"]), low, high, text)


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


def _conditions(tuning: Json, language: str) -> list[tuple[str, str]]:
    conditions = tuning["conditions"]
    depth = conditions["depth"] if conditions["depth"] is not None else say(language, "tuned.any")
    op = say(language, f"tuned.{conditions['op']}")
    rows = [
        ("rtt", conditions["rtt"] or "–"),
        ("rate", conditions["rate"] or "–"),
        ("loss", f"{number(conditions['loss_percent'], language)} %"),
        ("load", f"{op} {conditions['block']}"),
        ("depth", str(depth)),
        ("goal", say(language, f"tuned.goal.{tuning['goal']}")),
        ("start", say(language, "tuned.start.defaults") if tuning["start"] == "defaults" else tuning["start"]),
    ]
    if tuning["peer"] is not None:
        rows.append(("peer", tuning["peer"]["name"]))
    return [(say(language, f"tuned.{name}"), value) for name, value in rows]


def _knob(tuning: Json, knob: Json, language: str) -> Row:
    """The row of a knob: default, best setting, loss when reverted, and recommendation."""
    name = knob["knob"]
    best, advised = tuning["best"], tuning["advised"]
    contribution = next((c for c in tuning["contributions"] if c["knob"] == name), None)
    loss = Cell("")
    if contribution is not None:
        bounds = {"low": contribution["low"], "high": contribution["high"]}
        interval = "" if contribution["low"] is None else say(language, "tuning.bounds", bounds)
        loss = Cell(f"{number(contribution['loss_percent'], language)} %", interval)
    changed = advised is not None and name in advised["settings"]
    return Row(
        [
            say(language, f"knob.{name}"),
            knob["default"],
            "" if best is None else best["settings"].get(name, "="),
            loss,
            Cell(advised["settings"][name] if changed else knob["default"], bold=changed),
        ]
    )


def _trial(trial: Json, limiters: dict[str, str], language: str) -> Row:
    knob = say(language, f"knob.{trial['knob']}") if trial["knob"] else ""
    if trial["phase"] == "contribution" and not knob:
        knob = say(language, "tuned.none")
    failed = trial["error"] is not None
    invalid = "" if trial["valid"] else say(language, "caveat.severity.invalid")
    cells: list[Cell | str] = [
        f"{trial['trial']} ({trial['point']})",
        " ".join(part for part in (say(language, f"tuned.phase.{trial['phase']}"), knob) if part),
        Cell(trial["error"] if failed else number(trial["mb_per_s"], language), invalid),
        *([("" if failed else limiters.get(trial["point"], ""))] if limiters else []),
        _memory(trial["memory_bytes"]),
        ", ".join(f"{say(language, f'knob.{name}')} {value}" for name, value in trial["settings"].items()),
    ]
    return Row(cells, "" if trial["valid"] else "invalid")


def _mb(value: float | None, language: str) -> str:
    return f"{number(value, language)} MB/s"


def _memory(size: int) -> str:
    unit = 1 << 20 if size >= 10 << 20 else 1 << 10
    return format_size(-(-size // unit) * unit)
