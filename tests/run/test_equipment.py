"""Searches on existing equipment: veth pairs stand in for NICs, and a bridge for the device between
them, in a network namespace of the test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hakaru.caveats import Caveat
from hakaru.guest.facts import read_qemu
from hakaru.run.devices import device_caveats, images_of
from hakaru.run.options import Options, expand_options
from hakaru.run.site_file import load_site
from hakaru.store import RunReader
from hakaru.study import load

from tests.kinds.packets.study import written
from tests.run.conftest import Hakaru
from tests.run.test_forwarding import SLOW

ALONE = ["unshare", "--user", "--map-root-user", "--net"]
CABLES = (("eth2", "device-left"), ("eth3", "device-right"), ("eth4", "eth5"), ("eth6", "unused"))
LEFT = {"interface": "eth2", "address": "198.18.1.2"}
RIGHT = {"interface": "eth3", "address": "198.18.2.2"}
FUNCTION, OTHER_FUNCTION = {"function": "0000:fe:00.0"}, {"function": "0000:fe:00.1"}
DEVICE = {"device_mac": "02:00:00:00:00:09"}
EQUIPMENT = {"hosts": ["generator"], "device": {"name": "device", "forwards": "equipment"}}


def made_equipment(counters: Path) -> list[str]:
    """A command that runs its arguments beside the equipment, then writes interfaces' counters."""
    lines = ["set -e", "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6", "ip link add device type bridge"]
    lines += [f"ip link add {near} type veth peer name {far}" for near, far in CABLES]
    lines += [f"ip link set {name} master device" for name in ("device-left", "device-right")]
    lines += [f"ip link set {name} up" for cable in (*CABLES, ("device",)) for name in cable]
    script = "\n".join([*lines, "set +e", '"$@"', "status=$?", f"cat /proc/net/dev >{counters}", "exit $status"])
    return [*ALONE, "sh", "-c", script, "sh"]


def site(folder: Path, **ports: object) -> Path:
    path = folder / "site.yaml"
    path.write_text(json.dumps({"format": 1, "name": "rack", "ports": {"left": LEFT, "right": RIGHT, **ports}}))
    return path


def study(folder: Path, **parts: object) -> Path:
    return written(folder / "study", lab=EQUIPMENT, load=SLOW | {"direction": "both"}, **parts)


@pytest.mark.parametrize("loop", [["eth4", "eth5"], None])
def test_frames_pass_the_equipment_and_no_other_interface(tmp_path: Path, loop: list[str] | None) -> None:
    if shutil.which("ip") is None or subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs ip (iproute2) and user namespaces")
    counters = tmp_path / "counters"
    hakaru = Hakaru(tmp_path / "runs", made_equipment(counters))
    path = site(tmp_path, loop=loop)
    result = hakaru.run("run", str(study(tmp_path)), "--site", str(path), "--json", "--report", "none")
    assert result.returncode in (0, 5), result.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert (record["status"], record["origin"]) == ("done", "measured")
    log = record["trials"]["log"]
    # Twice, and up to three times each if processors stopped.
    assert [trial["purpose"] for trial in log].count("tester") in (range(2, 7) if loop else [0])
    received = sum(stream["received"] for trial in log if trial["purpose"] == "flood" for stream in trial["streams"])
    assert received > 0
    sent = {line.split(":")[0].strip(): int(line.split()[10]) for line in counters.read_text().splitlines()[2:]}
    assert min(sent["eth2"], sent["eth3"], sent["device-left"]) > 0
    assert sent["eth6"] == sent["unused"] == 0
    assert (sent["eth4"] > 0) == (loop is not None)


@pytest.mark.parametrize(
    ("ports", "words"),
    [
        ({"right": RIGHT | {"interface": "eth2"}}, "an interface is named twice"),
        ({"right": RIGHT | {"device_mac": "02:00:00:00:00:09"}}, "`device_mac` is given for one port"),
        ({"right": RIGHT | {"interface": "no/name"}}, "interface"),
        ({"right": RIGHT | FUNCTION}, "`function` is given for one port"),
        ({"left": LEFT | FUNCTION, "right": RIGHT | FUNCTION}, "a function is named twice"),
        ({"left": LEFT | {"function": "03:00.0"}}, "the address of a PCI function"),
        (
            {"left": LEFT | FUNCTION | DEVICE, "right": RIGHT | OTHER_FUNCTION | DEVICE},
            "`device_mac` is given beside `function`",
        ),
        (
            {"left": LEFT | FUNCTION, "right": RIGHT | OTHER_FUNCTION | {"address": "198.18.1.3"}},
            "both addresses are in 198.18.1.0/24",
        ),
    ],
)
def test_impossible_ports_are_refused(hakaru: Hakaru, tmp_path: Path, ports: dict[str, object], words: str) -> None:
    result = hakaru.ask("run", str(study(tmp_path)), "--site", str(site(tmp_path, **ports)))
    assert result.returncode == 2 and words in result.stderr, result.stderr


