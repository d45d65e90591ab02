"""A guest as the device of a study: frames through it, its end, and what this machine lacks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import LostError
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import Image, cache_folder, find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.nic import Nic
from hakaru.guest.requirements import Accelerator, requirements
from hakaru.lab.build import losses
from hakaru.store import RunReader

from tests.guests import slow_guest
from tests.guests.conftest import Run
from tests.kinds.packets.study import written
from tests.long_form import long_case
from tests.run.conftest import Hakaru

ROOT = Path(__file__).parents[2]
SLOW = {
    "frame": 512,
    "search": {"lowest": 100.0, "highest": 1000.0, "budget": "4 s", "goals": [{"trial": "500 ms", "time": "1 s"}]},
    "latency": None,
}
"""Rates that an emulated guest reaches."""
OWN_FRAMES_MAX = 100
"""Frames that a guest sends of its own, such as those of IPv6 at its start."""


@pytest.fixture
def hakaru(tmp_path: Path) -> Hakaru:
    return Hakaru(tmp_path / "runs")


def study(folder: Path, nics: list[str], **guest: int) -> Path:
    # A second processor that is emulated costs more than it carries. The lab of the study has the
    # NIC of the first point, so that its guests need not be booted again for it.
    device = {"name": "router", "forwards": "guest", "guest": {"cpus": 1, "nic": {"model": nics[0]}, **guest}}
    variables = {"nic": {"sets": ["lab.device.guest.nic.model"]}}
    lab = {"hosts": ["generator"], "device": device}
    return written(folder, lab=lab, load=SLOW, variables=variables, factors=[{"nic": nics}])


def found_by(program: str) -> dict[str, Any]:
    """Return what a program of the tests has printed, in a sandbox of its own."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.guests.{program}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def needs_taps(image: Image) -> None:
    refusal = requirements(Nic(), image.recipe, collect_facts(Accelerator("tcg")))
    if refusal is not None:
        pytest.skip(refusal.reason)


def check_guest_forwarded(run: Path, factors: dict[str, str], forwarded: dict[str, Any]) -> None:
    """Check the record of the point with these factors."""
    assert forwarded["device"]["nic"]["model"] == "virtio-net"
    if forwarded["device"]["accelerator"] == "tcg":
        assert "cpu_emulated" in {c["caveat"] for c in forwarded["caveats"]}
    (point,) = (p for p in json.loads((run / "summary.json").read_text())["points"] if p["factors"] == factors)
    assert point["accelerators"] == [forwarded["device"]["accelerator"]]
    searched = [t for t in forwarded["trials"]["log"] if t["purpose"] == "search"]
    assert sum(s["received"] for t in searched for s in t["streams"]) > 0
    for trial in forwarded["trials"]["log"]:
        for stream in trial["streams"]:
            assert stream["sent"] == stream["received"] + stream["lost"]


def check_frames_went_into_the_memory_of_the_guest(record: dict[str, Any]) -> None:
    received = sum(s["received"] for t in record["trials"]["log"] for s in t["streams"])
    ports = record["device"]["ports"]
    assert set(ports) == {"left", "right"} and ports["left"]["up_now"] == ports["right"]["up_now"] == 1
    # The last trial over the loop does not use them.
    assert received > 0 and ports["left"]["to_guest"] > 0 and ports["right"]["from_guest"] > 0
    lost = [place for trial in record["trials"]["log"] for place, n in trial["device_losses"].items() if n]
    # More frames than an emulated guest has buffers for, as the first trial through it sends.
    assert "input/guest-left" in lost or record["device"]["accelerator"] == "kvm"


