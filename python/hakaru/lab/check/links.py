"""Checks that each link carries the planned rate and delay, with the `probe` engine before the
load, one host at a time. Of a host with guests, the guests measure.

A probe on the array answers. A probe on each host times round trips over every path, then sends for
a moment in each direction. The payload of TCP is converted to bytes on the wire (full frames, IPv4,
timestamps). The result must be within 1 % of the rate asked, which is that of the slowest link of
the path, because its links are in series. Where one host alone cannot fill the path, all hosts
together check it once more.

A path that deviates is measured up to twice more, and the attempt nearest to the rate asked counts:
the question is whether the link can carry the rate, not whether this machine was busy at one time.

**A lab link by link** is checked as `plan.checking_plan` and `fabric_config(checking=True)` define
it: with the backend, rates and delays that will be used, but with large queues, without loss,
marks, pause and jitter, and with this kernel's own TCP and large buffers. The check then measures
the links; the effect of a shallow queue on TCP is the study's own question. A path that carries
over 5 % less than needed (the lowest `sustained` on it; by default its rate) is refused
(EnvironmentError_) with the measured rate, because this machine cannot emulate it. A star is not
refused; its result gets the caveat `link_off_rate`.

The check takes about 5 s for up to 4 hosts on one path if no attempt is repeated. A direction is
measured for 0.2 to 1 s, on slow links for the time of 400 full frames, on long ones for 60 round
trips. Links that a point of a study changes are checked when the lab is adjusted to it, see
`variants`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess, LateStartError, gang_start
from hakaru.errors import LostError
from hakaru.lab.build import Lab
from hakaru.lab.check.link_check import LinkCheck
from hakaru.lab.plan import LabPlan, checking_plan
from hakaru.lab.plan.rounds import Round, rounds_of
from hakaru.lab.plan.shape import ETHERNET_HEADER_BYTES, WIRE_OVERHEAD_BYTES, replies_share_max

_SECONDS_MIN, _SECONDS_MAX = 0.2, 1.0
# On a slow link, fewer frames are too few to derive a rate from.
_FRAMES_MIN = 400
_PROBE_SECONDS_MAX = 60.0
_ATTEMPTS_MAX = 3
_ROUND_TRIPS_TOGETHER, _ROUND_TRIPS_MIN = 20, 20
# Time of a probe besides its two directions, for connecting and round trips on a busy machine.
_PATIENCE_S = 15.0


@dataclass(frozen=True)
class Effort:
    """Bounds on the duration of a check: `total_s` for all directions together, `round_trips_s` for
    the round trips of one path.

    A direction takes at least 0.2 s, and longer on slow and on long links: `round_trips_to_fill`
    round trips, after which TCP has filled the link. Further attempts measure as in `THOROUGH`.
    """

    total_s: float = 4.0
    round_trips: int = 200
    round_trips_s: float = 2.0
    round_trips_to_fill: int = 60


THOROUGH, BRIEF = Effort(), Effort(0.0, 50, 0.25, 40)


async def check_links(
    lab: Lab, known: Mapping[Hashable, LinkCheck] | None = None, effort: Effort = THOROUGH
) -> list[LinkCheck]:
    """Measure every path from hosts to arrays, except those that are `known` by the key of their
    round.

    Raises as engines do, and EnvironmentError_ for a path that carries too little (see the module).
    """
    wanted, known = lab.plan, known or {}
    rounds = rounds_of(wanted)
    pending = [round_ for round_ in rounds if round_.key not in known]
    if not pending or (wanted.is_star and wanted.fabric_node is None):
        measured = await _check_all(lab, pending, effort)
    else:
        await lab.adjust(checking_plan(wanted))
        try:
            async with lab.fabric(checking=True):
                measured = await _check_all(lab, pending, effort)
        finally:
            await lab.adjust(wanted)
        for check in measured.values():
            check.refuse_if_short(wanted.backend)
    return [measured.get(round_.key) or known[round_.key] for round_ in rounds]


async def _check_all(lab: Lab, rounds: Sequence[Round], effort: Effort) -> dict[Hashable, LinkCheck]:
    checks: dict[Hashable, LinkCheck] = {}
    for link in dict.fromkeys(round_.array_link for round_ in rounds):
        server = await lab.start_engine(link.node, contract.ProbeServer(listen=f"{link.address}:0"))
        try:
            portal = str((await server.ready()).found["listen"])
            for round_ in rounds:
                if round_.array_link == link:
                    checks[round_.key] = await _check_path(lab, round_, portal, effort)
        finally:
            await server.close()
    return checks


def _seconds(plan: LabPlan, round_: Round, effort: Effort) -> float:
    """Duration of one direction. Hosts that measure together take the longest, because all must
    send during the same time.
    """
    portals = sum(len(plan.addresses(array)) for array in plan.array_names)
    directions = 2 * len(plan.loading_names) * portals
    alone = len(round_.hosts) == 1
    seconds = min(_SECONDS_MAX, max(_SECONDS_MIN, effort.total_s / directions)) if alone else _SECONDS_MAX
    rates = [rate for rate in (round_.to_array, round_.from_array) if rate is not None]
    frame_bits = 8 * (round_.array_link.mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES)
    slow = max((_FRAMES_MIN * frame_bits / rate for rate in rates), default=0.0)
    return min(_PROBE_SECONDS_MAX, max(seconds, slow, effort.round_trips_to_fill * round_.rtt_us / 1e6))


async def _check_path(lab: Lab, round_: Round, portal: str, effort: Effort) -> LinkCheck:
    attempts: list[LinkCheck] = []
    late = 0
    while not attempts or (len(attempts) < _ATTEMPTS_MAX and not attempts[-1].as_asked):
        try:
            attempts.append(await _measure_path(lab, round_, portal, effort))
        except LateStartError:
            late += 1
            if late == _ATTEMPTS_MAX:
                raise
            continue
        effort = replace(THOROUGH, round_trips=effort.round_trips, round_trips_s=effort.round_trips_s)
    return replace(min(attempts, key=lambda check: abs(check.error or 0)), attempts=len(attempts))


async def _measure_path(lab: Lab, round_: Round, portal: str, effort: Effort) -> LinkCheck:
    hosts = round_.hosts
    alone = len(hosts) == 1
    seconds = _seconds(lab.plan, round_, effort)
    round_trips = effort.round_trips if alone else _ROUND_TRIPS_TOGETHER
    if round_.rtt_us > 0:
        round_trips = max(_ROUND_TRIPS_MIN, min(round_trips, int(effort.round_trips_s * 1e6 / round_.rtt_us)))
    config = contract.ProbeClient(connect=portal, seconds=seconds, round_trips=round_trips)
    clients: list[EngineProcess] = []
    try:
        for host in hosts:
            clients.append(await lab.start_engine(host, config))
        await asyncio.gather(*(client.ready() for client in clients))
        await (clients[0].start(clock.now_ns()) if alone else gang_start(clients))
        patience = 2 * seconds + _PATIENCE_S + round_trips * round_.rtt_us / 1e6
        results = await asyncio.gather(*(client.result(patience) for client in clients))
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    # For one host the median, which a stall of this machine does not affect. For flows that share a
    # link the mean, because only means add up.
    kind = "bytes_per_s" if alone else "mean_bytes_per_s"
    names = [f"send_{kind}", f"receive_{kind}", "rtt_us_p50", "rtt_us_p99"]
    sent, received, rtt_p50, rtt_p99 = ([_value(hosts, result, name) for result in results] for name in names)
    check = LinkCheck(
        hosts=hosts,
        array=round_.array_link.node,
        path=round_.array_link.path,
        mtu=round_.array_link.mtu,
        asked_bits_per_s=round_.to_array,
        to_array_payload_bits_per_s=8 * sum(sent),
        from_array_payload_bits_per_s=8 * sum(received),
        rtt_us_p50=max(rtt_p50),
        rtt_us_p99=max(rtt_p99),
        tagged=round_.tagged,
        tagged_back=round_.tagged_back,
        over=round_.over,
        limits=round_.limits,
        limits_back=round_.limits_back,
        replies=replies_share_max(round_.array_link.mtu) if round_.replies else 0.0,
    )
    if lab.plan.is_star:
        return check
    return replace(
        check,
        asked_back_bits_per_s=round_.from_array,
        asked_rtt_us=round_.rtt_us,
        needed_bits_per_s=round_.needed_to_array,
        needed_back_bits_per_s=round_.needed_from_array,
    )


def _value(hosts: Sequence[str], result: contract.Result, name: str) -> float:
    if name not in result.values:
        raise LostError(
            f"the probe from {', '.join(hosts)} reported no {name}: too little arrived to derive a rate from",
            "this machine may be too busy, or hakaru and its engine are of different versions",
        )
    return result.values[name]
