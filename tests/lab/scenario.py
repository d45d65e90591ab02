"""Program that the tests run in its own sandbox: `python scenario.py NAME ARGUMENT…`. It prints
JSON lines.

It takes the place of `hakaru run`: it enters the sandbox and then runs one function.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hakaru.errors import HakaruError, LostError
from hakaru.lab import sandbox


def report(**values: Any) -> None:
    """Write one line for the test."""
    print(json.dumps(values), flush=True)


def describe() -> None:
    """Report the environment of a command inside the sandbox."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    report(
        uid=os.getuid(),
        cwd=str(Path.cwd()),
        argv=sys.argv[2:],
        processes=sorted(int(path.name) for path in Path("/proc").glob("[0-9]*")),
        interfaces=[line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]],
        effective=status["CapEff"],
        namespaces={name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("net", "mnt", "pid", "user")},
        sandbox=sandbox.enter().describe(),
        variable=os.environ.get("HAKARU_TEST_VARIABLE"),
    )


def exit_with() -> None:
    """End with the given exit code."""
    sys.exit(int(sys.argv[2]))


def end_by_signal() -> None:
    """End by the given signal."""
    os.kill(os.getpid(), int(sys.argv[2]))
    time.sleep(60)


def write_file() -> None:
    """Write a file and report its owner."""
    Path(sys.argv[2]).write_text("written inside\n")
    report(owner=Path(sys.argv[2]).stat().st_uid)


def echo_stdin() -> None:
    """Copy stdin to stdout in capitals, and report on stderr which streams are terminals."""
    sys.stdout.write(sys.stdin.read().upper())
    sys.stderr.write(f"tty {[os.isatty(descriptor) for descriptor in (0, 1, 2)]}\n")


def count_signals() -> None:
    """Report every SIGINT, SIGTERM and SIGUSR1; end at SIGTERM with exit code 143."""
    received = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})
    del received
    report(pid=os.getpid(), state="waiting")
    while True:
        number = signal.sigwait({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})
        report(signal=signal.Signals(number).name)
        if number == signal.SIGTERM:
            sys.exit(143)


def tick() -> None:
    """Write a line every 50 ms, which shows whether the process runs or is stopped."""
    number = 0
    while True:
        report(tick=number)
        number += 1
        time.sleep(0.05)


def leave_orphan() -> None:
    """End while a daemon that this process started keeps running."""
    subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    report(state="left")


def plan_of(argument: str) -> Any:
    """Return the plan of a LabSpec in JSON."""
    from hakaru.lab.model import LabSpec
    from hakaru.lab.plan import plan_lab

    return plan_lab(LabSpec.model_validate_json(argument))


def hold() -> None:
    """Go through the phases of a run (entered, built, engines), report each, then wait."""
    subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    report(phase="entered")
    asyncio.run(_hold())


async def _hold() -> None:
    from hakaru.engine import contract
    from hakaru.lab.build import Lab

    plan = plan_of(sys.argv[2])
    async with Lab(plan) as lab:
        report(phase="built")
        engines = [await lab.start_engine(node.name, contract.WatchConfig()) for node in plan.nodes]
        for engine in engines:
            await engine.ready()
            await engine.start(0)
        report(phase="engines", engines=[engine.pid for engine in engines])
        await asyncio.sleep(300)


def build() -> None:
    """Build a lab and report the settings that the kernel has."""
    from hakaru.lab.build.apply import apply_plan

    plan = plan_of(sys.argv[2])
    namespaces = apply_plan(plan)
    seen = {}
    for node in plan.nodes:
        with namespaces.inside(node.name):
            seen[node.name] = _look()
    own = [line.split(":")[0].strip() for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]]
    namespaces.close()
    report(nodes=seen, own_interfaces=own)