@pytest.mark.parametrize("parallel", [long_case(1), 2])
def test_frames_reach_guests_through_macvtaps(hakaru: Hakaru, tmp_path: Path, image: Image, parallel: int) -> None:
    refusal = requirements(Nic(model="macvtap"), image.recipe, collect_facts(Accelerator("tcg")))
    if refusal is not None:
        pytest.skip(refusal.reason)
    path = study(tmp_path / "study", ["macvtap"], parallel=parallel)
    result = hakaru.run("run", str(path), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "done", record["error"]
    searched = [trial for trial in record["trials"]["log"] if trial["purpose"] == "search"]
    received: dict[str, int] = {}
    for trial in searched:
        for stream in trial["streams"]:
            assert stream["sent"] == stream["received"] + stream["lost"]
            received[stream["name"]] = received.get(stream["name"], 0) + stream["received"]
    forward = ["forward"] if parallel == 1 else ["forward-1", "forward-2"]
    assert all(received[name] > 0 for name in forward), received
    places = {place for trial in record["trials"]["log"] for place in trial["device_losses"]}
    assert not any(place.startswith("host/br-") for place in places), places
    # Counters have no more losses than the tester. What they lack was lost inside the guest.
    for trial in record["trials"]["log"]:
        assert sum(trial["device_losses"].values()) <= sum(stream["lost"] for stream in trial["streams"])


def test_frames_for_which_a_guest_has_no_buffer_are_located_to_the_frame(image: Image) -> None:
    facts = collect_facts(Accelerator("tcg"))
    if (refusal := requirements(Nic(model="vhost-user"), image.recipe, facts)) is not None:
        pytest.skip(refusal.reason)
    found = found_by("slow_guest")
    dropped = found["described"]["left"]["dropped_no_buffer"]
    # The driver offers 256 buffers.
    assert found["to_guest"] == 256 and dropped == slow_guest.FRAMES - 256
    assert found["lost"] == {"input/guest-left": dropped}


@pytest.mark.parametrize("nic", [long_case("virtio-net"), "vhost-user"])
def test_frames_pass_every_guest_of_a_chain(hakaru: Hakaru, tmp_path: Path, image: Image, nic: str) -> None:
    if nic == "virtio-net":
        needs_taps(image)
    # The guest that all tests of this process share may be one of them.
    before = guests_below(os.getpid())
    path = study(tmp_path / "study", [nic], chain=2)
    result = hakaru.run("run", str(path), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "done", record["error"]
    assert record["device"]["chain"] == 2
    searched = [trial for trial in record["trials"]["log"] if trial["purpose"] == "search"]
    # Only the guests connect the two cables.
    assert sum(stream["received"] for trial in searched for stream in trial["streams"]) > 0
    if nic == "vhost-user":
        ports = record["device"]["ports"]
        assert set(ports) == {"left", "right-1", "left-2", "right"}
        # The second guest gets what the first one has sent.
        way = [ports["left"]["to_guest"], ports["right-1"]["from_guest"]]
        way += [ports["left-2"]["to_guest"], ports["right"]["from_guest"]]
        assert all(after <= before + OWN_FRAMES_MAX for before, after in pairwise(way)), way
        assert way[-1] >= sum(stream["received"] for trial in searched for stream in trial["streams"])
    assert guests_below(os.getpid()) == before


@pytest.mark.parametrize("nic", [long_case("virtio-net"), "vhost-user"])
def test_frames_reach_only_the_guest_side_by_side_that_they_are_for(
    hakaru: Hakaru, tmp_path: Path, image: Image, nic: str
) -> None:
    if nic == "virtio-net":
        needs_taps(image)
    before = guests_below(os.getpid())
    result = hakaru.run("run", str(study(tmp_path / "study", [nic], parallel=2)), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "done", record["error"]
    assert record["device"]["parallel"] == 2
    searched = [trial for trial in record["trials"]["log"] if trial["purpose"] == "search"]
    received = dict.fromkeys(("forward-1", "forward-2"), 0)
    for trial in searched:
        for stream in trial["streams"]:
            assert stream["sent"] == stream["received"] + stream["lost"]
            received[stream["name"]] += stream["received"]
    assert all(received.values()), received
    lost = {place for trial in record["trials"]["log"] for place in trial["device_losses"]}
    # A guest counts frames for other addresses that reach its NIC as dropped.
    assert not any(place.startswith("device/") and place.endswith("/right/rx") for place in lost), lost
    if nic == "vhost-user":
        ports = record["device"]["ports"]
        assert set(ports) == {"left-1", "left-2", "right-1", "right-2"}
        for name in ("right-1", "right-2"):
            assert ports[name]["to_guest"] <= OWN_FRAMES_MAX, "frames to the generator went to a guest"
    assert guests_below(os.getpid()) == before


def test_chain_without_one_of_its_guests_leaves_none(image: Image) -> None:
    needs_taps(image)
    found = found_by("broken_chain")
    assert found["refused"].startswith("the TAPs of guest router-2 cannot be connected")
    assert found["without"] == found["refused_guests"] == found["emulators"] == found["left"] == 0
    assert found["guests"] == ["router-1", "router-2"]
    ends = [f"{port}/{way}" for port in ("left", "right") for way in ("rx", "tx")]
    assert found["places"] == [f"device/{guest}/{end}" for guest in found["guests"] for end in ends]
    assert "guest router-2" in found["killed"] and "SIGKILL" in found["killed"]


@pytest.mark.parametrize("nic", [long_case("virtio-net"), "vhost-user"])
def test_guest_that_is_killed_is_marked_and_the_study_continues(
    hakaru: Hakaru, tmp_path: Path, image: Image, nic: str
) -> None:
    needs_taps(image)
    options = ("--repetitions", "2", "--json", "--report", "none")
    with hakaru.start("run", str(study(tmp_path / "study", [nic])), *options) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "repetition_started":
                break
        killed = False
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "sample" and not killed:
                for emulator in guests_below(process.pid):
                    os.kill(emulator, signal.SIGKILL)
                    killed = True
        process.wait(60)
    assert killed, "the guest ran while frames were sent"
    lost, other = sorted(RunReader(hakaru.only_run()).repetitions(), key=lambda record: int(record["order"]))
    assert lost["status"] == "failed" and "was lost: QEMU was ended by SIGKILL" in lost["error"]
    assert other["status"] == "done", other["error"]
    if nic == "vhost-user":
        check_frames_went_into_the_memory_of_the_guest(other)
    assert guests_below(process.pid) == []


def test_guest_forwards_after_others_that_cannot_boot_or_lack_a_driver_or_a_nic(
    hakaru: Hakaru, tmp_path: Path, image: Image
) -> None:
    needs_taps(image)
    cache = with_a_broken_image(tmp_path / "cache")
    levels = {
        "works": {"lab.device.guest.image": "cloud"},
        "does-not-boot": {"lab.device.guest.image": "generic"},
        "has-no-driver": {"lab.device.guest.image": "cloud", "lab.device.guest.nic.model": "e1000"},
        "has-no-nic": {"lab.device.guest.image": "cloud", "lab.device.guest.nic.model": "sr-iov"},
    }
    device = {"name": "router", "forwards": "guest", "guest": {"cpus": 1}}
    lab = {"hosts": ["generator"], "device": device}
    # The guest that works is the last one.
    factors = [{"guest": ["does-not-boot", "has-no-driver", "has-no-nic", "works"]}]
    path = written(tmp_path / "study", lab=lab, load=SLOW, variables={"guest": levels}, factors=factors)
    before = guests_below(os.getpid())
    done = subprocess.run(
        hakaru.command("run", path, "--json", "--report", "none"),
        capture_output=True,
        text=True,
        env={**hakaru.environment(), "XDG_CACHE_HOME": str(cache)},
        check=False,
    )
    records = {r["factors"]["guest"]: r for r in RunReader(hakaru.only_run()).repetitions()}
    assert {name: record["status"] for name, record in records.items()} == {
        "works": "done",
        "does-not-boot": "failed",
        "has-no-driver": "failed",
        "has-no-nic": "failed",
    }, done.stderr
    check_guest_forwarded(hakaru.only_run(), {"guest": "works"}, records["works"])
    assert "which only a site file names" in records["has-no-nic"]["error"]
    assert "before its boot" in records["does-not-boot"]["error"]
    assert "e1000" in records["has-no-driver"]["error"] and "driver" in records["has-no-driver"]["error"]
    assert guests_below(os.getpid()) == before


def with_a_broken_image(cache: Path) -> Path:
    """Make a cache in which the generic image has a damaged initramfs. The verdict about KVM is
    kept.
    """
    images = cache / "hakaru" / "guest"
    images.mkdir(parents=True)
    for name in ("cloud", "generic"):
        found = find_image(name).initramfs.parent
        (images / found.name).mkdir()
        for file in found.iterdir():
            (images / found.name / file.name).symlink_to(file)
    (broken,) = images.glob("generic-*/initramfs")
    broken.unlink()
    broken.write_bytes(b"this is no archive")
    verdict = cache_folder().with_name("accelerator.json")
    if verdict.exists():
        (cache / "hakaru" / verdict.name).write_text(verdict.read_text())
    return cache


def test_guest_whose_processors_stand_still_is_noticed(
    run: Run, image: Image, accelerator: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses, "ANSWER_TIMEOUT_S", 2.0)

    async def stop_and_count() -> None:
        async with await Guest.boot(GuestSpec("still", image, cpus=1), accelerator) as guest:
            counted = await losses.count_in_guest(guest)
            assert set(counted) == {"device/eth0/rx", "device/eth0/tx"}
            assert set(await losses.count_in_guest(guest, "device/router-2")) == {
                "device/router-2/eth0/rx",
                "device/router-2/eth0/tx",
            }
            await guest.emulator.execute("stop")
            with pytest.raises(LostError, match="did not respond within 2 s; QEMU reports the state `paused`"):
                await losses.count_in_guest(guest)

    run(stop_and_count())


def guests_below(ancestor: int) -> list[int]:
    """Processes of QEMU that descend from a process."""
    parents, names = {}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        number = int(status.parent.name)
        parents[number], names[number] = int(rest.split()[1]), name

    def descends(number: int) -> bool:
        while number in parents:
            if number == ancestor:
                return True
            number = parents[number]
        return False

    return [number for number, name in names.items() if name.startswith("qemu-system") and descends(number)]
