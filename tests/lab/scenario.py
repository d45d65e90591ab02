"""A program that the tests run in a sandbox of its own: `python scenario.py NAME ARGUMENT…`. Prints
JSON lines.

It stands for `hakaru run`: enters the sandbox first, then does one thing.
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

from hakaru.errors import HakaruError
from hakaru.lab import sandbox


def say(**values: Any) -> None:
    """One line to the test."""
    print(json.dumps(values), flush=True)


def describe() -> None:
    """What a command sees inside."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    say(
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
    """End with the exit code given."""
    sys.exit(int(sys.argv[2]))


def end_by_signal() -> None:
    """End by the signal given."""
    os.kill(os.getpid(), int(sys.argv[2]))
    time.sleep(60)


def write_file() -> None:
    """Write a file; whose is it outside?"""
    Path(sys.argv[2]).write_text("written inside\n")
    say(owner=Path(sys.argv[2]).stat().st_uid)


def echo_stdin() -> None:
    """Standard streams pass through."""
    sys.stdout.write(sys.stdin.read().upper())
    sys.stderr.write(f"tty {[os.isatty(descriptor) for descriptor in (0, 1, 2)]}\n")


def count_signals() -> None:
    """Tell of every SIGINT, SIGTERM and SIGUSR1; ends at SIGTERM with 143."""
    received = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})
    del received
    say(pid=os.getpid(), state="waiting")
    while True:
        number = signal.sigwait({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1})
        say(signal=signal.Signals(number).name)
        if number == signal.SIGTERM:
            sys.exit(143)


def tick() -> None:
    """A line every 50 ms, to see whether this runs or is stopped."""
    number = 0
    while True:
        say(tick=number)
        number += 1
        time.sleep(0.05)


def leave_orphan() -> None:
    """End while a daemon of ours runs on."""
    subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    say(state="left")


def plan_of(argument: str) -> Any:
    """A plan from a LabSpec in JSON."""
    from hakaru.lab.model import LabSpec
    from hakaru.lab.plan import plan_lab

    return plan_lab(LabSpec.model_validate_json(argument))


def hold() -> None:
    """Go through the life of a run, telling each phase, until killed: entered, built, engines."""
    subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
    say(phase="entered")
    asyncio.run(_hold())


async def _hold() -> None:
    from hakaru.engine import contract
    from hakaru.lab.build import Lab

    plan = plan_of(sys.argv[2])
    async with Lab(plan) as lab:
        say(phase="built")
        engines = [await lab.start_engine(node.name, contract.WatchConfig()) for node in plan.nodes]
        for engine in engines:
            await engine.ready()
            await engine.start(0)
        say(phase="engines", engines=[engine.pid for engine in engines])
        await asyncio.sleep(300)


def build() -> None:
    """Build a lab and read back what the kernel made of it."""
    from hakaru.lab.build.apply import apply_plan

    plan = plan_of(sys.argv[2])
    namespaces = apply_plan(plan)
    seen = {}
    for node in plan.nodes:
        with namespaces.inside(node.name):
            seen[node.name] = _look()
    own = [line.split(":")[0].strip() for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]]
    namespaces.close()
    say(nodes=seen, own_interfaces=own)


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
        say(lab=checked.describe(), seconds=seconds, caveats=caveats)


def linked() -> None:
    """A lab link by link: check it, load it, let it take on the plan of the second argument."""
    asyncio.run(_linked())


async def _linked() -> None:
    from hakaru.lab.build import Lab
    from hakaru.lab.check import CheckedLab

    plan, other = plan_of(sys.argv[2]), plan_of(sys.argv[3])
    async with Lab(plan) as lab:
        checked = CheckedLab(lab)
        caveats = [caveat.to_json() for caveat in await checked.check_links()]
        say(lab=checked.describe(), caveats=caveats)
        await _loaded(lab)
        say(baselines=await checked.measure_baselines())
        await lab.adjust(other)
        await _loaded(lab)


async def _loaded(lab: Any) -> None:
    """Send from the first host to the last array for a moment; what TCP, interfaces and the fabric
    say of it.
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
    seen = {node: await asyncio.to_thread(_seen, lab, node) for node in lab.plan.namespaces}
    say(values=result.values, counters=counters, interfaces=interfaces, seen=seen, tcp=lab.tcp)


def _seen(lab: Any, node: str) -> dict[str, Any]:
    with lab.namespaces.inside(node):
        return _look()


def isolated() -> None:
    """A lab with VLANs: who reaches which address of the array, and what the array saw of those who
    do not.
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
        # Even who tells its kernel that the other VLAN's subnet is at its own port gets no answer.
        before = await _array_heard(lab, array)
        await asyncio.to_thread(_force_route, lab, "other", "10.77.10.0/24")
        forced = await asyncio.to_thread(_connects, lab, "other", "10.77.10.1")
        after = await _array_heard(lab, array)
        seen = {node: await asyncio.to_thread(_seen, lab, node) for node in (*lab.plan.host_names, array)}
        await fabric.stop()
        counters = {}
        async for event in fabric.events():
            if hasattr(event, "counters"):
                counters = event.counters
        say(reached=reached, forced=forced, before=before, after=after, seen=seen, counters=counters)
        for server in servers:
            server.close()


def _connects(lab: Any, host: str, address: str) -> str:
    with lab.namespaces.inside(host):
        client = socket.socket()
    client.settimeout(2)
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


async def _array_heard(lab: Any, array: str) -> dict[str, int]:
    """Packets that came in at each interface of the array."""

    def read() -> dict[str, int]:
        with lab.namespaces.inside(array):
            lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
        return {line.split(":")[0].strip(): int(line.split(":")[1].split()[1]) for line in lines}

    return await asyncio.to_thread(read)


def begin_connection() -> None:
    """What a connection from the first host to the first array begins with, over a star of the
    kernel's.
    """
    asyncio.run(_begin_connection())


async def _begin_connection() -> None:
    from hakaru.lab.build import Lab

    async with Lab(plan_of(sys.argv[2])) as lab:
        say(connections=await asyncio.to_thread(_begin_in, lab), tcp=lab.tcp)


def _begin_in(lab: Any) -> list[list[Any]]:
    plan = lab.plan
    with lab.namespaces.inside(plan.array_name):
        server = socket.create_server((plan.addresses(plan.array_name)[0], 3260))
    with lab.namespaces.inside(plan.host_names[0]):
        client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    said = []
    for end in (client, accepted):
        algorithm = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        # tcpi_snd_cwnd is the 19th 32-bit word after eight bytes of flags (linux/tcp.h).
        said.append([algorithm, int.from_bytes(info[80:84], sys.byteorder)])
    return said


def diagnose() -> None:
    """What the doctor finds in here."""
    from hakaru import doctor

    say(findings=[dataclasses.asdict(finding) for finding in doctor.diagnose()])


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
    )
}

if __name__ == "__main__":
    try:
        sandbox.enter()
        SCENARIOS[sys.argv[1]]()
    except HakaruError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
