"""The table of a run that `hakaru run` prints: points, caveats, findings, expectations, paths of
the reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from hakaru.caveats import Caveat
from hakaru.report import kind, scorecard
from hakaru.study.part import level_text
from hakaru.terminal import new_console, say
from hakaru.wording import has, with_note
from hakaru.wording import say as worded


def print_summary(summary: dict[str, Any], reports: Sequence[Path], language: str = "en") -> None:
    """Print the points of a run, its findings and expectations, and the paths of the reports."""
    text = "text" if language == "en" else f"text_{language}"
    console = new_console()
    factors = list(dict.fromkeys(name for point in summary["points"] for name in point["factors"]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in factors:
        words = any(isinstance(point["factors"].get(name), str) for point in summary["points"])
        table.add_column(name, justify="left" if words else "right", no_wrap=True)
    shown = kind.of(summary["run"]["kind"]).table(summary)
    for title in shown.columns:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    caveat_texts = _caveats(summary, text)
    marks = {code: str(i) for i, code in enumerate(caveat_texts, start=1)}
    for point, values in zip(summary["points"], shown.rows, strict=True):
        caveats = dict.fromkeys(c["caveat"] for c in point["caveats"])
        cells = [level_text(point["factors"].get(name, "")) for name in factors]
        table.add_row(*cells, *values, " ".join(marks[code] for code in caveats))
    console.print(table)
    for code, texts_of_places in caveat_texts.items():
        for caveat_text in texts_of_places.values():
            say(console, f"{marks[code]}  {code}: {caveat_text}")
    origins = sorted({point["origin"] for point in summary["points"]})
    shown_origins = [worded(language, f"origin.{o}") if has(f"origin.{o}") else o for o in origins]
    separator = worded(language, "list.separator")
    say(console, worded(language, "terminal.origin", {"origins": separator.join(shown_origins)}) + "\n")
    for finding in summary["findings"]:
        say(console, finding[text])
    _print_expectations(console, summary["expectations"], language)
    for paragraph in scorecard.answer(summary, language):
        shown_counts = scorecard.counts(summary, language)
        parts = {"name": paragraph["name"], "counts": shown_counts, "text": paragraph["text"]}
        say(console, worded(language, "terminal.scorecard", parts))
    for path in reports:
        console.print(worded(language, "terminal.report", {"path": str(path)}), soft_wrap=True)


def _print_expectations(console: Console, expectations: Sequence[dict[str, Any]], language: str) -> None:
    judged = [e for e in expectations if e["held"] is not None]
    if not expectations:
        return
    unjudged = len(expectations) - len(judged)
    values = {"held": sum(e["held"] for e in judged), "judged": len(judged)}
    shown = worded(language, "terminal.expectations", values)
    if unjudged:
        shown = with_note(language, shown, worded(language, "terminal.unjudged", {"unjudged": unjudged}))
    say(console, shown)


def _caveats(summary: dict[str, Any], text: str) -> dict[str, dict[str, str]]:
    """Caveat → its place, if it has one → its text at the first point that has it. Its numbers may
    differ at other points; the report shows them.
    """
    texts: dict[str, dict[str, str]] = {}
    for point in summary["points"]:
        for each in point["caveats"]:
            caveat = Caveat.from_json(each)
            place = "" if caveat is None else caveat.place
            texts.setdefault(each["caveat"], {}).setdefault(place, each[text])
    return texts
