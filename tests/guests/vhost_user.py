"""A program that connects a guest to ports of the fabric in its memory: `python -m
tests.guests.vhost_user IMAGE OFFLOADS QUEUES`, in a network namespace of its own. `OFFLOADS`: `on`
or `off`. `QUEUES`: pairs of queues of each NIC.

It is a separate process, because it runs as root of a user namespace. A line of JSON on stdout has
what was sent and received.

    side-0 ─ cable-0 [fabric] port-0 [guest: ip_forward] port-1 [fabric] cable-1 ─ side-1

Frames pass from side 0 to side 1. Then the guest loads a file from this machine and sends it back,
over TCP, whose super-frames and missing checksums the fabric must hand on or finish. Frames of many
flows follow. At last QEMU is killed while frames flow, and a second guest connects to the same
ports.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from typing import Any

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess
from hakaru.errors import HakaruError, LostError
from hakaru.guest.accelerator import find_accelerator
from hakaru.guest.command import Port, macs_of
from hakaru.guest.facts import collect_facts
from hakaru.guest.image import find_image
from hakaru.guest.machine import Guest, GuestSpec
from hakaru.guest.nic import Nic
from hakaru.guest.requirements import requirements, vectors_of
from pyroute2 import AsyncIPRoute

from tests.guests.forwarding import FRAMES, ROUTER, SOURCE, TIMEOUT_S, frame_to, opened, receive

FILE_BYTES = 4 * 1024**2
FLOWS = 64
PORTS = ("port-0", "port-1")
_PAUSE_S = 0.02
# Loads the file, and sends it back to the next port.
_LOAD = f"""
set -e
wget -q -O /tmp/file http://{SOURCE}:8000/
sha256sum </tmp/file
nc {SOURCE} 8001 </tmp/file
"""


# Names of the receive queues, and the interrupts of each so far, on all processors.
_INTERRUPTS = r"""
grep -E 'virtio[0-9]+-input\.' /proc/interrupts |
    awk '{n = 0; for (i = 2; i <= NF; i++) if ($i ~ /^[0-9]+$/) n += $i; print $NF, n}'
"""


async def connect_cables() -> None:
    """Create the cables. Side 0 has an address, so that this machine's TCP can use it."""
    async with AsyncIPRoute() as links:
        for number in range(2):
            await links.link("add", ifname=f"side-{number}", kind="veth", peer={"ifname": f"cable-{number}"})
            for name in (f"side-{number}", f"cable-{number}"):
                (index,) = await links.link_lookup(ifname=name)
                await links.link("set", index=index, state="up")
        (index,) = await links.link_lookup(ifname="side-0")
        await links.addr("add", index=index, address=SOURCE, prefixlen=24)


def fabric() -> contract.FabricEngineConfig:
    """Two links without a rate, each from a cable to a port in the guest's memory."""
    links = [
        contract.LinkConfig(
            name=f"link-{number}",
            a=contract.InterfaceEnd(name=f"cable-{number}"),
            b=contract.VhostUserEnd(name=name, socket=f"@{name}"),
        )
        for number, name in enumerate(PORTS)
    ]
    return contract.FabricEngineConfig(fabric=contract.FabricConfig(links=links), sample_interval_ms=100)


class Counters:
    """The newest counters of an engine, by entity."""

    def __init__(self, engine: EngineProcess) -> None:
        self._engine = engine
        self._newest: dict[str, dict[str, float]] = {}
        self._changed = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self._engine.events():
            if isinstance(event, contract.Sample):
                async with self._changed:
                    self._newest = event.counters
                    self._changed.notify_all()

    async def wait_for(self, port: str, name: str, least: float) -> dict[str, dict[str, float]]:
        """Wait until a counter of a port has at least this value."""
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(lambda: self._newest.get(f"interface/{port}", {}).get(name, -1) >= least)
            return self._newest

    async def settled(self, port: str, name: str) -> float:
        """Wait for two samples with the same value of a counter, and return it."""
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            values: list[float] = []
            while len(values) < 2 or values[-1] != values[-2]:
                await self._changed.wait()
                values.append(self._newest[f"interface/{port}"][name])
            return values[-1]

    async def wait_until_down(self, port: str) -> dict[str, dict[str, float]]:
        """Wait until no guest is connected to a port."""
        async with asyncio.timeout(TIMEOUT_S), self._changed:
            await self._changed.wait_for(lambda: self._newest.get(f"interface/{port}", {}).get("up_now") == 0)
            return self._newest

    async def close(self) -> None:
        """Stop reading."""
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)


async def send_and_receive(mac: str) -> list[dict[str, Any]]:
    """Send frames to the guest at side 0 and receive them at side 1."""
    loop = asyncio.get_running_loop()
    with await opened("side-0") as sender, await opened("side-1") as receiver:
        arrived = asyncio.create_task(receive(receiver))
        for number in range(FRAMES):
            await loop.sock_sendall(sender, frame_to(mac, number))
        return await asyncio.wait_for(arrived, TIMEOUT_S)


