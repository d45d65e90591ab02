"""Analysis of the points of a run in progress: intervals, caveats and bottleneck so far, by the
code of the report.

A process of its own reads names of points from stdin, one per line, and prints one JSON line per
point. It runs only when a processor would otherwise be idle (SCHED_IDLE), so that it takes no time
from the engines. It ends when its stdin is closed.

    python -m hakaru.live.analyst FOLDER RUN
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hakaru.analysis.run_data import RunData
from hakaru.analysis.summary import analyse
from hakaru.errors import HakaruError, UsageError
from hakaru.live.feed import LiveRun
from hakaru.report import kind


def point_so_far(directory: Path, point: str) -> dict[str, Any]:
    """Results of one point over its repetitions so far, in the form of `State.learn`. Raises
    HakaruError if they cannot be analysed.
    """
    run = RunData.read(directory)
    summary = analyse(replace(run, points=[each for each in run.points if each["point"] == point]))
    table = kind.of(run.kind).table(summary)
    (described,) = summary["points"]
    return {
        "point": point,
        "columns": list(table.columns),
        "cells": list(table.rows[0]),
        "limiter": described["limiter"],
        "valid": described["valid"],
        "caveats": described["caveats"],
    }


def _answer(run: LiveRun, point: str) -> dict[str, Any]:
    try:
        try:
            return point_so_far(run.directory, point)
        except UsageError:
            # The directory may have been renamed meanwhile, because the run has ended.
            return point_so_far(run.directory, point)
    except HakaruError as error:
        return {"point": point, "error": error.message}
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # A kind may not expect a run of one point. The view then shows the rates alone.
        return {"point": point, "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer until stdin is closed."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    run = LiveRun(Path(sys.argv[1]), sys.argv[2])
    for line in sys.stdin:
        print(json.dumps(_answer(run, line.strip()), ensure_ascii=False, allow_nan=False), flush=True)


if __name__ == "__main__":
    main()