def _look() -> dict[str, Any]:
    from pyroute2 import IPRoute

    sysctl = {
        name: Path(f"/proc/sys/net/{name}").read_text().strip()
        for name in ("ipv4/tcp_congestion_control", "ipv4/tcp_no_metrics_save")
    }
    with IPRoute() as socket:
        links = {
            link.get("ifname"): {
                "up": bool(link["flags"] & 1),
                "mtu": link.get("mtu"),
                "kind": link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND"),
                "gso_max_size": link.get("gso_max_size"),
            }
            for link in socket.get_links()
        }
        names = {link["index"]: link.get("ifname") for link in socket.get_links()}
        addresses = [f"{address.get('address')}/{address['prefixlen']}" for address in socket.get_addr(family=2)]
        shaped = {}
        for qdisc in socket.get_qdiscs():
            if qdisc.get("kind") == "tbf":
                parameters = qdisc.get_nested("TCA_OPTIONS", "TCA_TBF_PARMS")
                shaped[names[qdisc["index"]]] = {"rate": parameters["rate"], "limit": parameters["limit"]}
    return {"links": links, "addresses": addresses, "shaped": shaped, "sysctl": sysctl}


def check_links() -> None:
    """Build a lab and measure its links with the engine's probe."""
    asyncio.run(_check_links())


async def _check_links() -> None:
    from hakaru.lab.build import Lab
    from hakaru.lab.check import CheckedLab

    async with Lab(plan_of(sys.argv[2])) as lab:
        checked = CheckedLab(lab)
        started = time.monotonic()
        caveats = [caveat.to_json() for caveat in await checked.check_links()]
        seconds = time.monotonic() - started
        report(lab=checked.describe(), seconds=seconds, caveats=caveats)


def linked() -> None:
    """Build a linked lab, check it, load it, adjust it to the plan of the second argument, and load
    it again.
    """
    asyncio.run(_linked())


async def _linked() -> None:
    from hakaru.lab.build import Lab
    from hakaru.lab.check import CheckedLab

    plan, changed_plan = plan_of(sys.argv[2]), plan_of(sys.argv[3])
    async with Lab(plan) as lab:
        checked = CheckedLab(lab)
        caveats = [caveat.to_json() for caveat in await checked.check_links()]
        report(lab=checked.describe(), caveats=caveats)
        await _send_load(lab)
        report(baselines=await checked.measure_baselines())
        await lab.adjust(changed_plan)
        await _send_load(lab)


async def _send_load(lab: Any) -> None:
    """Send from the first host to the last array for a short time; report the state of TCP, the
    interfaces and the fabric.
    """
    from hakaru.engine import contract
    from hakaru.lab.plan import fabric_config

    source, array = lab.plan.host_names[0], lab.plan.array_names[-1]
    fabric = await lab.start_engine(lab.plan.fabric_node, fabric_config(lab.plan, seed=1, sample_interval_ms=100))
    interfaces = (await fabric.ready()).found["interfaces"]
    await fabric.start(0)
    server = await lab.start_engine(array, contract.ProbeServer(listen=f"{lab.plan.addresses(array)[0]}:0"))
    portal = (await server.ready()).found["listen"]
    client = await lab.start_engine(source, contract.ProbeClient(connect=portal, seconds=0.3, round_trips=20))
    await client.ready()
    await client.start(0)
    result = await client.result(60)
    await server.close()
    await fabric.stop()
    counters = {}
    async for event in fabric.events():
        if isinstance(event, contract.Sample):
            counters = event.counters
    seen = {node: await asyncio.to_thread(_look_at, lab, node) for node in lab.plan.namespaces}
    report(values=result.values, counters=counters, interfaces=interfaces, seen=seen, tcp=lab.tcp)


def _look_at(lab: Any, node: str) -> dict[str, Any]:
    with lab.namespaces.inside(node):
        return _look()


def isolated() -> None:
    """Build a lab with VLANs; report which host reaches which address of the array, and what the
    array receives from a host that does not.
    """
    asyncio.run(_isolated())


