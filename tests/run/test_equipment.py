"""Searches on existing equipment: veth pairs stand in for NICs, and a bridge for the device between
them, in a network namespace of the test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hakaru.store import RunReader

from tests.kinds.packets.study import written
from tests.run.conftest import Hakaru
from tests.run.test_forwarding import SLOW

ALONE = ["unshare", "--user", "--map-root-user", "--net"]
CABLES = (("eth2", "device-left"), ("eth3", "device-right"), ("eth4", "eth5"), ("eth6", "unused"))
LEFT = {"interface": "eth2", "address": "198.18.1.2"}
RIGHT = {"interface": "eth3", "address": "198.18.2.2"}
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
