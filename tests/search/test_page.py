"""The tables of docs/methodology/search.md are those that tools/search.py generates."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

from hakaru.kinds.packets.load import PacketsLoad
from hakaru.study import load

ROOT = Path(__file__).resolve().parents[2]


def test_tables_of_the_page_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools/search.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_goal_of_the_page_is_that_of_the_study() -> None:
    shipped = runpy.run_path(str(ROOT / "tools/search.py"))["SHIPPED"]
    written = load("forwarding").study.load
    assert isinstance(written, PacketsLoad)
    assert [goal.goal() for goal in written.search.goals] == [shipped]
