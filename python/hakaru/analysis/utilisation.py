"""Utilisation of each resource in one repetition, in percent of its capacity.

    drives, drives_average    the busiest drive; the mean of all (busy time over elapsed time)
    group/G                   mean of the group's drives
    controller, port/N        busy time over elapsed time, where modelled
    link/NAME/out|in          bits on the wire (with Ethernet framing) over the configured rate;
                              `out` is the direction from the node to the switch
    cpu/machine               time not idle over the time of all CPUs
    cpu/machine/NODE          the same of each machine, if the load runs on several
    cpu/initiator, cpu/backup, cpu/array, cpu/fabric
        user and system time of the busiest process over elapsed time (100 % is one CPU), or
        of its busiest thread if the engine reports each thread

Time in which an engine polled without finding work (`busy_poll_ns`) does not count.

A modelled device that serves one request at a time is used while it is busy. A flash drive, and a
port whose directions transfer at the same time, are used as much as their busiest part is busy
over the window: controller, either direction, channels or dies. In a lab with several arrays, the
name of a device contains its node: `drives/vtl`, `controller/vtl`, `port/vtl.0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hakaru.analysis.counters import Counters, Series
from hakaru.analysis.rules.limits import MACHINE
from hakaru.lab.plan.parts import Link

ENGINES = ("initiator", "backup", "array", "fabric")
BUSY = ("user", "system", "irq", "softirq", "steal")
IDLE = ("idle", "iowait")
"""Kinds of time of a machine's CPUs, of which the watch counts nanoseconds (`user_ns`)."""
PARTS = ("controller_busy_ns", "receive_busy_ns", "send_busy_ns", "channels_busy_ns", "dies_busy_ns")
"""Busy times of the parts of a modelled device that work at the same time."""
ETHERNET_EXTRA_BYTES = 24  # preamble 8, FCS 4, gap 12: on the wire, but in no interface counter
ETHERNET_HEADER_BYTES = 14
TCP_IP_HEADER_BYTES = 52  # IPv4 20, TCP 20, timestamp option 12


@dataclass(frozen=True)
class Use:
    """Share of one resource in percent. `member` is the busiest one if the resource stands for
    several.
    """

    percent: float
    member: str | None = None


@dataclass(frozen=True)
class Nic:
    """A node's interface at the end of a link: the location of its counters, and the configured
    rate of the link in each direction.
    """

    node: str
    name: str
    link: str
    rate_bits_per_s: float
    mtu: int = 1500


def of_repetition(counters: Counters, window: tuple[int, int], nics: list[Nic]) -> dict[str, Use]:
    """Resource → use, without the resources that have no counters."""
    use_by_resource: dict[str, Use] = {}
    for resource, use in (
        *_drives(counters, window),
        *_single(counters, window),
        *_links(counters, window, nics),
        *_cpu(counters, window),
    ):
        if math.isfinite(use.percent):
            use_by_resource[resource] = use
    return use_by_resource


def busy_series(counters: Counters, entity: str, node: str | None = None) -> dict[tuple[str, str], list[Series]]:
    """Node and entity → busy time of a modelled device: of each of its parts, or of the whole if it
    has none. An `entity` that ends in `/` selects all entities with that prefix.
    """
    found: dict[tuple[str, str], list[Series]] = {}
    for name in (*PARTS, "busy_ns"):
        for key, series in counters.select(engine="array", node=node, entity=entity, name=name):
            # With parts, `busy_ns` is the time with any request at all, which limits nothing.
            if name != "busy_ns" or (key.node, key.entity) not in found:
                found.setdefault((key.node, key.entity), []).append(series)
    return found


def busy_percent(counters: Counters, window: tuple[int, int], node: str, entity: str) -> dict[str, float]:
    """Entity → busy time in percent, of the busiest part over the window."""
    devices = busy_series(counters, entity, node)
    return {name: max(part.rate(*window) for part in parts) / 1e7 for (_, name), parts in devices.items()}


