"""Files that a file server in a guest has acknowledged are intact after its power was cut: those of
clients at the top of the chain of LU, file system, virtual disk, file system and Samba.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import Image, find_image

from tests.guests.conftest import TIMEOUT_S
from tests.guests.power_cut import CLIENTS, FOLDERS, REFUSED
from tests.guests.test_device import needs_taps

Cases = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def cases(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Results of one program that cuts the power of one guest after the other (`power_cut.py`)."""
    needs_taps(image)
    try:
        # The program is in a sandbox, in which no package can be downloaded.
        find_image("file-server")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.guests.power_cut", str(tmp_path_factory.mktemp("cut"))],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return {line["case"]: line for line in map(json.loads, done.stdout.splitlines())}


def test_flushed_files_are_intact_after_the_power_was_cut_under_load(cases: Cases) -> None:
    cut = cases["cut"]
    # Each client had a folder in work.
    assert cut["acknowledged"] >= FOLDERS and cut["interrupted"] == CLIENTS
    assert cut["wrong"] == {} and cut["damaged"] == ""


def test_full_pool_is_named_and_costs_no_flushed_file(cases: Cases) -> None:
    full = cases["full"]
    assert full["error"].startswith("pool p1 of array, which the disk of guest fs-1 is on, is full: ")
    assert REFUSED in full["line"]
    # Files that were acknowledged while the pool became full are among those that are checked.
    assert full["more"] > 0
    assert full["wrong"] == {}


def test_files_are_lost_with_a_virtual_disk_that_ignores_flushes(cases: Cases) -> None:
    """The check above can fail: here the power cut takes files that were acknowledged."""
    unsafe = cases["unsafe"]
    assert len(unsafe["wrong"]) == unsafe["acknowledged"] >= FOLDERS, unsafe
