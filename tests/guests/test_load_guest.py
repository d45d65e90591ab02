"""Guests in the place of hosts: logins over the lab's links, whole runs, and guests that fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.analysis.counters import Counters
from hakaru.guest.image import Image, find_image
from hakaru.store import RunReader

from tests.cli.command import pages_of
from tests.guests.test_device import guests_below, needs_taps
from tests.long_form import long_case
from tests.run.conftest import STUDY, Hakaru
from tests.run.test_copying import COPY, values_of

ROOT = Path(__file__).parents[2]
INITIATORS = """\
variables:
  initiator:
    hakaru: {}
    hakaru-in-guest: {lab.load_guest: {cpus: 1}}
    open-iscsi: {lab.load_guest: {cpus: 1}, load.initiator: kernel}
factors:
"""
COPY_GUEST = (
    "{{lab.load_guest: {{cpus: 1}}, lab.tcp.stack: 2009, load.verify: true, load.time_limit: 60 s,"
    " load.initiator: {initiator}}}"
)
"""The copy job in a guest whose kernel still separates SACK from RACK."""


@pytest.fixture
def hakaru(tmp_path: Path) -> Hakaru:
    return Hakaru(tmp_path / "runs")


def study(folder: Path, initiators: list[str]) -> str:
    """One VM with each initiator, once; the file of the study."""
    before, _, after = STUDY.partition("factors:\n")
    points = f"  - {{pattern: [mixed], vms: [1], initiator: [{', '.join(initiators)}]}}\n"
    path = folder / "study.yaml"
    path.write_text(
        before + INITIATORS + points + after.partition("vms: [2]}\n")[2].replace("repetitions: 2", "repetitions: 1")
    )
    return str(path)


def found_by_program(argument: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("load_guest.py")), argument],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_links_that_a_guest_got_in_part_are_returned_and_the_next_guest_gets_all(image: Image) -> None:
    needs_taps(image)
    found = found_by_program("in-part")
    assert found["refused"].startswith("guest host-1 cannot be connected: ") and "busy" in found["refused"]
    assert found["in part"] == {"eth0": True, "eth1": False}
    assert found["returned"] == {"eth0": False, "eth1": False}
    assert found["again"] == {"eth0": True, "eth1": True}


@pytest.mark.parametrize("nic", ["virtio-net", long_case("e1000")])
def test_guest_takes_the_place_of_a_host(image: Image, nic: str) -> None:
    needs_taps(image)
    # Built here, because no package mirror can be reached from the sandbox.
    find_image("generic" if nic == "e1000" else "cloud")
    found = found_by_program(nic)
    assert "guest host-1: " in found["refused"] and "authorization failure" in found["refused"]
    # The guest and its TAP are gone, the bridge stays for the next one.
    assert found["after_refusal"] == ["br-eth0", "eth0", "lo"]
    assert found["between"] == ["br-eth0", "eth0", "lo"]
    assert found["guest"]["initiator"] == "open-iscsi" and found["guest"]["nic"]["model"] == nic
    assert found["guest"]["clock"]["end"] is not None
    assert found["path"] == "/dev/sda" and found["values"]["errors"] == 0
    # The values are those of the measuring phase, the array's those of the whole load.
    for kind in ("read_bytes", "write_bytes"):
        assert found["array"][kind] >= found["values"][kind] > 0
    assert (found["array"]["logins"], found["array"]["logins_refused"]) == (1, 1)
    # The result is on this machine's clock: after the load of 1.5 s, and before anybody could wait.
    assert 1_500 <= found["late_ms"] < 60_000
    status, booted_ns = found["again"]
    assert status == "running" and booted_ns > found["guest"]["booted_ns"]
    assert found["killed"] == "guest host-1 has ended"


def test_run_compares_the_initiators(hakaru: Hakaru, tmp_path: Path, image: Image) -> None:
    needs_taps(image)
    levels = ["hakaru", "hakaru-in-guest", "open-iscsi"]
    # The guest that all tests of this process share may be one of them.
    before = guests_below(os.getpid())
    result = hakaru.run("run", study(tmp_path, levels), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    reader = RunReader(hakaru.only_run())
    records = {r["factors"]["initiator"]: r for r in reader.repetitions()}
    assert {name: record["status"] for name, record in records.items()} == dict.fromkeys(levels, "done")
    assert "guests" not in records["hakaru"]
    for name, initiator in (("hakaru-in-guest", "hakaru"), ("open-iscsi", "open-iscsi")):
        record = records[name]
        assert record["guests"]["host-1"]["initiator"] == initiator
        (caveat,) = [c for c in record["caveats"] if c["caveat"] == "load_in_guest"]
        assert caveat["values"]["initiator"] == initiator and caveat["values"]["kernel"].startswith("6.")
    # hakaru's initiator has sessions of its own, the kernel gives it disks.
    found = {
        name: next(e["found"] for e in record["engines"] if e["engine"] == "initiator")
        for name, record in records.items()
    }
    assert (found["hakaru-in-guest"]["sessions"], found["open-iscsi"]["sessions"]) == (1, 0)
    # Each machine is read by one watch, the guest by its own.
    in_guest = records["hakaru-in-guest"]
    totals = totals_of(reader, in_guest)
    assert totals.keys() == {"array", "host-1"}
    assert totals["host-1"] <= in_guest["guests"]["host-1"]["memory_bytes"]
    summary = reader.read("summary.json")
    for point in summary["points"]:
        assert point["metrics"]["iops"]["mean"] > 0, point
        names = {c["caveat"] for c in point["caveats"]}
        assert not names & {"bytes_not_conserved", "total_not_sum", "clock_stepped", "io_errors"}, names
    assert "open-iscsi" in pages_of(hakaru.only_run())["en"]
    assert guests_below(os.getpid()) == before


@pytest.mark.parametrize(
    ("initiator", "name", "sessions"), [long_case("hakaru", "hakaru", 4), ("kernel", "open-iscsi", 0)]
)
def test_guest_copies_images_through_an_emulated_network(
    hakaru: Hakaru, tmp_path: Path, image: Image, initiator: str, name: str, sessions: int
) -> None:
    needs_taps(image)
    path = tmp_path / "study.yaml"
    cases = "factors: [{case: [guest]}]\n"
    text = COPY.replace("    plain: {load.verify: true}\n", f"    guest: {COPY_GUEST.format(initiator=initiator)}\n")
    path.write_text(text.partition("factors:")[0] + cases + "measure:" + text.partition("measure:")[2])
    before = guests_below(os.getpid())
    result = hakaru.run("run", str(path), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr  # a point may be invalid on a busy machine
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "done", record["error"]
    (caveat,) = [c for c in record["caveats"] if c["caveat"] == "load_in_guest"]
    assert caveat["values"]["initiator"] == name and set(record["guests"]) == {"kvm"}
    (found,) = [e["found"] for e in record["engines"] if e["engine"] == "backup"]
    assert found["sessions"] == sessions
    assert "bytes_not_conserved" not in {c["caveat"] for c in record["caveats"]}
    values = values_of(record, "backup")
    assert (values["bytes"], values["verified_bytes"], values["mismatches"]) == (2 << 20, 2 << 20, 0)
    assert {e["node"] for e in record["engines"] if e["engine"] == "watch"} == {"primary", "vtl", "kvm", "fabric"}
    assert guests_below(os.getpid()) == before


def totals_of(reader: RunReader, record: dict[str, Any]) -> dict[str, float]:
    """Node whose watch reads a machine → the machine's memory, bytes."""
    counters = Counters.of_table(reader.samples(record["point"], record["repetition"]))
    return {key.node: s.value[-1] for key, s in counters.select(entity="machine", name="mem_total_bytes_now")}


