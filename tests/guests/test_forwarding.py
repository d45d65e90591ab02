"""A guest with two NICs on two TAPs forwards frames, without root outside of a user namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hakaru.errors import EnvironmentError_
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import Image, find_image
from hakaru.guest.nic import Nic
from hakaru.guest.requirements import Accelerator, requirements

from tests.guests.forwarding import FRAMES, TTL

ROOT = Path(__file__).parents[2]
NAMESPACES = ("unshare", "--user", "--map-root-user", "--net")
TUN = Path("/dev/net/tun")


def start(image: str, nic: dict[str, Any], *more: str) -> subprocess.CompletedProcess[str]:
    if subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no user and network namespaces are available")
    command = [*NAMESPACES, sys.executable, "-m", "tests.guests.forwarding", image, json.dumps(nic), *more]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def forward(image: str, nic: dict[str, Any]) -> dict[str, Any]:
    done = start(image, nic)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    if "refused" in result:
        pytest.skip(result["refused"])
    assert isinstance(result, dict)
    return result


def check(result: dict[str, Any]) -> None:
    received = result["received"]
    assert [frame["number"] for frame in received] == list(range(FRAMES)), "in order and complete"
    # A router decrements the time to live and sends from its own address.
    assert {frame["ttl"] for frame in received} == {TTL - 1}
    assert {frame["from"] for frame in received} == {result["forwarded_by"]}
    assert result["remaining"] == ["lo"], "the TAPs have vanished with QEMU"
    assert {"port0-nic", "port1-nic"} <= set(result["devices"])


def test_guest_forwards_between_two_virtio_nics(image: Image) -> None:
    result = forward("cloud", {"model": "virtio-net", "queues": 2, "rx_ring": 512, "offloads": False})
    check(result)
    assert "driver: virtio_net" in result["driver"]


def test_guest_forwards_between_two_e1000_nics(image: Image) -> None:
    # Built here, because no package mirror can be reached from the namespace.
    find_image("generic")
    result = forward("generic", {"model": "e1000", "rx_ring": 512, "offloads": False})
    check(result)
    assert "driver: e1000\n" in result["driver"]
    assert set(result["processors"]) == {"1"}, "pinned; the default is 0-1"
    # ALUA and ext4 are modules of this kernel.
    assert {"scsi_dh_alua", "dm_multipath", "ext4"} <= set(result["modules"].split())


@pytest.mark.parametrize("model", ["e1000e", "igb", "igbvf", "rtl8139", "vhost-net"])
def test_guest_forwards_between_two_other_nics(image: Image, model: str) -> None:
    """Skips where QEMU lacks the NIC, as igb and its virtual functions before QEMU 8.0, or the
    kernel lacks vhost.
    """
    find_image("generic")
    result = forward("generic", {"model": model})
    check(result)
    driver = {"rtl8139": "8139cp", "vhost-net": "virtio_net"}.get(model, model)
    assert f"driver: {driver}\n" in result["driver"]


def test_missing_driver_is_named_when_the_guest_has_booted(image: Image) -> None:
    if requirements(Nic(), image.recipe, collect_facts(Accelerator("tcg"))) is not None:
        pytest.skip("TAPs cannot be opened here")
    done = start("cloud", {"model": "e1000"}, "anyway")
    assert done.returncode == EnvironmentError_.exit_code, done.stderr
    assert "has no interface for port-0 (e1000): kernel 6." in done.stderr
    assert "has no working driver e1000" in done.stderr
