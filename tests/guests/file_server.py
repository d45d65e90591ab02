"""The whole chain in a lab: array in one node, the guest's NIC on the switch, a client in another
node. `python -m tests.guests.file_server CHAINS FOLDER`, in a sandbox. Prints JSON lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hakaru.engine import contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError
from hakaru.fileserver import compaction
from hakaru.fileserver.chain import Chain
from hakaru.fileserver.chain_spec import HOST_PATH, SHARE_PATH, ChainSpec
from hakaru.fileserver.layers import ArrayCounters, array_counters
from hakaru.fileserver.samba_settings import FileServer, Share, User
from hakaru.fileserver.virtual_disk import VirtualDisk
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestCommandError, GuestSpec
from hakaru.guest.nic import Nic
from hakaru.guest.requirements import vectors_of
from hakaru.guest.tap import Tap, open_tap
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from pyroute2 import IPRoute

from tests.guests import small_accesses

MIB = 1 << 20
LINK = {"rate": "1 Gbit/s"}
LAB = {"hosts": 1, "host_link": LINK, "array_link": LINK, "backend": "kernel"}
PAGE_BYTES = 64 << 10
FILE_BYTES = 16 * MIB
PORTAL, ADDRESS = "10.77.0.1:3260", "10.77.0.100"
TARGET_NAME = "iqn.2026-01.org.hakaru:chain"
BREAK_QEMU_IMG = """
set -e
program=$(command -v qemu-img)
mv $program $program.whole
printf '#!/bin/sh\\n[ $1 = convert ] || exec %s.whole "$@"\\nfor last; do :; done\\n' $program >$program
printf 'echo part >$last\\necho no space; exit 1\\n' >>$program
chmod 755 $program
"""
REPAIR_QEMU_IMG = "program=$(command -v qemu-img); mv $program.whole $program"
SERVER = FileServer("fs-1", (Share(name="data", path=SHARE_PATH),), (User("vm-1", "what vm-1 knows"),))


def report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def plugged_tap(lab: Lab) -> Tap:
    """Return a TAP on the switch."""
    with lab.namespaces.inside("switch"), IPRoute() as links:
        tap = open_tap("file-server")
        (index,), (bridge,) = links.link_lookup(ifname="file-server"), links.link_lookup(ifname="br0")
        links.link("set", index=index, master=bridge, state="up")
    return tap


async def boot(lab: Lab) -> Guest:
    """Boot a guest for a chain, and give it its address on the switch."""
    image = find_image("file-server")
    accelerator = await find_accelerator(image)
    nic = Nic()
    with await asyncio.to_thread(plugged_tap, lab) as tap:
        port = Port("port-0", nic, tap.descriptors, vectors_of(nic, collect_facts(accelerator)))
        # A second processor that is emulated costs more than it carries.
        spec = GuestSpec("fs-1", image, memory_bytes=1024 * MIB, cpus=1, ports=(port,), host_network=False)
        guest = await Guest.boot(spec, accelerator)
    await guest.run(f"set -e; ip address add {ADDRESS}/20 dev port-0; ip link set port-0 up")
    return guest


def array_config(folder: Path, lus: int) -> contract.ArrayConfig:
    """Return an array with a thin LU per chain, all in one pool."""
    pool = {
        "name": "p",
        "directory": str(folder / "pool"),
        "page_bytes": PAGE_BYTES,
        "groups": [{"name": "g0", "size_bytes": 2048 * MIB}],
    }
    described = [
        {"lun": lun, "size_bytes": 1024 * MIB, "store": {"kind": "thin", "pool": "p", "volume": f"v{lun}"}}
        for lun in range(lus)
    ]
    return contract.ArrayConfig.model_validate(
        {
            "engine": "array",
            "target_name": TARGET_NAME,
            "portals": [PORTAL],
            "lus": described,
            "pools": [pool],
            "model": {"kind": "none"},
            "isolated_network": True,
        }
    )


def client(lab: Lab, commands: str) -> str:
    """Return the output of smbclient in the client's node."""
    user = SERVER.users[0]
    words = ["smbclient", f"//{ADDRESS}/data", "-U", f"{user.name}%{user.password}", "-t", "120", "-c", commands]
    with lab.namespaces.inside("host-1"):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.communicate()[0]
    assert process.returncode == 0 and "NT_STATUS" not in output, output
    return output