def arrays(counters: Counters) -> Iterator[tuple[str, str, str]]:
    """Node, suffix and prefix of each array. They distinguish the devices of several arrays: the
    suffix follows a plain name, the prefix precedes a number. With one array both are empty.
    """
    nodes = counters.nodes("array")
    for node in nodes:
        yield (node, f"/{node}", f"{node}.") if len(nodes) > 1 else (node, "", "")


def _drives(counters: Counters, window: tuple[int, int]) -> Iterator[tuple[str, Use]]:
    for node, suffix, prefix in arrays(counters):
        drives = busy_percent(counters, window, node, "drive/")
        if not drives:
            continue
        busiest = max(drives, key=lambda d: drives[d])
        yield f"drives{suffix}", Use(drives[busiest], busiest)
        yield f"drives_average{suffix}", Use(sum(drives.values()) / len(drives))
        groups: dict[str, list[float]] = {}
        for drive, percent in drives.items():
            groups.setdefault(drive.removeprefix("drive/").partition(".")[0], []).append(percent)
        for group, members in sorted(groups.items()):
            yield f"group/{prefix}{group}", Use(sum(members) / len(members))


def _single(counters: Counters, window: tuple[int, int]) -> Iterator[tuple[str, Use]]:
    for node, suffix, prefix in arrays(counters):
        for percent in busy_percent(counters, window, node, "controller").values():
            yield f"controller{suffix}", Use(percent)
        for name, percent in sorted(busy_percent(counters, window, node, "port/").items()):
            yield f"port/{prefix}{name.removeprefix('port/')}", Use(percent)


def wire_bits(octets: float, packets: float, mtu: int) -> float:
    """Bits on the wire, from the counters of an interface.

    A virtual interface counts a segmentation-offload packet (up to 64 KiB) once, with one set of
    headers. On the wire it becomes as many frames as the MTU requires, each with its own headers
    and framing.
    """
    headers = ETHERNET_HEADER_BYTES + TCP_IP_HEADER_BYTES
    payload = max(0.0, octets - packets * headers)
    frames = max(packets, payload / max(1, mtu - TCP_IP_HEADER_BYTES))
    return 8 * (octets + (frames - packets) * headers + frames * ETHERNET_EXTRA_BYTES)


def _links(counters: Counters, window: tuple[int, int], nics: list[Nic]) -> Iterator[tuple[str, Use]]:
    for nic in nics:
        for direction, prefix in (("out", "tx"), ("in", "rx")):
            octets = counters.get(nic.node, "watch", f"nic/{nic.name}", f"{prefix}_bytes")
            packets = counters.get(nic.node, "watch", f"nic/{nic.name}", f"{prefix}_packets")
            if octets and packets and nic.rate_bits_per_s > 0:
                bits = wire_bits(octets.rate(*window), packets.rate(*window), nic.mtu)
                yield f"link/{nic.link}/{direction}", Use(100 * bits / nic.rate_bits_per_s)


def _cpu(counters: Counters, window: tuple[int, int]) -> Iterator[tuple[str, Use]]:
    polls = [_busy_poll(counters, window, name) for name in ENGINES]
    machines = machines_of(counters)
    for node, resource in machines.items():
        busy = sum(_machine_rate(counters, window, node, kind) for kind in BUSY)
        idle = sum(_machine_rate(counters, window, node, kind) for kind in IDLE)
        if busy + idle > 0:
            # The nodes of a lab share one machine.
            busy_poll = sum(rate for poll in polls for at, rate in poll.items() if len(machines) == 1 or at == node)
            yield resource, Use(100 * max(0.0, busy - busy_poll) / (busy + idle))
    for engine in ENGINES:
        shares = _threads(counters, window, engine)
        with_threads = {member.partition("/")[0] for member in shares}
        for name in ("cpu_user_ns", "cpu_system_ns"):
            for key, series in counters.select(engine=engine, entity="process", name=name):
                if key.node not in with_threads:
                    shares[key.node] = shares.get(key.node, 0.0) + series.rate(*window) / 1e7
        for node, rate in _busy_poll(counters, window, engine).items():
            if node not in with_threads:
                shares[node] = max(0.0, shares.get(node, 0.0) - rate / 1e7)
        if shares:
            member = max(shares, key=lambda n: shares[n])
            yield f"cpu/{engine}", Use(shares[member], member)