def test_machine_is_read_by_one_watch_with_captures(hakaru: Hakaru, tmp_path: Path, image: Image) -> None:
    """A watch that captures frames is in the node, on the machine that another watch reads."""
    needs_taps(image)
    path = Path(study(tmp_path, ["hakaru-in-guest"]))
    path.write_text(path.read_text() + "watch: {capture: {at: hosts}}\n")
    result = hakaru.run("run", str(path), "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    reader = RunReader(hakaru.only_run())
    (record,) = reader.repetitions()
    assert totals_of(reader, record).keys() == {"array"}


def test_guest_that_is_killed_fails_its_point_alone(hakaru: Hakaru, tmp_path: Path, image: Image) -> None:
    needs_taps(image)
    # The order of the seed: the guest's point is not the last one.
    with hakaru.start("run", study(tmp_path, ["open-iscsi", "hakaru"]), "--json", "--report", "none") as process:
        assert process.stdout is not None
        killed = False
        guest_runs = False
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "repetition_started":
                guest_runs = event["factors"]["initiator"] == "open-iscsi"
            if event["event"] == "sample" and guest_runs and not killed:
                for emulator in guests_below(process.pid):
                    os.kill(emulator, signal.SIGKILL)
                    killed = True
        process.wait(60)
    assert killed, "the guest ran while it loaded the array"
    records = {r["factors"]["initiator"]: r for r in RunReader(hakaru.only_run()).repetitions()}
    assert records["open-iscsi"]["status"] == "failed"
    assert "guest host-1 has ended" in records["open-iscsi"]["error"]
    assert {c["caveat"] for c in records["open-iscsi"]["caveats"]} == {"guest_failed"}
    assert records["hakaru"]["status"] == "done"
    assert guests_below(process.pid) == []


def test_machine_without_qemu_fails_only_points_with_guests(hakaru: Hakaru, tmp_path: Path, image: Image) -> None:
    needs_taps(image)
    folder = tmp_path / "programs"
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*") if Path(directory).is_dir() else ():
            if not program.name.startswith("qemu") and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    assert shutil.which("qemu-system-x86_64", path=str(folder)) is None
    path = study(tmp_path, ["open-iscsi", "hakaru"])
    environment = {**hakaru.environment(), "PATH": str(folder)}
    planned, run = (
        subprocess.run(hakaru.command(*words), capture_output=True, text=True, env=environment, check=False)
        for words in (("plan", path), ("run", path, "--json", "--report", "none"))
    )
    assert "not possible here: p01: qemu-system-x86_64 is not installed" in planned.stdout, planned
    records = {r["factors"]["initiator"]: r for r in RunReader(hakaru.only_run()).repetitions()}
    assert records["open-iscsi"]["status"] == "failed", run.stderr
    assert "qemu-system-x86_64 is not installed" in records["open-iscsi"]["error"]
    assert records["hakaru"]["status"] == "done"
