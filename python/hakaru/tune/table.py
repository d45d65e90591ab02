"""Prints a finished tuning on stdout: its trials, the contribution of each knob, the findings, and
configuration text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from hakaru.terminal import new_console, say
from hakaru.translation import shown
from hakaru.units import format_size
from hakaru.wording import number
from hakaru.wording import say as worded


def print_tuning(summary: dict[str, Any], reports: Sequence[Path], language: str = "en") -> None:
    """Print the tuning, with everything that a reader needs to apply the advice."""
    console, tuning = new_console(), summary["tuning"]
    text = "text" if language == "en" else f"text_{language}"
    console.print(_trials(tuning))
    if tuning["contributions"]:
        console.print(_contributions(tuning))
    for finding in summary["findings"]:
        say(console, finding[text])
    for caveat in _caveats(summary, text):
        say(console, caveat)
    origins = ", ".join(sorted({p["origin"] for p in summary["points"]}))
    say(console, worded(language, "terminal.origin", {"origins": origins}))
    for block in tuning["text"]:
        location = f" ({block['file']})" if block["file"] else ""
        console.print(f"\n# {worded(language, 'tuning.text.' + block['name'])}{location}", soft_wrap=True)
        console.print(block["text"], soft_wrap=True, end="")
    for path in reports:
        console.print(worded(language, "terminal.report", {"path": str(path)}), soft_wrap=True)


def _trials(tuning: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("trial", "MB/s", "best", "memory"):
        table.add_column(shown(title), justify="right", no_wrap=True)
    table.add_column(shown("changed"), overflow="fold")
    for trial in (t for t in tuning["trials"] if t["phase"] == "search"):
        changed = "  ".join(f"{name} {value}" for name, value in trial["settings"].items()) or shown("defaults")
        rate = number(trial["mb_per_s"])
        if trial["error"] is not None:
            cell = shown("failed")
        elif trial["valid"]:
            cell = rate
        else:
            cell = shown(f"{rate} (invalid)")
        memory = format_size(-(-trial["memory_bytes"] >> 10) << 10)
        table.add_row(str(trial["trial"]), cell, number(trial["best_mb_per_s"]), memory, changed)
    return table


def _contributions(tuning: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("reverted", "from", "to", "MB/s", "loss %", "95 %", "effect"):
        left = title in ("reverted", "effect")
        table.add_column(shown(title), justify="left" if left else "right", no_wrap=True)
    for contribution in tuning["contributions"]:
        interval = (
            "" if contribution["low"] is None else f"{number(contribution['low'])} to {number(contribution['high'])}"
        )
        effect = (
            "not measurable" if not contribution["measurable"] else "" if contribution["contributes"] else "below 2 %"
        )
        cells = (
            contribution["knob"],
            contribution["to"],
            contribution["from"],
            number(contribution["mb_per_s"]),
            number(contribution["loss_percent"]),
        )
        table.add_row(*cells, shown(interval), shown(effect))
    return table


def _caveats(summary: dict[str, Any], text: str) -> list[str]:
    """Return the caveats of the run and of the points behind the advice. The report has those of
    settings that only the search tried.
    """
    trials = summary["tuning"]["trials"]
    rests_on = {t["point"] for t in trials if t["phase"] != "search" or t["trial"] == 1}
    points = [p for p in summary["points"] if p["point"] in rests_on]
    lines: dict[str, str] = {}
    for caveat in [*summary["caveats"], *(c for p in points for c in p["caveats"])]:
        if caveat["severity"] != "note":
            lines.setdefault(caveat["caveat"], f"{caveat['caveat']}: {caveat[text]}")
    return list(lines.values())
