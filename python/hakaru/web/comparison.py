"""Comparison of two runs for a page, made in a process that runs only when a processor would
otherwise be idle, because a run may be in progress. One process at a time compares runs.

    python -m hakaru.web.comparison BEFORE AFTER LANGUAGE all|chief
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from hakaru.analysis.comparison.runs import compare
from hakaru.errors import EnvironmentError_, HakaruError, LostError, error_of_exit_code
from hakaru.report import can_draw
from hakaru.report import comparison as words
from hakaru.report.charts import NARROW, WIDE, svg
from hakaru.report.overlay import overlays
from hakaru.system_calls import set_parent_death_signal
from hakaru.wording import MISSING, say

FIGURES_MAX = 12
"""Figures on a page at most."""
WAITING_MAX = 8
"""Comparisons that wait for their turn. Each has a page that a reader looks at."""
NAME = "hakaru-compare"
"""Name of the process in `ps`."""
COLUMNS = ("point", "metric", "before", "after", "difference", "p", "n", "verdict")


def compared(before: Path, after: Path, language: str, *, all_rows: bool) -> dict[str, Any]:
    """Title, conditions that differ, rows and notes in words, as `hakaru compare` prints them."""
    (found,) = compare(before, [after])
    # The page does without figures if the packages that draw them are not installed.
    figures = overlays([found], language) if can_draw() else []
    hidden = len(figures) - FIGURES_MAX
    shown = [row for row in found.rows if all_rows or row.is_chief or row.verdict in words.CHANGED]
    varied = words.varied_factors(found.rows)
    conditions = [
        [f"{c.part}: {c.name}", *(MISSING if v is None else str(v) for v in (c.before, c.after))]
        for c in found.conditions
    ]
    return {
        "title": say(language, "compare.title", {"before": found.before["run"], "after": found.after["run"]}),
        "same_conditions": "" if conditions else say(language, "compare.same_conditions"),
        "condition_columns": [say(language, f"compare.{name}") for name in ("condition", "before", "after")],
        "conditions": conditions,
        "of_one_run": words.of_one_run(found, language),
        "columns": [say(language, f"compare.{name}") for name in COLUMNS],
        "rows": [{"verdict": row.verdict, "cells": words.cells(row, language, varied)} for row in shown],
        # The page has a link that shows the other rows.
        "notes": words.notes(found, found.rows, language),
        "figures": [
            {
                "title": figure.title,
                "note": figure.note,
                "wide": svg(figure.draw(WIDE), figure.title),
                "narrow": svg(figure.draw(NARROW), figure.title),
            }
            for figure in figures[:FIGURES_MAX]
        ],
        "hidden_figures": say(language, "web.hidden_figures", {"count": hidden}) if hidden > 0 else "",
    }


class Comparisons:
    """Comparisons for all pages of one server, which are made one after the other."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def compare(self, before: Path, after: Path, language: str, *, all_rows: bool) -> dict[str, Any]:
        """Call `compared` in a process of its own. Raises the HakaruError that it raised, and
        EnvironmentError_ if too many comparisons wait. The process ends if the caller is cancelled.
        """
        if self._waiting >= WAITING_MAX:
            raise EnvironmentError_(f"{WAITING_MAX} comparisons are waiting already", "try again in a minute")
        self._waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        try:
            return await _compare_apart(before, after, language, all_rows=all_rows)
        finally:
            self._turn.release()


async def _compare_apart(before: Path, after: Path, language: str, *, all_rows: bool) -> dict[str, Any]:
    command = (str(before), str(after), language, "all" if all_rows else "chief")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hakaru.web.comparison", *command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if not output:
        raise LostError("the comparison has failed", f"`hakaru compare {before} {after}` shows why")
    answer: dict[str, Any] = json.loads(output)
    if "error" in answer:
        raise error_of_exit_code(answer["exit_code"], answer["error"], answer["hint"])
    return answer


def main() -> None:
    """Print the comparison, or the error, as JSON."""
    # A server that is killed cannot end this process.
    set_parent_death_signal(signal.SIGKILL)
    Path("/proc/self/comm").write_text(NAME)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    before, after, language, extent = sys.argv[1:]
    try:
        answer = compared(Path(before), Path(after), language, all_rows=extent == "all")
    except HakaruError as error:
        answer = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
    print(json.dumps(answer, ensure_ascii=False, allow_nan=False))


if __name__ == "__main__":
    main()
