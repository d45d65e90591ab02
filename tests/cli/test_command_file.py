"""The file that is installed as the command `hakaru`."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "wheel" / "scripts" / "hakaru"


def test_a_process_that_draws_a_report_does_not_run_the_command_again() -> None:
    # multiprocessing imports the main file in this way in a process that it starts. Running the
    # command would raise SystemExit.
    names = runpy.run_path(str(SCRIPT), run_name="__mp_main__")
    assert callable(names["main"])
