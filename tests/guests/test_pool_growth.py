"""The pool below a file server in a guest grows while users work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import Image, find_image
from hakaru.store import RunReader

from tests.guests.test_device import needs_taps
from tests.guests.test_file_chain import STUDY, check_nothing_is_left, start

PAGE_MIB = 1 / 16
LOAD: dict[str, Any] = {
    **STUDY["load"],
    # Few operations, because the guest may have an emulated processor.
    "users": {"mix": {"read": 2, "write": 1, "create": 1}, "think": "200 ms"},
    "to": {"smb": {}, **STUDY["load"]["to"]},
    "events": [{"at": "2 s", "grow_pool": {"size": "64 MiB"}}],
}


@pytest.fixture(scope="module")
def chain_image(image: Image) -> None:
    """Skips unless chains can be built here."""
    needs_taps(image)
    try:
        # No package can be downloaded in a lab.
        find_image("file-server")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")


def test_pool_grows_while_users_of_a_file_server_work(chain_image: None, tmp_path: Path) -> None:
    study = {
        **STUDY,
        "lab": STUDY["lab"] | {"hosts": ["client", "server"]},
        "load": LOAD,
        "factors": [{"tools": [2]}],
        "measure": STUDY["measure"] | {"time": "8 s"},
    }
    del study["variables"]
    with start(tmp_path, study) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors + output[-2000:]
    check_nothing_is_left(process)
    (run,) = (tmp_path / "runs").iterdir()
    (record,) = RunReader(run).repetitions()
    (event,) = record["events"]
    assert (event["event"], event["object"]) == ("grow_pool", "array")
    (load,) = (engine for engine in record["engines"] if engine["engine"] == "files")
    assert load["values"]["errors"] == 0
    report = json.loads((run / "report" / "report.json").read_text())
    (point,) = report["points"]
    mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
    # The first page of each group is the header's.
    sizes = [mean[f"pool_mib_{when}_growth"] for when in ("before", "after")]
    assert sizes == [64 - PAGE_MIB, 128 - 2 * PAGE_MIB]
    assert 0 < mean["pool_growth_ms"] < 8000
    assert 0 < mean["pool_used_percent_after_growth"] < mean["pool_used_percent_before_growth"]
    assert mean["files_per_s_before_growth"] > 0 and mean["files_per_s_after_growth"] > 0
    # A page of 64 KiB is the shortest run, and the pool was written in long ones.
    assert 64 < mean["pool_run_kib"] <= 64 * 1024
    assert [finding["kind"] for finding in report["findings"]].count("growth") == 1
    assert len(point["pool_use"]["growth_s"]) == 1