async def _isolated() -> None:
    from hakaru.lab.build import Lab

    async with Lab(plan_of(sys.argv[2])) as lab, lab.fabric() as fabric:
        assert fabric is not None
        array = lab.plan.array_name
        servers = []
        with lab.namespaces.inside(array):
            for address in lab.plan.addresses(array):
                servers.append(socket.create_server((address, 3260)))
        reached = [
            [host, address, await asyncio.to_thread(_connects, lab, host, address)]
            for host in lab.plan.host_names
            for address in lab.plan.addresses(array)
        ]
        # A host whose kernel has a route for the other VLAN's subnet at its own port gets no answer
        # either.
        before = await _packets_at_array(lab, array)
        await asyncio.to_thread(_force_route, lab, "other", "10.77.10.0/24")
        forced = await asyncio.to_thread(_connects, lab, "other", "10.77.10.1")
        after = await _packets_at_array(lab, array)
        seen = {node: await asyncio.to_thread(_look_at, lab, node) for node in (*lab.plan.host_names, array)}
        await fabric.stop()
        counters = {}
        async for event in fabric.events():
            if hasattr(event, "counters"):
                counters = event.counters
        report(reached=reached, forced=forced, before=before, after=after, seen=seen, counters=counters)
        for server in servers:
            server.close()


def _connects(lab: Any, host: str, address: str) -> str:
    with lab.namespaces.inside(host):
        client = socket.socket()
    client.settimeout(20)
    try:
        client.connect((address, 3260))
    except OSError as error:
        return type(error).__name__ if error.errno is None else os.strerror(error.errno)
    finally:
        client.close()
    return "connected"


def _force_route(lab: Any, host: str, network: str) -> None:
    from pyroute2 import IPRoute

    with lab.namespaces.inside(host), IPRoute() as routes:
        routes.route("replace", dst=network, oif=routes.link_lookup(ifname="eth0")[0], scope="link")


async def _packets_at_array(lab: Any, array: str) -> dict[str, int]:
    """Return the number of packets that each interface of the array received."""

    def read() -> dict[str, int]:
        with lab.namespaces.inside(array):
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
        return {line.split(":")[0].strip(): int(line.split(":")[1].split()[1]) for line in lines}

    return await asyncio.to_thread(read)


def begin_connection() -> None:
    """Report the congestion control and the first window of a connection from the first host to the
    first array, in a star of the kernel backend.
    """
    asyncio.run(_begin_connection())


async def _begin_connection() -> None:
    from hakaru.lab.build import Lab

    async with Lab(plan_of(sys.argv[2])) as lab:
        report(connections=await asyncio.to_thread(_connect_in, lab), tcp=lab.tcp)


def _connect_in(lab: Any) -> list[list[Any]]:
    plan = lab.plan
    with lab.namespaces.inside(plan.array_name):
        server = socket.create_server((plan.addresses(plan.array_name)[0], 3260))
    with lab.namespaces.inside(plan.host_names[0]):
        client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    connections = []
    for end in (client, accepted):
        algorithm = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        # tcpi_snd_cwnd is the 19th 32-bit word after 8 bytes of flags (linux/tcp.h).
        connections.append([algorithm, int.from_bytes(info[80:84], sys.byteorder)])
    return connections


def diagnose() -> None:
    """Report the findings of the doctor inside the sandbox."""
    from hakaru import doctor

    report(findings=[dataclasses.asdict(finding) for finding in doctor.diagnose()])


def forward() -> None:
    """Build a lab with a device, send one UDP frame into each of its ports, and report what leaves
    the other port, whether the device's ports have threads of their own, and how many frames these
    received.
    """
    asyncio.run(_forward())