def test_equipment_needs_a_site_and_a_site_needs_ports_and_equipment(hakaru: Hakaru, tmp_path: Path) -> None:
    without = hakaru.run("run", str(study(tmp_path)))
    assert without.returncode == 2 and "is existing equipment" in without.stderr and "--site" in without.stderr
    lab = written(tmp_path / "lab", load=SLOW)
    built = hakaru.ask("run", str(lab), "--site", str(site(tmp_path)))
    assert built.returncode == 2 and "has the device `bridge`, which is built in a lab" in built.stderr
    lus = tmp_path / "lus.yaml"
    lu = {"portal": "192.0.2.1:3260", "target_name": "iqn.2011-10.example:x", "lun": 0}
    lus.write_text(json.dumps({"format": 1, "name": "array", "lus": [lu]}))
    other = hakaru.ask("run", str(study(tmp_path)), "--site", str(lus))
    assert other.returncode == 2 and "has no `ports`" in other.stderr
    lus.write_text(json.dumps({"format": 1, "name": "nothing"}))
    empty = hakaru.ask("run", str(study(tmp_path)), "--site", str(lus))
    assert empty.returncode == 2 and "none of `lus`, `ports` and `share`" in empty.stderr


def guest_study(folder: Path, **guest: object) -> Path:
    """A study of a guest with functions of adapters."""
    device = {"name": "device", "forwards": "guest", "guest": {"nic": {"model": "vfio"}, **guest}}
    return written(folder / "guest", lab={"hosts": ["generator"], "device": device}, load=SLOW)


def test_site_with_functions_takes_guests_with_them_alone(hakaru: Hakaru, tmp_path: Path) -> None:
    functions = site(tmp_path, left=LEFT | FUNCTION, right=RIGHT | OTHER_FUNCTION)
    other = hakaru.ask("plan", str(study(tmp_path)), "--site", str(functions))
    assert other.returncode == 2 and "and point p01 has another device" in other.stderr, other.stderr
    plain = tmp_path / "plain"
    plain.mkdir()
    without = hakaru.ask("plan", str(guest_study(tmp_path)), "--site", str(site(plain)))
    assert without.returncode == 2 and "add `function` to both `ports`" in without.stderr, without.stderr


def test_guest_whose_functions_are_missing_is_not_possible_here(hakaru: Hakaru, tmp_path: Path) -> None:
    if read_qemu()[0] is None:
        pytest.skip("qemu-system-x86_64 is not installed")
    functions = site(tmp_path, left=LEFT | FUNCTION, right=RIGHT | OTHER_FUNCTION)
    planned = hakaru.ask("plan", str(guest_study(tmp_path)), "--site", str(functions))
    assert planned.returncode == 0, planned.stderr
    assert "PCI functions 0000:fe:00.0, 0000:fe:00.1, which the guest gets" in planned.stdout
    assert "not possible here: p01: this machine has no PCI function 0000:fe:00.0" in planned.stdout
    several = hakaru.ask("plan", str(guest_study(tmp_path, chain=2)), "--site", str(functions))
    assert "have functions for one guest, and the device has 2" in several.stdout, several
    lab = hakaru.ask("plan", str(guest_study(tmp_path)))
    assert "not possible here: p01: `vfio` passes functions of this machine's adapters" in lab.stdout, lab


def test_point_that_is_not_possible_is_marked_and_names_the_function(hakaru: Hakaru, tmp_path: Path) -> None:
    if read_qemu()[0] is None:
        pytest.skip("qemu-system-x86_64 is not installed")
    functions = site(tmp_path, left=LEFT | FUNCTION, right=RIGHT | OTHER_FUNCTION)
    done = hakaru.ask("run", str(guest_study(tmp_path)), "--site", str(functions), "--report", "none")
    assert done.returncode == 5, done.stderr
    (record,) = RunReader(hakaru.only_run()).repetitions()
    assert record["status"] == "failed" and "no interface eth2" in record["error"], record


def test_guest_on_an_emulated_processor_is_marked() -> None:
    guest = {"accelerator": "tcg", "accelerator_reason": "this machine has no /dev/kvm"}
    assert device_caveats(guest) == [Caveat("cpu_emulated", {"reason": "this machine has no /dev/kvm"})]
    assert device_caveats(guest | {"accelerator": "kvm"}) == device_caveats(None) == []


def test_no_image_is_fetched_for_a_guest_that_a_site_refuses(tmp_path: Path) -> None:
    device = {"name": "device", "forwards": "guest"}
    path = written(tmp_path / "guest", lab={"hosts": ["generator"], "device": device}, load=SLOW)
    expanded = expand_options(load(str(path)), Options())
    assert images_of(expanded, site=load_site(site(tmp_path))) == []