class Stages:
    """Takes the layers of one chain at several moments."""

    def __init__(self, chain: Chain, array: EngineProcess, lun: int) -> None:
        self.chain = chain
        self.array = array
        self.lun = lun
        self.layers: dict[str, dict[str, int]] = {}

    async def read_counters(self) -> ArrayCounters:
        status = await self.array.manage(contract.StatusAction())
        return array_counters(status, "p", f"v{self.lun}")

    async def take(self, name: str) -> None:
        layers = (await self.chain.layers(self.read_counters)).describe()
        status = await self.array.manage(contract.StatusAction())
        (pool,) = status["pools"]
        # Seen by other programs than those that the layers come from.
        layers["others_mapped_bytes"] = sum(v["mapped_bytes"] for v in pool["volumes"] if v["name"] != f"v{self.lun}")
        self.layers[name] = layers


async def use(lab: Lab, chain: Chain, stages: Stages, folder: Path) -> None:
    """Store a file, delete it, and return its space layer by layer."""
    await chain.serve(SERVER)
    content, copy = folder / "content", folder / "copy"
    content.write_bytes(os.urandom(FILE_BYTES))
    await stages.take("empty")
    client(lab, f"put {content} file; get file {copy}")
    identical = content.read_bytes() == copy.read_bytes()
    await stages.take("written")
    client(lab, "del file")
    await stages.take("deleted")
    trimmed = await chain.trim_guest()
    await stages.take("guest trimmed")
    await chain.trim_host()
    await stages.take("host trimmed")
    client(lab, f"put {content} kept")
    await chain.stop_serving()
    await small_accesses.without_read_ahead(chain)
    await compaction.compact(chain)
    await chain.trim_host()
    await stages.take("compacted")
    small = asdict(await small_accesses.measure(chain))
    copy.unlink()
    await chain.serve(SERVER)
    client(lab, f"get kept {copy}")
    identical = identical and content.read_bytes() == copy.read_bytes()
    report(identical=identical, trimmed=trimmed, small=small, lost=await lose(chain))


async def shrink(chain: Chain, stages: Stages) -> None:
    """Compact a fixed disk: first with a qemu-img that fails when it has written a part."""
    await stages.take("empty")
    await chain.guest.run(f"echo kept >{SHARE_PATH}/kept")
    await chain.guest.run(BREAK_QEMU_IMG)
    output = ""
    try:
        await compaction.compact(chain)
    except GuestCommandError as error:
        output = error.output.strip()
    await chain.guest.run(REPAIR_QEMU_IMG)
    after = (await chain.guest.run(f"cat {SHARE_PATH}/kept; ls {HOST_PATH}")).split()
    described = (await chain.describe())["disk"]
    await stages.take("failed")
    await compaction.compact(chain)
    await stages.take("compacted")
    kept = (await chain.guest.run(f"cat {SHARE_PATH}/kept")).strip()
    report(shrunk={"output": output, "after": after, "described": described, "kept": kept})


async def lose(chain: Chain) -> str:
    """Kill Samba and return the error. The chain stays."""
    assert await chain.check() == ""
    await chain.guest.run("kill -KILL $(cat /run/samba/pid/smbd.pid)")
    try:
        await chain.check()
    except LostError as error:
        await chain.stop_serving()
        return error.message
    return "nothing"


async def work(specs: list[ChainSpec], folder: Path) -> None:
    async with Lab(plan_lab(LabSpec.model_validate(LAB))) as lab:
        array = await lab.start_engine("array", array_config(folder, len(specs)))
        await array.ready()
        async with await boot(lab) as guest:
            for lun, chain_spec in enumerate(specs):
                async with await Chain.build(guest, chain_spec, PORTAL, TARGET_NAME, lun=lun) as chain:
                    stages = Stages(chain, array, lun)
                    described = await chain.describe()
                    if chain_spec.disk.subformat == "dynamic":
                        await use(lab, chain, stages, folder)
                    else:
                        await shrink(chain, stages)
                    compacted = (await chain.describe())["disk"]
                    checked = await chain.check()
                    report(
                        described=described,
                        compacted=compacted,
                        checked=checked,
                        share_device=chain.share_device,
                        stages=stages.layers,
                    )
            left = await guest.run("cat /proc/mounts; ps; cat /proc/diskstats; iscsiadm -m session 2>&1 || true")
            report(left=left)


if __name__ == "__main__":
    sandbox.enter()
    try:
        described = [
            (ChainSpec(VirtualDisk.model_validate(entry.pop("disk")), **entry)) for entry in json.loads(sys.argv[1])
        ]
        asyncio.run(work(described, Path(sys.argv[2])))
    except HakaruError as error:
        report(error=type(error).__name__, message=error.message, hint=error.hint)
        sys.exit(error.exit_code)