async def _forward() -> None:
    from hakaru.lab.build import Lab

    seen = {}
    async with Lab(plan_of(sys.argv[2])) as lab:
        for text in sys.argv[2:]:
            plan = plan_of(text)
            if plan != lab.plan:
                await lab.adjust(plan)
            async with lab.fabric():
                assert plan.device is not None
                seen[plan.device.forwards] = [
                    _send_through(lab, start, end) for start, end in (plan.device.ports, plan.device.ports[::-1])
                ]
    report(**seen)


def lose_in_ports() -> None:
    """Send frames to the port of a guest that never connects, then kill the fabric behind it.
    Report the losses that are located, and the error.
    """
    asyncio.run(_lose_in_ports(int(sys.argv[3])))


async def _lose_in_ports(frames: int) -> None:
    from hakaru.engine.process import EngineProcess
    from hakaru.lab.build.apply import apply_plan
    from hakaru.lab.build.guest_ports import GuestPorts
    from hakaru.lab.plan.device_guests import plan_guest_fabric

    plan = plan_of(sys.argv[2])
    device, namespaces = plan.device, await asyncio.to_thread(apply_plan, plan)
    config = plan_guest_fabric(device, plan.links[0].mtu)
    try:
        engine = await EngineProcess.spawn(device.node, config, namespace=namespaces[device.node])
        ports = await GuestPorts.start(engine, device)
        try:
            start, end = device.ports
            before = await ports.count_losses()
            with namespaces.inside(device.tester), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
                sender.bind((start.name, 0))
                for _ in range(frames):
                    sender.send(_udp_frame(start.tester_mac, start.device_mac, start.address, end.address))
            async with asyncio.timeout(60):
                while (await engine.count())["interface/guest-left"]["dropped_down"] < frames:
                    pass
            after = await ports.count_losses()
            os.kill(engine.pid, signal.SIGKILL)
            error = ""
            try:
                await ports.count_losses()
            except LostError as lost:
                error = lost.message
        finally:
            await ports.close()
    finally:
        namespaces.close()
    up = {name: found["up_now"] for name, found in ports.counters.items()}
    report(before=before, after=after, up=up, error=error)


def bridge_in_part() -> None:
    """Give the two links of a host to a guest whose second bridge is missing, and return them; then
    do both twice, and once more with a cable that is down. Report what the host has at each step.
    """
    from hakaru.lab.build.apply import apply_plan
    from hakaru.lab.build.guest_links import give_links, open_taps, return_links
    from hakaru.lab.plan.load_guests import load_guests
    from pyroute2 import IPRoute

    plan = plan_of(sys.argv[2])
    (guest,) = load_guests(plan, plan.host_names)
    namespaces = apply_plan(plan)

    def look() -> dict[str, Any]:
        with namespaces.inside(guest.node), IPRoute() as links:
            names = {link["index"]: link.get("ifname") for link in links.get_links()}
            masters = {link.get("ifname"): names.get(link.get("master")) for link in links.get_links()}
            addresses = sorted(address.get("address") for address in links.get_addr(family=socket.AF_INET))
            found = links.get_routes(family=socket.AF_INET, table=254)
            routes = sorted(f"{route.get('dst')} {names[route.get('oif')]}" for route in found)
        return {"masters": {name: masters[name] for name in ("eth0", "eth1")}, "addresses": addresses, "routes": routes}

    states = {"before": look()}
    taps = open_taps(namespaces, guest)
    with namespaces.inside(guest.node), IPRoute() as links:
        links.link("del", index=links.link_lookup(ifname="br-eth1")[0])
    error = ""
    try:
        give_links(namespaces, guest)
    except OSError as refused:
        error = str(refused)
    states["in part"] = look()
    return_links(namespaces, guest)
    states["returned"] = look()
    return_links(namespaces, guest)
    states["returned twice"] = look()
    for tap in taps:
        tap.close()
    taps = open_taps(namespaces, guest)
    give_links(namespaces, guest)
    give_links(namespaces, guest)
    states["given twice"] = look()
    return_links(namespaces, guest)
    states["returned at last"] = look()
    give_links(namespaces, guest)
    with namespaces.inside(guest.node), IPRoute() as links:
        links.link("set", index=links.link_lookup(ifname="eth0")[0], state="down")
    return_links(namespaces, guest)
    states["returned with a cable down"] = look()
    for tap in taps:
        tap.close()
    namespaces.close()
    report(states=states, error=error)


