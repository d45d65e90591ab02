"""A finished tuning on stdout: its trials, what it found, what each knob is worth, and the ready
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from hakaru.terminal import new_console, say
from hakaru.units import format_size
from hakaru.wording import number
from hakaru.wording import say as worded


def print_tuning(summary: dict[str, Any], reports: Sequence[Path]) -> None:
    """All that a reader needs to go and set it."""
    console, tuning = new_console(), summary["tuning"]
    console.print(_trials(tuning))
    if tuning["contributions"]:
        console.print(_contributions(tuning))
    for finding in summary["findings"]:
        say(console, finding["text"])
    for caveat in _caveats(summary):
        say(console, caveat)
    say(console, f"origin: {', '.join(sorted({p['origin'] for p in summary['points']}))}")
    for block in tuning["text"]:
        where = f" ({block['file']})" if block["file"] else ""
        console.print(f"\n# {worded('en', 'tuning.text.' + block['name'])}{where}", markup=False, soft_wrap=True)
        console.print(block["text"], markup=False, soft_wrap=True, end="")
    for path in reports:
        console.print(f"report: {path}", markup=False, soft_wrap=True)


def _trials(tuning: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("trial", "MB/s", "best", "memory"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("turned", overflow="fold")
    for trial in (t for t in tuning["trials"] if t["phase"] == "search"):
        turned = "  ".join(f"{name} {value}" for name, value in trial["settings"].items()) or "as it stands"
        rate = number(trial["mb_per_s"]) if trial["error"] is None else "failed"
        memory = format_size(-(-trial["memory_bytes"] >> 10) << 10)
        table.add_row(str(trial["trial"]), rate, number(trial["best_mb_per_s"]), memory, turned)
    return table


def _contributions(tuning: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("switched back", "from", "to", "MB/s", "loss %", "95 %", "effect"):
        left = title in ("switched back", "effect")
        table.add_column(title, justify="left" if left else "right", no_wrap=True)
    for one in tuning["contributions"]:
        interval = "" if one["low"] is None else f"{number(one['low'])} to {number(one['high'])}"
        effect = "not measurable" if not one["measurable"] else "" if one["contributes"] else "below 2 %"
        cells = (one["knob"], one["to"], one["from"], number(one["mb_per_s"]), number(one["loss_percent"]))
        table.add_row(*cells, interval, effect)
    return table


def _caveats(summary: dict[str, Any]) -> list[str]:
    """Of the run, and of what the advice rests on; settings that only the search tried have theirs
    in the report.
    """
    trials = summary["tuning"]["trials"]
    rests_on = {t["point"] for t in trials if t["phase"] != "search" or t["trial"] == 1}
    points = [p for p in summary["points"] if p["point"] in rests_on]
    found: dict[str, str] = {}
    for caveat in [*summary["caveats"], *(c for p in points for c in p["caveats"])]:
        if caveat["severity"] != "note":
            found.setdefault(caveat["caveat"], f"{caveat['caveat']}: {caveat['text']}")
    return list(found.values())
