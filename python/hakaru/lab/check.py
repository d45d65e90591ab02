"""Is each link what was asked? Measured with the `probe` engine before the load, one host after the other.

A probe on the array answers; a probe on each host times round trips over every path, then sends for a moment in each
direction. TCP's payload is converted to what it took on the wire by arithmetic (full frames, IPv4, timestamps), which
must be within 1 % of the rate asked: of the slowest of the links on the way, since they are in series. Where one host
alone cannot fill the way, all hosts together check it once more.

A path that is off is measured twice more, and the attempt nearest to what was asked counts: the question is whether the
link can, not whether this machine had something else to do at that moment.

**A lab link by link** is checked as `plan.checking_plan` and `fabric_config(checking=True)` have it: the backend, rates
and delays that will be used, but queues with room for all, nothing lost, marked, paused or shaken, and TCP as this
kernel has it with large buffers. So the check measures the links; what TCP makes of a shallow queue is the study's own
question. A way that carries over 5 % less than needed (the slowest `sustained` on it; by default its rate) is refused
(EnvironmentError_) with what was measured: this machine cannot emulate it. A star is not refused, as ever: its number
gets the caveat `link_off_rate`.

About 5 s in all for up to 4 hosts on one path if all is well; a direction is measured for 0.2 to 1 s, on slow links for
as long as 400 full frames take, on long ones for 60 round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import LostError
from hakaru.lab.lab import Lab
from hakaru.lab.link_check import LinkCheck
from hakaru.lab.parts import Link
from hakaru.lab.plan import LabPlan, checking_plan
from hakaru.lab.shape import ETHERNET_HEADER_BYTES, WIRE_OVERHEAD_BYTES
from hakaru.lab.topology import together_bits_per_s

_TOTAL_S = 4.0
_SECONDS_MIN, _SECONDS_MAX = 0.2, 1.0
# On a slow link a moment is too few frames to take a rate from; on a long one TCP needs round trips to fill it.
_FRAMES_MIN, _ROUND_TRIPS_TO_FILL = 400, 60
_PROBE_SECONDS_MAX = 60.0
_ATTEMPTS_MAX = 3
_ROUND_TRIPS, _ROUND_TRIPS_TOGETHER, _ROUND_TRIPS_MIN = 200, 20, 20
_ROUND_TRIPS_S = 2.0
# What a probe takes besides its two directions: connecting, round trips; and room for a busy machine.
_PATIENCE_S = 15.0


@dataclass(frozen=True)
class _Asked:
    """What a round of hosts is asked to carry to a portal of an array, and back; None: unlimited."""

    hosts: tuple[str, ...]
    array_link: Link
    to_array: int | None
    from_array: int | None
    rtt_us: float
    needed_to_array: int | None
    needed_from_array: int | None


async def check_links(lab: Lab) -> list[LinkCheck]:
    """Measure every way of hosts to arrays. Raises as engines do, and EnvironmentError_ where the module says so."""
    if lab.plan.is_star and lab.plan.fabric_node is None:
        return await _check_all(lab)
    wanted = lab.plan
    await lab.adjust(checking_plan(wanted))
    try:
        async with lab.fabric(checking=True):
            checks = await _check_all(lab)
    finally:
        await lab.adjust(wanted)
    for check in checks:
        check.refuse_if_short(wanted.backend)
    return checks


async def _check_all(lab: Lab) -> list[LinkCheck]:
    checks = []
    for array in lab.plan.array_names:
        paths = [link for link in lab.plan.links if link.node == array]
        servers = [await lab.start_engine(array, contract.ProbeServer(listen=f"{link.address}:0")) for link in paths]
        try:
            for link, server in zip(paths, servers, strict=True):
                portal = str((await server.ready()).found["listen"])
                for asked in _rounds(lab.plan, link):
                    checks.append(await _check_path(lab, asked, portal))
        finally:
            await asyncio.gather(*(server.close() for server in servers))
    return checks


def _rounds(plan: LabPlan, array_link: Link) -> list[_Asked]:
    """Which hosts measure together: each alone, then all, if that asks for more than one alone."""
    hosts = [link.node for link in plan.links if link.path == array_link.path and link.node in plan.host_names]
    rounds = [_asked(plan, (host,), array_link) for host in hosts]
    if len(hosts) > 1:
        every = _asked(plan, tuple(hosts), array_link)
        # Without a limit there is nothing to compare with.
        alone = [one.to_array for one in rounds if one.to_array is not None]
        if every.to_array is not None and every.to_array > max(alone, default=every.to_array):
            rounds.append(every)
    return rounds


def _asked(plan: LabPlan, hosts: tuple[str, ...], array_link: Link) -> _Asked:
    ways = [
        way for host in hosts for way in plan.ways(host, array_link.node) if way.destination.name == array_link.name
    ]
    sources = [way.source for way in ways]
    return _Asked(
        hosts,
        array_link,
        together_bits_per_s(plan.trunks, sources, array_link, back=False),
        together_bits_per_s(plan.trunks, sources, array_link, back=True),
        2 * max(way.delay_us for way in ways),
        together_bits_per_s(plan.trunks, sources, array_link, back=False, needed=True),
        together_bits_per_s(plan.trunks, sources, array_link, back=True, needed=True),
    )


def _seconds(plan: LabPlan, asked: _Asked) -> float:
    """For one direction. Hosts that measure together take long: all must send over the same stretch of time."""
    portals = sum(len(plan.addresses(array)) for array in plan.array_names)
    directions = 2 * len(plan.host_names) * portals
    alone = len(asked.hosts) == 1
    seconds = min(_SECONDS_MAX, max(_SECONDS_MIN, _TOTAL_S / directions)) if alone else _SECONDS_MAX
    rates = [rate for rate in (asked.to_array, asked.from_array) if rate is not None]
    frame_bits = 8 * (asked.array_link.mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES)
    slow = max((_FRAMES_MIN * frame_bits / rate for rate in rates), default=0.0)
    return min(_PROBE_SECONDS_MAX, max(seconds, slow, _ROUND_TRIPS_TO_FILL * asked.rtt_us / 1e6))


async def _check_path(lab: Lab, asked: _Asked, portal: str) -> LinkCheck:
    attempts: list[LinkCheck] = []
    while not attempts or (len(attempts) < _ATTEMPTS_MAX and not attempts[-1].as_asked):
        attempts.append(await _measure_path(lab, asked, portal))
    return replace(min(attempts, key=lambda check: abs(check.error or 0)), attempts=len(attempts))


async def _measure_path(lab: Lab, asked: _Asked, portal: str) -> LinkCheck:
    hosts = asked.hosts
    alone = len(hosts) == 1
    seconds = _seconds(lab.plan, asked)
    round_trips = _ROUND_TRIPS if alone else _ROUND_TRIPS_TOGETHER
    if asked.rtt_us > 0:
        round_trips = max(_ROUND_TRIPS_MIN, min(round_trips, int(_ROUND_TRIPS_S * 1e6 / asked.rtt_us)))
    config = contract.ProbeClient(connect=portal, seconds=seconds, round_trips=round_trips)
    clients: list[EngineProcess] = []
    try:
        for host in hosts:
            clients.append(await lab.start_engine(host, config))
        await asyncio.gather(*(client.ready() for client in clients))
        await (clients[0].start(clock.now_ns()) if alone else gang_start(clients))
        patience = 2 * seconds + _PATIENCE_S + round_trips * asked.rtt_us / 1e6
        results = await asyncio.gather(*(client.result(patience) for client in clients))
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    # Alone the median, which a stall of this machine does not touch; of flows that share a link only means add up.
    kind = "bytes_per_s" if alone else "mean_bytes_per_s"
    wanted = [f"send_{kind}", f"receive_{kind}", "rtt_us_p50", "rtt_us_p99"]
    there, back, rtt_p50, rtt_p99 = ([_value(hosts, result, name) for result in results] for name in wanted)
    check = LinkCheck(
        hosts=hosts,
        array=asked.array_link.node,
        path=asked.array_link.path,
        mtu=asked.array_link.mtu,
        asked_bits_per_s=asked.to_array,
        to_array_payload_bits_per_s=8 * sum(there),
        from_array_payload_bits_per_s=8 * sum(back),
        rtt_us_p50=max(rtt_p50),
        rtt_us_p99=max(rtt_p99),
    )
    if lab.plan.is_star:
        return check
    return replace(
        check,
        asked_back_bits_per_s=asked.from_array,
        asked_rtt_us=asked.rtt_us,
        needed_bits_per_s=asked.needed_to_array,
        needed_back_bits_per_s=asked.needed_from_array,
    )


def _value(hosts: Sequence[str], result: contract.Result, name: str) -> float:
    if name not in result.values:
        raise LostError(
            f"the probe from {', '.join(hosts)} gave no {name}: too little arrived to take a rate from",
            "this machine may be too busy, or hakaru and its engine are not of one version",
        )
    return result.values[name]