def _send_through(lab: Any, start: Any, end: Any) -> dict[str, Any]:
    """Send a frame from port `start` to port `end`; return its TTL and MAC addresses on arrival."""
    device = lab.plan.device
    goal = start.device_mac if device.forwards == "routing" else end.tester_mac
    frame = _udp_frame(start.tester_mac, goal, start.address, end.address)
    with lab.namespaces.inside(device.tester):
        sender, receiver = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW) for _ in range(2))
        with sender, receiver:
            receiver.bind((end.name, 0x0003))
            receiver.settimeout(60)
            sender.bind((start.name, 0))
            sender.send(frame)
            arrived = receiver.recv(2048)
            while arrived[12:14] != frame[12:14] or arrived[-8:] != frame[-8:]:
                arrived = receiver.recv(2048)
    with lab.namespaces.inside(device.node):
        threads = {name: _has_thread(name) for name in (start.name, end.name)}
        polled = _polled_frames(start.name) if device.has_threads else None
    mac = ":".join(f"{byte:02x}" for byte in arrived[:6])
    return {"to": mac, "ttl": arrived[22], "threads": threads, "polled": polled}


def _has_thread(interface: str) -> bool:
    """Whether a kernel thread polls an interface of this namespace. Needs a sysfs of its own."""
    from hakaru.lab.build.napi import sysfs

    with sysfs() as folder:
        return (folder / "class/net" / interface / "threaded").read_text().strip() == "1"


def poll_first() -> None:
    """Give an interface a thread that runs first, and hold it until the end of stdin."""
    from hakaru.lab.build.napi import switch_polling_on
    from pyroute2 import IPRoute

    interface = sys.argv[2]
    with IPRoute() as socket:
        socket.link("add", ifname=interface, kind="veth", peer={"ifname": "other"})
        for name in (interface, "other"):
            socket.link("set", index=socket.link_lookup(ifname=name)[0], state="up")
    switch_polling_on(interface, own_thread=True, first=True)
    report(polled=True)
    sys.stdin.read()


def _polled_frames(interface: str) -> int:
    """Frames that a veth interface of this namespace received by polling. The driver counts them as
    if an XDP program had seen them.
    """
    from pyroute2.ethtool.ioctl import IoctlEthtool

    control = IoctlEthtool(interface)
    try:
        return int(dict(control.get_statistics())["rx_queue_0_xdp_packets"])
    finally:
        control.close()


def _udp_frame(source_mac: str, goal_mac: str, source: str, goal: str) -> bytes:
    payload = b"hakaru-1"
    udp = (40000).to_bytes(2, "big") + (9).to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + bytes(2)
    length = (20 + len(udp) + len(payload)).to_bytes(2, "big")
    header = b"\x45\0" + length + bytes(4) + b"\x40\x11" + bytes(2) + socket.inet_aton(source) + socket.inet_aton(goal)
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, 20, 2))
    check = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    header = header[:10] + check.to_bytes(2, "big") + header[12:]
    return bytes.fromhex(goal_mac.replace(":", "") + source_mac.replace(":", "")) + b"\x08\0" + header + udp + payload


SCENARIOS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        describe,
        exit_with,
        end_by_signal,
        write_file,
        echo_stdin,
        count_signals,
        tick,
        leave_orphan,
        hold,
        build,
        check_links,
        linked,
        isolated,
        begin_connection,
        diagnose,
        forward,
        lose_in_ports,
        bridge_in_part,
        poll_first,
    )
}

if __name__ == "__main__":
    try:
        sandbox.enter()
        SCENARIOS[sys.argv[1]]()
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
