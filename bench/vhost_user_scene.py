"""Runs the benchmark of guests' NICs in its own network namespace and prints one JSON object.

One guest has three pairs of NICs and routes between the NICs of each pair:

    t0 ─ c0 ─ bridge ─ TAP [guest] TAP ─ bridge ─ c1 ─ t1        path `tap`
    m0 ─ w0 ─ fabric ───── [guest] ───── fabric ─ w1 ─ m1        path `vhost_user`
    s0 ─ w2 ─ fabric ───── [guest] ───── fabric ─ w3 ─ s1        path `vhost_user_256`

NICs have 1024 receive descriptors, those of the last path 256, QEMU's default. The generator sends
frames into one end and counts them at the other one, over the paths in turn. The case is one JSON
object:
    engine     path of hakaru-engine
    bytes      size of the frames with FCS
    offered    rates of the generator, frames per second: one that the guest forwards without loss,
               for the processor time of a frame; one near its limit, for the frames lost; and one
               that is more than it forwards
    rounds     number of measurements of each path
    seconds    length of a measurement

usage (mostly by bench/vhost_user.py):
    unshare --user --map-root-user --net bench/vhost_user_scene.py CASE
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port, macs_of
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.nic import Nic
from hakaru.guest.requirements import requirements, vectors_of
from hakaru.guest.tap import open_tap
from pyroute2 import IPRoute

WARMUP_S = 0.5
PATHS = {"tap": ("t0", "t1"), "vhost_user": ("m0", "m1"), "vhost_user_256": ("s0", "s1")}
# Addresses of the generator behind each port of the guest.
PORTS = ("tap-0", "tap-1", "mem-0", "mem-1", "mem-2", "mem-3")
FAR_MAC = "02:00:00:00:00:09"


def main() -> int:
    """Build the scene, measure, and print the rounds."""
    try:
        with cabled() as ports:
            print(json.dumps(asyncio.run(measure(json.loads(sys.argv[1]), ports))))
    except HakaruError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


@contextlib.contextmanager
def cabled() -> Iterator[tuple[Port, ...]]:
    """Create the cables and the TAPs. Yields the ports of the guest, still without vectors."""
    with contextlib.ExitStack() as opened:
        taps = [opened.enter_context(open_tap(f"tap{number}")) for number in range(2)]
        links = opened.enter_context(IPRoute())

        def index(name: str) -> int:
            return int(links.link_lookup(ifname=name)[0])

        cables = (("t0", "c0"), ("t1", "c1"), ("m0", "w0"), ("m1", "w1"), ("s0", "w2"), ("s1", "w3"))
        for near, far in cables:
            links.link("add", ifname=near, kind="veth", peer={"ifname": far})
        for number, tap in enumerate(taps):
            links.link("add", ifname=f"br{number}", kind="bridge", br_stp_state=0, br_mcast_snooping=0)
            for name in (f"c{number}", tap.interface):
                links.link("set", index=index(name), master=index(f"br{number}"))
        for name in (*(end for cable in cables for end in cable), "br0", "br1", "tap0", "tap1"):
            links.link("set", index=index(name), state="up")
        yield (
            *(Port(f"tap-{number}", Nic(rx_ring=1024), tap.descriptors) for number, tap in enumerate(taps)),
            *(
                Port(f"mem-{n}", Nic(model="vhost-user", rx_ring=ring, socket=f"@mem-{n}"))
                for n, ring in enumerate((1024, 1024, 256, 256))
            ),
        )


def fabric() -> contract.FabricEngineConfig:
    """Links without a rate from the cables to the guest's memory."""
    links = [
        contract.LinkConfig(
            name=f"link-{number}",
            a=contract.InterfaceEnd(name=f"w{number}"),
            b=contract.VhostUserEnd(name=f"mem-{number}", socket=f"@mem-{number}"),
        )
        for number in range(4)
    ]
    return contract.FabricEngineConfig(fabric=contract.FabricConfig(links=links))


