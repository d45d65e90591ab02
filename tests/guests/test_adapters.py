"""A guest that gets functions of adapters (VFIO) is the device of a site: searched by `hakaru run`,
on a machine that QEMU emulates with the adapters, an IOMMU and KVM.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hakaru.guest.facts import read_qemu
from hakaru.guest.image import Image, find_image

from tests.guests.machine_with_adapters import booted
from tests.kinds.packets.study import fields
from tests.long_form import only_long

# All programs are emulated: Python needs a minute to start and analyse.
RUN_S = 600.0
LOAD: dict[str, Any] = {
    "frame": 512,
    "direction": "both",
    "search": {"lowest": 20, "highest": 200, "budget": "20 s", "goals": [{"trial": "500 ms", "time": "1 s"}]},
    "latency": None,
}
ADAPTERS = {"vfio": "e1000e", "sr-iov": "igb"}
READ = """
import json
from pathlib import Path
(run,) = Path("/run/runs").glob("small-*")
print(json.dumps(json.loads((run / "repetitions" / "p01-1.json").read_text())))
"""
DOCTOR = """
from hakaru.doctor.guests import check_guests
for finding in check_guests():
    print(finding.name, finding.message, sep=": ")
"""


def study(model: str) -> dict[str, Any]:
    guest = {"nic": {"model": model}, "cpus": 1}
    lab = {"hosts": ["generator"], "device": {"name": "device", "forwards": "guest", "guest": guest}}
    return fields(lab=lab, load=LOAD)


@only_long
@pytest.mark.parametrize("model", ADAPTERS)
def test_frames_pass_a_guest_with_functions_of_adapters(image: Image, model: str) -> None:
    version, devices, _ = read_qemu()
    if ADAPTERS[model] not in devices:
        pytest.skip(f"QEMU {version} has no device {ADAPTERS[model]}")
    # The machine reaches no package mirror.
    find_image("generic")

    async def search() -> tuple[dict[str, Any], list[tuple[str, str]], str]:
        async with booted(ADAPTERS[model]) as machine:
            pairs = await machine.give_functions(virtual=model == "sr-iov")
            ends = {
                name: {"interface": interface, "address": f"198.18.{position}.2", "function": function}
                for position, (name, (interface, function)) in enumerate(zip(("left", "right"), pairs, strict=True))
            }
            await machine.write("/run/site.yaml", json.dumps({"format": 1, "name": "rack", "ports": ends}))
            await machine.write("/run/study.yaml", json.dumps(study(model)))
            command = ("-m", "hakaru.cli", "run", "/run/study.yaml", "--site", "/run/site.yaml", "--out", "/run/runs")
            await machine.run_python(*command, "--report", "none", timeout_s=RUN_S)
            record = json.loads(await machine.run_python("-c", READ, timeout_s=RUN_S))
            return record, pairs, await machine.run_python("-c", DOCTOR, timeout_s=RUN_S)

    record, pairs, findings = asyncio.run(search())
    assert record["status"] == "done" and record["origin"] == "measured", record
    device = record["device"]
    assert device["functions"] == [function for _, function in pairs]
    assert (device["nic"]["model"], device["accelerator"]) == (model, "kvm"), device
    passed = [
        stream for trial in record["trials"]["log"] for stream in trial["streams"] if trial["purpose"] == "search"
    ]
    assert passed and all(stream["sent"] == stream["received"] + stream["lost"] for stream in passed)
    for direction in ("forward", "backward"):
        assert sum(stream["received"] for stream in passed if stream["name"] == direction) > 0, passed
    assert f"guest nic {model}: usable on a site with guest image generic: PCI functions" in findings, findings
