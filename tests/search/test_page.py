"""The tables of docs/methodology/search.md are those that tools/search.py generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_tables_of_the_page_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools/search.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
