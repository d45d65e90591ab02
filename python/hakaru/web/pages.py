"""The contents of the pages. Pure, apart from reading summaries of runs. Everything that comes from
a run is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from hakaru.errors import HakaruError
from hakaru.live import words as live_words
from hakaru.live.state import Point
from hakaru.report import kind
from hakaru.store import RunReader, StoredRun
from hakaru.wording import LANGUAGES, has, say

LIVE_WORDS = ("live.point", "live.repetitions", "live.bottleneck", "live.caveats")
_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def home(runs: Sequence[StoredRun], language: str) -> str:
    """The run in progress, and all runs, the newest first."""
    texts = {name.partition(".")[2]: say(language, name) for name in LIVE_WORDS}
    texts["left"] = say(language, "live.left", {"time": "{time}"})  # the page counts down by itself
    return _page("home.html.j2", language, "", runs=[_row(run, language) for run in runs], texts=texts)


def _row(run: StoredRun, language: str) -> dict[str, Any]:
    status = say(
        language, f"web.status.{run.status}" if has(f"web.status.{run.status}") else f"live.status.{run.status}"
    )
    if not run.results and run.status != "running":
        status = say(language, "web.no_results", {"status": status})
    return {
        "name": run.name,
        "status": status,
        "status_id": run.status,
        "form": say(language, f"web.form.{run.form}"),
        "started": run.started.replace("T", " ")[:16],
        "note": "; ".join(text for text in (run.note, run.error) if text),
        "comparable": run.results and run.status not in ("running", "unreadable"),
    }


def run(stored: StoredRun, language: str) -> str:
    """One run: its points, findings and reports."""
    folder = stored.path / "report"
    reports = [
        {
            "language": code,
            "html": (folder / f"report.{code}.html").is_file(),
            "pdf": (folder / f"report.{code}.pdf").is_file(),
        }
        for code in LANGUAGES
    ]
    reports = [report for report in reports if report["html"] or report["pdf"]]
    # The report in the reader's language first.
    reports.sort(key=lambda report: report["language"] != language)
    table, findings = _results(stored, language)
    return _page(
        "run.html.j2",
        language,
        stored.name,
        run=_row(stored, language),
        table=table,
        findings=findings,
        reports=reports,
    )


def _results(stored: StoredRun, language: str) -> tuple[dict[str, Any] | None, list[str]]:
    """Table of points, and findings; nothing if the summary is of another version or program."""
    suffix = "" if language == "en" else f"_{language}"
    try:
        summary = _summary(stored)
        if summary is None:
            return None, []
        findings = [f.get(f"text{suffix}") or f["text"] for f in summary["findings"]]
        return _table(summary, language), findings
    except (LookupError, TypeError, ValueError, AttributeError):
        return None, []


def _summary(stored: StoredRun) -> dict[str, Any] | None:
    """The summary of a run; None before it is analysed."""
    try:
        summary: dict[str, Any] = RunReader(stored.path).read("summary.json")
    except HakaruError:
        return None
    return summary


def _table(summary: dict[str, Any], language: str) -> dict[str, Any] | None:
    """Columns and rows of the points; None if their kind of study is not installed."""
    try:
        table = kind.of(summary["run"]["kind"]).table(summary)
    except HakaruError:
        return None
    points = [Point(str(p["point"]), p["factors"], 0, limiter=p["limiter"]) for p in summary["points"]]
    names = live_words.point_names(points, language)
    suffix = "" if language == "en" else f"_{language}"
    shown = [
        {
            "name": names[point.id],
            "cells": cells,
            "limiter": live_words.limiter(point, language),
            "valid": of_summary["valid"],
            "caveats": [c.get(f"text{suffix}") or c["text"] for c in of_summary["caveats"]],
        }
        for point, cells, of_summary in zip(points, table.rows, summary["points"], strict=True)
    ]
    # The table of some kinds has a column for the bottleneck of its own.
    return {"columns": table.columns, "rows": shown, "limiter": "bottleneck" not in table.columns}


def compare_form(runs: Sequence[StoredRun], language: str, error: str) -> str:
    """The choice of two runs, and why the last choice is not possible."""
    rows = [_row(each, language) for each in runs]
    return _page("compare.html.j2", language, say(language, "web.compare"), runs=rows, error=error, compared=None)


def compared(found: dict[str, Any], before: str, after: str, language: str, *, all_rows: bool) -> str:
    """The comparison of two runs."""
    values = {"before": before, "after": after, "all_rows": all_rows, "runs": [], "error": ""}
    return _page("compare.html.j2", language, say(language, "web.compare"), compared=found, **values)


def _page(template: str, language: str, title: str, **values: Any) -> str:
    def text(message: str, **arguments: Any) -> str:
        return say(language, message, arguments)

    other = next(code for code in LANGUAGES if code != language)
    page = _ENVIRONMENT.get_template(template)
    return page.render(title=title, language=language, other=other, text=text, to_json=_to_json, **values)


def _to_json(value: Any) -> str:
    """JSON for a script element of data, whose end no text can write."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
