"""Studies on the chain of a file server in a guest: whole runs, and layers that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hakaru.analysis import rule_book
from hakaru.analysis.run_data import RunData
from hakaru.errors import EnvironmentError_
from hakaru.guest.image import Image, find_image
from hakaru.store import RunReader

from tests.guests.test_device import guests_below, needs_taps
from tests.lab.conftest import MARK
from tests.lab.test_leftovers import HeldNamespaces, Host, wait_until_gone
from tests.long_form import IS_LONG, only_long

ROOT = Path(__file__).parents[2]
STUDY: dict[str, Any] = {
    "format": 1,
    "id": "chains",
    "title": "chains",
    "question": "Does it run?",
    "expectation": "It does.",
    "origin": "emulated",
    "lab": {
        "hosts": ["client", "other", "server"],
        "host_link": {"rate": "1 Gbit/s"},
        "array_link": {"rate": "1 Gbit/s"},
        # A second processor that is emulated costs more than it carries.
        "load_guest": {"image": "file-server", "memory": "1 GiB", "cpus": 1},
    },
    "load": {
        "kind": "files",
        "tree": {
            **{"trees": 2, "depth": 3, "folders": 4, "targets": 20, "total": "4 MiB"},
            "sizes": {"lognormal": {"median": "100 KiB", "sigma": 0.3}},
        },
        "tools": 2,
        "to": {
            "chain": {
                "disk": {"format": "vhd", "size": "64 MiB"},
                "host_file_system": "ext4",
                "lu": {"size": "256 MiB", "pool": "64 MiB", "page": "64 KiB"},
            }
        },
    },
    "variables": {
        "case": {
            "smb": {"load.to.smb": {}, "load.verify": True},
            "cold": {
                **{"load.to.smb": {}, "load.clients": 2, "load.cold": True, "load.verify": True},
                "load.to.chain.lu.model": {
                    "kind": "array",
                    "controller": {"command_us": 60.0, "data_us_per_mib": 1200.0},
                    # Larger than the files.
                    "cache": {
                        **{"size_bytes": 8 << 20, "segment_bytes": 32 << 10, "write": "back"},
                        **{"nonvolatile": True, "hit_us": 100.0},
                    },
                    "groups": [
                        {
                            **{"raid": "raid5", "drives": 9, "stripe_unit_bytes": 64 << 10},
                            "drive": {"kind": "preset", "name": "sas-15k-300"},
                        }
                    ],
                },
            },
            "btrfs": {
                **{"load.to.smb": {}, "load.verify": True, "load.to.chain.disk.size": "256 MiB"},
                **{"load.to.chain.host_file_system": "btrfs", "load.to.chain.guest_file_system": "btrfs"},
                "load.to.chain.lu": {"size": "512 MiB", "pool": "384 MiB", "page": "64 KiB"},
            },
            # More than the pool has, and less than disk and LU.
            "full": {
                "load.to.chain.disk.size": "96 MiB",
                "load.tree.total": "70 MiB",
                "load.tree.sizes.lognormal.median": "1700 KiB",
            },
            # XFS waits for space instead of reporting an error, and its log takes 64 MiB.
            "full-xfs": {
                "load.to.chain.host_file_system": "xfs",
                "load.to.chain.lu": {"size": "512 MiB", "pool": "128 MiB", "page": "64 KiB"},
                "load.to.chain.disk.size": "128 MiB",
                "load.tree.total": "90 MiB",
                "load.tree.sizes.lognormal.median": "2200 KiB",
            },
            "damaged": {"load.to.chain.disk.format": "qcow2"},
            "killed": {"load.to.chain.disk.format": "raw"},
            "array-killed": {"load.to.chain.disk.format": "vhdx"},
        }
    },
    # The second one continues in the guest of the first one.
    "factors": [{"case": ["smb", "cold", "full", "damaged", "killed"]}],
    "measure": {"repetitions": 1, "sample_interval": "100 ms"},
    "seed": 1,
}
# `make test-long` builds chains of further file systems, too.
if IS_LONG:
    STUDY["factors"][0]["case"][2:2] = ["btrfs", "full-xfs"]
Records = dict[str, dict[str, Any]]


def start(
    folder: Path,
    study: dict[str, Any],
    variables: Mapping[str, str] = MappingProxyType({}),
    program: str = "tests.guests.file_chain",
) -> subprocess.Popen[str]:
    """Start a run of a study in a folder."""
    (folder / "study.yaml").write_text(json.dumps(study))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)]),
        "HAKARU_RUNS": str(folder / "runs"),
        **variables,
    }
    command = [sys.executable, "-m", program, "run", str(folder / "study.yaml"), "--json"]
    command += ["--report", "html,json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def check_nothing_is_left(process: subprocess.Popen[str]) -> None:
    """Guests end with their run, and the pool was in the sandbox alone."""
    assert guests_below(process.pid) == []
    assert [path for path in Path("/dev/shm").iterdir() if path.name == "metadata" or path.suffix == ".group"] == []


@pytest.fixture(scope="module")
def chain_image(image: Image) -> None:
    """Skips unless chains can be built here."""
    needs_taps(image)
    try:
        # No package can be downloaded in a lab.
        find_image("file-server")
    except EnvironmentError_ as error:
        pytest.skip(f"no guest image: {error.message}; {error.hint}")


@pytest.fixture(scope="module")
def run(chain_image: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Records]:
    """The run of all cases, and its records by case."""
    folder = tmp_path_factory.mktemp("chains")
    with start(folder, STUDY) as process:
        assert process.stdout is not None and process.stderr is not None
        case = ""
        for line in process.stdout:
            event = json.loads(line)
            case = event["factors"]["case"] if event["event"] == "repetition_started" else case
            if case == "killed" and event["event"] == "sample":
                for emulator in guests_below(process.pid):
                    os.kill(emulator, signal.SIGKILL)
        errors = process.stderr.read()
    assert process.returncode in (0, 5), errors
    check_nothing_is_left(process)
    (directory,) = (folder / "runs").iterdir()
    return directory, {record["factors"]["case"]: record for record in RunReader(directory).repetitions()}


def test_files_reach_the_pool_from_a_client_of_samba_and_leave_it_layer_by_layer(run: tuple[Path, Records]) -> None:
    directory, records = run
    record = records["smb"]
    assert record["status"] == "done", record["error"]
    (chain,) = record["chains"].values()
    assert chain["samba"].startswith("4.") and chain["disk"]["format"] == "vhd"
    assert chain["disagreement"] is None, chain["growths"]
    stages = chain["stages"]
    # The engine stores the description of its trees beside them.
    assert 0 <= stages["loaded"]["files_bytes"] - (4 << 20) < 4096 and stages["deleted"]["files_bytes"] == 0
    # A dynamic VHD keeps what was deleted, until it is compacted.
    image, pool = (
        {stage: layers[name] for stage, layers in stages.items()}
        for name in ("image_allocated_bytes", "pool_used_bytes")
    )
    assert image["host_trimmed"] >= image["loaded"] - (1 << 20)
    assert image["compacted"] <= image["created"] and image["compacted"] <= image["host_trimmed"] - (2 << 20)
    assert pool["compacted"] <= pool["host_trimmed"] - (2 << 20)
    points = json.loads((directory / "report" / "report.json").read_text())["points"]
    metrics = next(point["metrics"] for point in points if point["factors"]["case"] == "smb")
    loaded = stages["loaded"]
    misaligned = 100 * loaded["misaligned_bytes"] / loaded["image_data_bytes"]
    assert metrics["misaligned_percent"]["mean"] == pytest.approx(misaligned) and misaligned > 70
    # The LU gets what the guest has written, but for blocks that the host's cache has combined.
    assert 0.8 <= metrics["lu_written_bytes_per_disk_byte"]["mean"] < 1.5
    (load,) = (engine for engine in record["engines"] if engine["engine"] == "files")
    assert load["node"] == "client" and load["values"]["errors"] == 0
    assert load["values"]["verified_bytes"] == load["values"]["read_bytes"] > 0
    if record["guests"]["server"]["accelerator"] == "tcg":
        page = (directory / "report" / "report.en.html").read_text()
        assert "belong to an emulated processor" in page and "Bytes by layer" in page


def test_cold_files_of_two_clients_come_from_the_lu(run: tuple[Path, Records]) -> None:
    directory, records = run
    assert records["cold"]["status"] == "done", records["cold"]["error"]
    loads = [engine for engine in records["cold"]["engines"] if engine["engine"] == "files"]
    assert {engine["node"] for engine in loads} == {"client", "other"}
    assert all(engine["values"]["verified_bytes"] == engine["values"]["read_bytes"] > 0 for engine in loads)
    points = {p["factors"]["case"]: p for p in json.loads((directory / "report" / "report.json").read_text())["points"]}
    assert points["cold"]["metrics"]["read_below_percent"]["mean"] >= 90
    assert points["cold"]["metrics"]["read_from_drives_percent"]["mean"] >= 90
    # A flush of the whole disk takes the controller no time for data.
    assert points["cold"]["metrics"]["controller_busy_percent"]["mean"] < 20
    assert points["smb"]["metrics"]["read_below_percent"]["mean"] < 50
    assert "cache_not_cold" not in {caveat["caveat"] for caveat in points["cold"]["caveats"]}


def test_disks_and_memory_of_the_guest_are_counted_and_its_disks_are_judged(run: tuple[Path, Records]) -> None:
    directory, records = run
    (repetition,) = RunData.read(directory).repetitions(records["cold"]["point"])
    counters, window = repetition.counters, repetition.window
    disks = ("disk/sda", "disk/nbd0")
    for disk in disks:
        for name in ("reads", "read_bytes", "read_latency_ns_sum", "busy_ns", "queue_ns"):
            series = counters.get("server", "watch", disk, name)
            assert series is not None and series.increase(*window) > 0, (disk, name)
    # The memory is that of the guest. This machine has counters of its own.
    totals = {key.node: s for key, s in counters.select(entity="machine", name="mem_total_bytes_now")}
    assert totals.keys() == {"server", "array"} and totals["server"].value[-1] <= 1 << 30
    gauges = rule_book.of_repetition(counters, window)
    devices = {f"{disk}/server" for disk in disks}
    assert devices <= gauges["response_ms"].keys() and devices <= gauges["queue_per_drive"].keys()
    points = {p["factors"]["case"]: p for p in json.loads((directory / "report" / "report.json").read_text())["points"]}
    judged = {each["rule"]: each for each in points["cold"]["rule_book"]}
    # The rule shows the slowest of all devices.
    slowest = max(gauges["response_ms"][device] for device in devices)
    assert (
        judged["response_time"]["value"]["mean"]
        >= slowest
        == points["cold"]["metrics"]["guest_disk_response_ms"]["mean"]
    )
    assert "queue_length" in judged
    metrics = points["smb"]["metrics"]
    assert 0 < metrics["guest_percent"]["mean"] <= 100 and 0 < metrics["guest_available_mib"]["mean"] < 1024
    assert metrics["guest_disk_queue"]["mean"] > 0 and metrics["guest_disk_busy_percent"]["mean"] > 0
    # A full guest is not this machine.
    assert {name for name in points["smb"]["utilisation"] if name.startswith("cpu/machine")} == {"cpu/machine"}


@only_long
def test_a_chain_of_btrfs_keeps_the_files_and_its_layers_agree(run: tuple[Path, Records]) -> None:
    _, records = run
    record = records["btrfs"]
    assert record["status"] == "done", record["error"]
    (chain,) = record["chains"].values()
    assert chain["disagreement"] is None, chain["growths"]
    # btrfs names its space cache among its mount options; the others have none.
    assert "space_cache" in chain["host_mount"] and "space_cache" in chain["guest_mount"]
    (load,) = (engine for engine in record["engines"] if engine["engine"] == "files")
    assert load["values"]["verified_bytes"] == load["values"]["read_bytes"] > 0
    assert load["values"]["errors"] == 0


def test_nothing_is_left_after_a_run_is_killed_while_its_chain_is_loaded(chain_image: None, tmp_path: Path) -> None:
    before, mark = Host.now(), uuid.uuid4().hex
    with start(tmp_path, {**STUDY, "factors": [{"case": ["smb"]}]}, {MARK: mark}) as process:
        assert process.stdout is not None
        # The first sample of the tools: they build their trees on the disk.
        assert any(json.loads(line)["event"] == "sample" for line in process.stdout)
        held = HeldNamespaces(mark)
        programs = {command(pid) for pid in held.processes}
        assert any("qemu-system" in name for name in programs) and any("hakaru-engine" in name for name in programs)
        process.kill()
    wait_until_gone(held, before)
    check_nothing_is_left(process)
    # The run has no result, and its directory can be deleted.
    (directory,) = (tmp_path / "runs").iterdir()
    assert directory.name.endswith(".partial")


def command(pid: int) -> str:
    """Program of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("full", "pool pool of array, which the disk of guest server is on, is full: "),
        *([("full-xfs", "pool pool of array, which the disk of guest server is on, is full: ")] if IS_LONG else []),
        ("damaged", "the qcow2 disk of guest server or a file system on it is damaged: "),
        ("killed", "guest server has ended"),
    ],
)
def test_layer_that_fails_is_named_and_marks_its_point_alone(
    run: tuple[Path, Records], case: str, message: str
) -> None:
    record = run[1][case]
    assert record["status"] == "failed" and message in record["error"]
    assert [caveat["caveat"] for caveat in record["caveats"]] == ["guest_failed"]


def test_array_that_ends_while_a_chain_is_built_ends_the_run(chain_image: None, tmp_path: Path) -> None:
    """Every point needs the array, so this is not a failure of one point's guest."""
    factors = [{"case": ["array-killed", "killed"]}]
    with start(tmp_path, {**STUDY, "factors": factors}) as process:
        errors = process.communicate()[1]
    assert process.returncode == 7, errors
    assert "array on array" in errors and "guest" not in errors.partition("hint:")[0]
    check_nothing_is_left(process)