async def spread_flows(guest: Guest, mac: str, counters: Counters) -> dict[str, int]:
    """Send a frame of each of many flows. Returns each receive queue's interrupts meanwhile."""
    loop = asyncio.get_running_loop()

    async def interrupts() -> dict[str, int]:
        lines = (await guest.run(_INTERRUPTS)).split("\n")
        return {name: int(count) for name, count in (line.split() for line in lines if line)}

    passed = await counters.settled("port-0", "to_guest")
    before = await interrupts()
    with await opened("side-0") as sender:
        for flow in range(FLOWS):
            await loop.sock_sendall(sender, frame_to(mac, flow, port=4000 + flow))
    await counters.wait_for("port-0", "to_guest", passed + FLOWS)
    after = await interrupts()
    return {name: after[name] - before[name] for name in after}


async def exchange_file(guest: Guest) -> dict[str, str]:
    """Let the guest load a file and send it back. Returns the three digests of it."""
    content = os.urandom(FILE_BYTES)
    returned: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content) + content)
        await writer.drain()
        writer.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        returned.set_result(await reader.readexactly(FILE_BYTES))
        writer.close()

    async with await asyncio.start_server(give, SOURCE, 8000), await asyncio.start_server(take, SOURCE, 8001):
        printed = await guest.run(_LOAD, timeout_s=TIMEOUT_S)
        back = await returned
    return {
        "sent": hashlib.sha256(content).hexdigest(),
        "loaded": printed.split()[0],
        "returned": hashlib.sha256(back).hexdigest(),
    }


async def kill_under_load(guest: Guest, mac: str, counters: Counters) -> dict[str, Any]:
    """Kill QEMU while frames flow. Returns the error of a script that was running, and the counters
    after it.
    """
    loop = asyncio.get_running_loop()
    with await opened("side-0") as sender:

        async def send() -> None:
            number = 0
            while True:
                await loop.sock_sendall(sender, frame_to(mac, number % 65536))
                number += 1
                await asyncio.sleep(0.001)

        flow = asyncio.create_task(send())
        script = asyncio.create_task(guest.run("sleep 600"))
        before = await counters.wait_for("port-0", "to_guest", 0)
        more = before["interface/port-0"]["to_guest"] + 20
        await counters.wait_for("port-0", "to_guest", more)
        guest.emulator.kill()
        error = ""
        try:
            await script
        except LostError as lost:
            error = lost.message
        await counters.wait_for("port-0", "dropped_down", 1)
        after = await counters.wait_until_down("port-0")
        flow.cancel()
        await asyncio.gather(flow, return_exceptions=True)
    return {"error": error, "after": {name: after[f"interface/{name}"] for name in PORTS}}


def sockets() -> list[str]:
    """Abstract sockets of this namespace with the names of the ports."""
    with open("/proc/net/unix") as table:  # noqa: PTH123
        return sorted({line.split()[-1] for line in table if line.split()[-1].removeprefix("@") in PORTS})


async def run(image_name: str, *, offloads: bool, queues: int) -> dict[str, Any]:
    """Boot the guest, pass frames and files, kill it, and boot another one."""
    image = find_image(image_name)  # type: ignore[arg-type]
    accelerator = await find_accelerator(image)
    facts = collect_facts(accelerator)
    nics = [Nic(model="vhost-user", socket=f"@{name}", offloads=offloads, queues=queues) for name in PORTS]
    if (refusal := requirements(nics[0], image.recipe, facts)) is not None:
        return {"refused": refusal.reason}
    await connect_cables()
    ports = tuple(Port(name, nic, (), vectors_of(nic, facts)) for name, nic in zip(PORTS, nics, strict=True))
    spec = GuestSpec("router", image, cpus=queues, ports=ports, host_network=False)
    mac, own = macs_of(ports, spec.number)
    result: dict[str, Any] = {"forwarded_by": own}
    async with await EngineProcess.spawn("fabric", fabric()) as engine:
        await engine.ready()
        await engine.start(clock.now_ns())
        counters = Counters(engine)
        result["listening"] = sockets()
        async with await Guest.boot(spec, accelerator) as guest:
            result["driver"] = await guest.run(ROUTER)
            result["received"] = await send_and_receive(mac)
            result["ping"] = await guest.run(f"ping -c 3 -i 0.2 -W 10 {SOURCE}", timeout_s=TIMEOUT_S)
            result["features"] = await guest.run("ethtool -k port-0")
            result["file"] = await exchange_file(guest)
            result["interrupts"] = await spread_flows(guest, mac, counters) if queues > 1 else {}
            result["killed"] = await kill_under_load(guest, mac, counters)
        async with await Guest.boot(spec, accelerator) as guest:
            await guest.run(ROUTER)
            result["received_again"] = await send_and_receive(mac)
            result["counters"] = await counters.wait_for("port-1", "connections", 2)
            await guest.emulator.quit()
        await counters.wait_until_down("port-1")
        await counters.close()
    result["remaining"] = sockets()
    return result


def main() -> int:
    """Print the result as JSON, or the error."""
    image, offloads, queues = sys.argv[1:]
    try:
        print(json.dumps(asyncio.run(run(image, offloads=offloads == "on", queues=int(queues)))))
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