def _busy_poll(counters: Counters, window: tuple[int, int], engine: str) -> dict[str, float]:
    """Node → time that an engine spent busy polling, in ns per second."""
    rates = (
        (k.node, s.rate(*window)) for k, s in counters.select(engine=engine, entity="process", name="busy_poll_ns")
    )
    return {node: rate for node, rate in rates if math.isfinite(rate)}


def _threads(counters: Counters, window: tuple[int, int], engine: str) -> dict[str, float]:
    """`NODE/THREAD` → percent of a CPU, for engines that report their threads.

    A thread runs on one CPU at a time, so the busiest thread is the limit, regardless of their
    number.
    """
    selected = counters.select(engine=engine, entity="thread/", name="cpu_ns")
    return {f"{k.node}/{k.entity.removeprefix('thread/')}": s.rate(*window) / 1e7 for k, s in selected}


def machines_of(counters: Counters) -> dict[str, str]:
    """Node → the resource of the CPUs of its machine. Only one watch per machine reports them.

    Guests are left out: the machine that runs them counts the time of their CPUs as its own.
    """
    keys = counters.keys(engine="watch")
    found = {key.node for key in keys if key.entity == "machine" and key.name == "idle_ns"}
    nodes = sorted(found - counters.guests)
    return {node: MACHINE if len(nodes) == 1 else f"{MACHINE}/{node}" for node in nodes}


def guest_percent(counters: Counters, window: tuple[int, int], node: str) -> float:
    """Use of the CPUs of a guest, as its own kernel counts it; NaN without counters."""
    busy, idle = (sum(_machine_rate(counters, window, node, kind) for kind in kinds) for kinds in (BUSY, IDLE))
    return 100 * busy / (busy + idle) if busy + idle > 0 else math.nan


def stolen_percent(counters: Counters, window: tuple[int, int], node: str) -> float:
    """Share of the CPU time of a node's machine that its hypervisor took; 0 if it is not known."""
    total = sum(_machine_rate(counters, window, node, kind) for kind in (*BUSY, *IDLE))
    return 100 * _machine_rate(counters, window, node, "steal") / total if total > 0 else 0.0


def _machine_rate(counters: Counters, window: tuple[int, int], node: str, kind: str) -> float:
    """Rate of a machine counter; 0 if there is none."""
    series = counters.get(node, "watch", "machine", f"{kind}_ns")
    rate = series.rate(*window) if series is not None else 0.0
    return rate if math.isfinite(rate) else 0.0


def nics_of_lab(lab: dict[str, Any], changed: Iterable[Link] = ()) -> list[Nic]:
    """Node ends of the links that have a rate, from `lab.json`.

    `lab.json` describes the lab as the study defines it. `changed`: the links of the lab with the
    levels of a point, whose rates and MTUs count instead.
    """
    at_point = {link.name: (link.rate_bits_per_s, link.mtu) for link in changed}
    nics = []
    for link in lab.get("links") or []:
        if not {"node", "interface", "name"} <= link.keys():  # a trunk between switches has no node
            continue
        name = str(link["name"])
        rate, mtu = at_point.get(name, (link.get("rate_bits_per_s"), link.get("mtu")))
        if rate and mtu is not None:
            nics.append(Nic(str(link["node"]), str(link["interface"]), name, float(rate), int(mtu)))
    return nics
