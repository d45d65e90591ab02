"""Repeat a run in a lab that the host of this virtual machine disturbed.

A stall of a hundred milliseconds delays more requests than the limits of a short measurement allow.
The kernel counts the time that the host took away as `steal`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.run.conftest import Hakaru

ATTEMPTS = 3
STOLEN_TICKS_MIN = 10
"""Stolen time of a run, in hundredths of a second of all processors together, from which on it may
be repeated: one stall of 100 ms of one processor.
"""


def _stolen_ticks() -> int:
    """Return the time that the host took from all processors since boot."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8])


def run_and_judge(hakaru: Hakaru, arguments: tuple[str, ...], judge: Callable[[Path], None]) -> None:
    """Run hakaru, which must exit with 0, and judge the folder of the run. If this fails, and the
    host took time away meanwhile, do both again, at most three times in all.
    """
    for attempt in range(ATTEMPTS):
        runs = replace(hakaru, runs=hakaru.runs / str(attempt))
        stolen = _stolen_ticks()
        result = runs.run(*arguments)
        try:
            assert result.returncode == 0, result.stdout + result.stderr
            return judge(runs.only_run())
        except AssertionError:
            if attempt + 1 == ATTEMPTS or _stolen_ticks() - stolen < STOLEN_TICKS_MIN:
                raise
