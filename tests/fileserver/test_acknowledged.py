"""Files that Samba has acknowledged are intact after it was killed under load. What its machine has
in its page cache survives the end of Samba; tests/guests/test_power_cut.py loses that as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fileserver.conftest import need_samba
from tests.fileserver.kill_under_load import CLIENTS, FOLDERS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of a server that was killed under load, and started again."""
    need_samba()
    done = subprocess.run(
        [sys.executable, "-m", "tests.fileserver.kill_under_load", str(tmp_path_factory.mktemp("share"))],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_files_that_were_flushed_before_samba_was_killed_are_as_they_were_written(killed: dict[str, Any]) -> None:
    assert killed["error"] == "file server fs-1 was lost: Samba ended with signal 9"
    assert killed["acknowledged"] >= FOLDERS
    # It was killed in the midst of the load: no client had its work done, and each has an error.
    assert len(killed["interrupted"]) == CLIENTS and len(killed["clients"]) == CLIENTS
    assert killed["wrong"] == {}


def test_interrupted_clients_continue_with_the_server_that_was_started_again(killed: dict[str, Any]) -> None:
    assert killed["completed"] == killed["acknowledged"] + CLIENTS
    assert killed["wrong_completed"] == {}


def test_the_check_finds_a_changed_a_short_and_a_missing_file_and_no_other(killed: dict[str, Any]) -> None:
    assert len(killed["wrong_damaged"]) == 3
    problems = {
        file: next(problem for problems in killed["wrong_damaged"].values() for problem in problems if file in problem)
        for file in killed["damaged"]
    }
    assert sum(map(len, killed["wrong_damaged"].values())) == 3
    flipped, shortened, deleted = problems.values()
    assert "is wrong" in flipped and "bytes instead of" in shortened and "cannot be read" in deleted
