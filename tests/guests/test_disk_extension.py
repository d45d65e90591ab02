"""The disk of a file server in a guest is extended while tools work, from the LU to the file system
on it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.fileserver.chain_spec import SIZED_LAYERS
from hakaru.guest.image import Image, find_image
from hakaru.store import RunReader

from tests.guests.test_device import needs_taps
from tests.guests.test_file_chain import STUDY, check_nothing_is_left, start
from tests.long_form import IS_LONG

MIB = 1 << 20
# The extension begins after BEFORE_S, and an emulated processor takes up to 40 s for it.
BEFORE_S, MEASURED_S = 2, 60
# Files that are written again take other blocks, so the pool holds the whole disk after its
# extension, however often the tools repeat.
POOL = {"pool": "192 MiB", "page": "64 KiB"}
CASES: dict[str, dict[str, Any]] = {
    "raw": {
        "load.to.chain.disk.format": "raw",
        "load.to.chain.lu": {"size": "256 MiB", **POOL},
    },
    "qcow2": {
        **{"load.to.chain.disk.format": "qcow2", "load.to.chain.host_file_system": "xfs"},
        "load.to.chain.partition_start": 63,
        "load.to.chain.lu": {"size": "512 MiB", **POOL},
    },
}
# `make test-long` extends a disk without a partition, too.
TESTED = [*CASES] if IS_LONG else ["qcow2"]
LU_MIB = {"raw": 256, "qcow2": 512}
PARTITIONED = "qcow2"
TABLE_MIB = 63 * 512 / MIB


@pytest.fixture(scope="module")
def run(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of all cases. Skips unless chains can be built here."""
    needs_taps(image)
    try:
        # No package can be downloaded in a lab.
        find_image("file-server")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")
    folder = tmp_path_factory.mktemp("extension")
    study = {
        **STUDY,
        "lab": STUDY["lab"] | {"hosts": ["client", "server"]},
        "load": {
            **STUDY["load"],
            **{"repeat": True, "verify": True, "to": {"smb": {}, **STUDY["load"]["to"]}},
            "events": [{"at": f"{BEFORE_S} s", "extend_disk": {"size": "96 MiB"}}],
        },
        "variables": {"case": CASES},
        "factors": [{"case": TESTED}],
        "measure": STUDY["measure"] | {"time": f"{MEASURED_S} s"},
    }
    with start(folder, study, program="hakaru.cli") as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors + output[-2000:]
    check_nothing_is_left(process)
    (directory,) = (folder / "runs").iterdir()
    return directory


@pytest.mark.parametrize("case", TESTED)
def test_every_layer_is_extended_while_tools_read_and_write(run: Path, case: str) -> None:
    (record,) = (record for record in RunReader(run).repetitions() if record["factors"]["case"] == case)
    assert record["status"] == "done", record["error"]
    (event,) = record["events"]
    assert (event["event"], event["object"]) == ("extend_disk", "server")
    layers = event["layers"]
    names = [layer for layer in SIZED_LAYERS if layer != "partition" or case == PARTITIONED]
    assert layers.keys() == set(names)
    sizes = {layer: (layers[layer]["before_bytes"] / MIB, layers[layer]["after_bytes"] / MIB) for layer in names}
    assert sizes["lu"] == sizes["host_disk"] == (LU_MIB[case], LU_MIB[case] + 32)
    assert sizes["virtual_disk"] == (64, 96)
    if case == PARTITIONED:
        assert sizes["partition"] == (64 - TABLE_MIB, 96 - TABLE_MIB)
    for layer in ("host_file_system", "guest_file_system"):
        before, after = sizes[layer]
        assert 24 < after - before <= 32, (layer, sizes)
    # Each step waits for the one before.
    instants = [layers[layer][name] for layer in names for name in ("begun_ns", "done_ns")]
    assert instants == sorted(instants) and event["begun_ns"] <= instants[0] and instants[-1] <= event["done_ns"]
    disk_ms = (layers["virtual_disk"]["done_ns"] - layers["virtual_disk"]["begun_ns"]) / 1e6
    assert 0 < event["held_ms"] <= disk_ms + 10
    # No request has failed, and all data were those that were written.
    (load,) = (engine for engine in record["engines"] if engine["engine"] == "files")
    assert load["values"]["errors"] == 0
    assert load["values"]["verified_bytes"] == load["values"]["read_bytes"] > 0
    (chain,) = record["chains"].values()
    assert chain["extensible"] and chain["disagreement"] is None, chain["growths"]


def test_report_has_the_rates_around_the_extension(run: Path) -> None:
    report = json.loads((run / "report" / "report.json").read_text())
    for point in report["points"]:
        mean = {name: estimate["mean"] for name, estimate in point["metrics"].items()}
        assert 0 < mean["extension_held_ms"] < mean["extension_ms"] < 1e3 * (MEASURED_S - BEFORE_S)
        assert mean["files_per_s_before_extension"] > 0 and mean["files_per_s_after_extension"] > 0
        assert point["extension"]["virtual_disk"]["after_bytes"] == 96 * MIB
    assert [finding["kind"] for finding in report["findings"]].count("extension") == len(TESTED)
    assert "Layers of the disk that was extended" in (run / "report" / "report.en.html").read_text()
