"""Several file servers in guests: each has a disk and a pool of its own, on an array of its own."""

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
from tests.kinds.files.test_chain import segments
from tests.long_form import only_long

LOAD: dict[str, Any] = {
    **STUDY["load"],
    # The tools of each server. A cold load begins after the files have reached the pools.
    **{"tools": 1, "servers": 2, "verify": True, "cold": True},
    "tree": {**STUDY["load"]["tree"], "trees": 1, "total": "2 MiB"},
    "to": {"smb": {}, **STUDY["load"]["to"]},
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


# The gate has two servers without guests (tests/kinds/files/test_servers.py), and one chain.
@only_long
def test_two_file_servers_store_the_files_of_their_clients_on_two_pools(chain_image: None, tmp_path: Path) -> None:
    lab = segments(2, 2) | {"load_guest": STUDY["lab"]["load_guest"]}
    study = {**STUDY, "lab": lab, "load": LOAD, "factors": [{"tools": [1]}]}
    del study["variables"]
    with start(tmp_path, study) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors + output[-2000:]
    check_nothing_is_left(process)
    (run,) = (tmp_path / "runs").iterdir()
    (record,) = RunReader(run).repetitions()
    chains = record["chains"]
    assert list(chains) == ["server-1", "server-2"]
    loads = {engine["node"]: engine["values"] for engine in record["engines"] if engine["engine"] == "files"}
    assert list(loads) == ["client-1", "client-2"]
    for node, values in zip(chains, loads.values(), strict=True):
        chain = chains[node]
        assert chain["disagreement"] is None, chain["growths"]
        # The engine stores the description of its trees beside them.
        assert 0 <= chain["stages"]["loaded"]["files_bytes"] - (2 << 20) < 4096
        assert chain["stages"]["loaded"]["pool_used_bytes"] > chain["stages"]["created"]["pool_used_bytes"]
        assert chain["rewritten_bytes"] == values["written_bytes"]
        assert values["verified_bytes"] == values["read_bytes"] > 0 and values["errors"] == 0
    (point,) = json.loads((run / "report" / "report.json").read_text())["points"]
    assert [each["server"] for each in point["servers"]] == ["server-1", "server-2"]
    assert (point["space"]["repetitions"], point["space"]["chains"]) == (1, 2)
    use = point["pool_use"]["bytes"]
    assert use[0] < use[-1] and point["metrics"]["build_mb_per_s"]["mean"] > 0