def router() -> str:
    """Shell commands for a guest that routes between the ports of each pair."""
    lines = ["set -e"]
    for number, port in enumerate(PORTS):
        lines += [
            f"ip link set {port} up",
            f"ip address add 10.{number}.0.254/24 dev {port}",
            f"arp -i {port} -s 10.{number}.0.1 {FAR_MAC}",
        ]
    return "\n".join([*lines, "echo 1 >/proc/sys/net/ipv4/ip_forward"])


def generator(path: str, mac: str, size: int) -> contract.PacketsConfig:
    """The generator of one path, whose frames are addressed to the guest's `mac`."""
    first = 2 * list(PATHS).index(path)
    near, far = PATHS[path]
    return contract.PacketsConfig.model_validate(
        {
            "ports": [{"name": "near", "interface": near}, {"name": "far", "interface": far}],
            "streams": [
                {
                    "name": "s",
                    "from": "near",
                    "to": "far",
                    "destination_mac": mac,
                    "source_address": f"10.{first}.0.1",
                    "destination_address": f"10.{first + 1}.0.1",
                    "sizes": [{"bytes": size}],
                }
            ],
        }
    )


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, with the kernel's share."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def trial(path: str, mac: str, case: dict[str, Any], pids: list[int]) -> dict[str, float]:
    """Processor time of these processes per frame at the low rate, the share of frames lost at the
    middle one, and forwarded frames per second at the high one.
    """

    def order(seconds: float, rate: float) -> contract.Trial:
        return contract.Trial(id=1, duration_ns=int(seconds * 1e9), rates=[rate])

    low, middle, high = case["offered"]

    config = generator(path, mac, case["bytes"])
    async with await EngineProcess.spawn("generator", config, binary=Path(case["engine"])) as engine:
        await engine.ready()
        await engine.start(clock.now_ns())
        await engine.trial(order(WARMUP_S, low))
        before = sum(map(cpu_s, pids))
        (slow,) = (await engine.trial(order(case["seconds"], low))).streams
        spent = sum(map(cpu_s, pids)) - before
        (steady,) = (await engine.trial(order(case["seconds"], middle))).streams
        (fast,) = (await engine.trial(order(case["seconds"], high))).streams
    if slow.received == 0:
        raise HakaruError(f"the path {path} forwards nothing")
    return {
        "rate": fast.received / case["seconds"],
        "cpu_us": 1e6 * spent / slow.received,
        "lost_percent": 100 * steady.lost / steady.sent,
    }


async def measure(case: dict[str, Any], ports: tuple[Port, ...]) -> list[dict[str, dict[str, float]]]:
    """Boot the guest and measure all paths in every round."""
    image = find_image("cloud")
    accelerator = await find_accelerator(image)
    facts = collect_facts(accelerator)
    rounds = []
    for port in ports:
        if refusal := requirements(port.nic, image.recipe, facts):
            raise HakaruError(refusal.reason, refusal.hint)
    ports = tuple(Port(p.name, p.nic, p.descriptors, vectors_of(p.nic, facts)) for p in ports)
    spec = GuestSpec("router", image, ports=ports, host_network=False)
    macs = macs_of(ports, spec.number)
    async with await EngineProcess.spawn("fabric", fabric(), binary=Path(case["engine"])) as engine:
        await engine.ready()
        await engine.start(clock.now_ns())
        async with await Guest.boot(spec, accelerator) as guest:
            await guest.run(router())
            pids = {"tap": [guest.emulator.pid], "vhost_user": [guest.emulator.pid, engine.pid]}
            pids["vhost_user_256"] = pids["vhost_user"]
            for _ in range(case["rounds"]):
                rounds.append({path: await trial(path, macs[2 * n], case, pids[path]) for n, path in enumerate(PATHS)})
    return rounds


if __name__ == "__main__":
    sys.exit(main())
