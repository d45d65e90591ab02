"""Is each link what was asked? Measured with the `probe` engine before the load, one host after the
other.

A probe on the array answers; a probe on each host times round trips over every path, then sends for
a moment in each direction. TCP's payload is converted to what it took on the wire by arithmetic
(full frames, IPv4, timestamps), which must be within 1 % of the rate asked: of the slowest of the
links on the way, because they are in series. Where one host alone cannot fill the way, all hosts
together check it once more.

A path that is off is measured twice more, and the attempt nearest to what was asked counts: the
question is whether the link can, not whether this machine had something else to do at that moment.

**A lab link by link** is checked as `plan.checking_plan` and `fabric_config(checking=True)` have
it: the backend, rates and delays that will be used, but queues with room for all, nothing lost,
marked, paused or shaken, and TCP as this kernel has it with large buffers. So the check measures
the links; what TCP makes of a shallow queue is the study's own question. A way that carries over 5
% less than needed (the slowest `sustained` on it; by default its rate) is refused
(EnvironmentError_) with what was measured: this machine cannot emulate it. A star is not refused,
as ever: its number gets the caveat `link_off_rate`.

About 5 s in all for up to 4 hosts on one path if all is well; a direction is measured for 0.2 to 1
s, on slow links for as long as 400 full frames take, on long ones for 60 round trips. What a point
of a study changes of its links is checked when the lab takes it on, see `variants`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import LostError
from hakaru.lab.build import Lab
from hakaru.lab.check.link_check import LinkCheck
from hakaru.lab.plan import LabPlan, Link, Trunk, checking_plan
from hakaru.lab.plan.shape import ETHERNET_HEADER_BYTES, WIRE_OVERHEAD_BYTES, replies_share_max
from hakaru.lab.plan.topology import Way, together_bits_per_s

_SECONDS_MIN, _SECONDS_MAX = 0.2, 1.0
# On a slow link a moment is too few frames to take a rate from.
_FRAMES_MIN = 400
_PROBE_SECONDS_MAX = 60.0
_ATTEMPTS_MAX = 3
_ROUND_TRIPS_TOGETHER, _ROUND_TRIPS_MIN = 20, 20
# Time of a probe beside its two directions: connecting, round trips; and room for a busy machine.
_PATIENCE_S = 15.0


@dataclass(frozen=True)
class Effort:
    """Bounds on the duration of a check: `total_s` for all directions together, `round_trips_s` for
    those of one way.

    A direction takes 0.2 s at least, longer on slow links and on long ones: `round_trips_to_fill`,
    after which TCP has filled them. A second attempt takes all the time there is for the rates.
    """

    total_s: float = 4.0
    round_trips: int = 200
    round_trips_s: float = 2.0
    round_trips_to_fill: int = 60


THOROUGH, BRIEF = Effort(), Effort(0.0, 50, 0.25, 40)


@dataclass(frozen=True)
class Round:
    """Hosts that measure at once, to an address of an array and back; what they are asked to carry,
    None: unlimited.

    `key` is the same where links are the same: the state of every link that is passed.
    """

    hosts: tuple[str, ...]
    array_link: Link
    to_array: int | None
    from_array: int | None
    rtt_us: float
    needed_to_array: int | None
    needed_from_array: int | None
    tagged: bool
    tagged_back: bool
    over: str | None
    replies: bool
    limits: tuple[str, ...]
    limits_back: tuple[str, ...]
    key: Hashable


async def check_links(
    lab: Lab, known: Mapping[Hashable, LinkCheck] | None = None, effort: Effort = THOROUGH
) -> list[LinkCheck]:
    """Measure every way of hosts to arrays, but those that are `known` by the key of their round.

    Raises as engines do, and EnvironmentError_ where the module says so.
    """
    wanted, known = lab.plan, known or {}
    rounds = rounds_of(wanted)
    left = [round_ for round_ in rounds if round_.key not in known]
    if not left or (wanted.is_star and wanted.fabric_node is None):
        measured = await _check_all(lab, left, effort)
    else:
        await lab.adjust(checking_plan(wanted))
        try:
            async with lab.fabric(checking=True):
                measured = await _check_all(lab, left, effort)
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


def rounds_of(plan: LabPlan) -> list[Round]:
    """All that is measured, in order: at each address of each array every host alone, then all
    together.

    Together only where that asks for more than one alone.
    """
    found = []
    for array in plan.array_names:
        # A lab may have very many ways; each is looked up once.
        there = {host: plan.ways(host, array) for host in plan.host_names}
        back = {host: plan.ways(array, host) for host in plan.host_names}
        for link in plan.topology.links_of(array):
            hosts = [host for host, ways in there.items() if any(way.destination == link for way in ways)]
            pairs = {host: _pair(there[host], back[host], link) for host in hosts}
            alone = [_round(plan, link, {host: pairs[host]}) for host in hosts]
            found += alone
            if len(hosts) > 1:
                every = _round(plan, link, pairs)
                # Without a limit there is nothing to compare with.
                asked = [way_.to_array for way_ in alone if way_.to_array is not None]
                if every.to_array is not None and every.to_array > max(asked, default=every.to_array):
                    found.append(every)
    return found


def _pair(there: Sequence[Way], back: Sequence[Way], link: Link) -> tuple[Way, Way]:
    """The way from a host to an address, and the way back."""
    way = next(way for way in there if way.destination == link)
    return way, next(one for one in back if (one.source, one.destination) == (link, way.source))


def _round(plan: LabPlan, link: Link, pairs: Mapping[str, tuple[Way, Way]]) -> Round:
    there, back = [pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()]
    to_array, from_array = together_bits_per_s(there), together_bits_per_s(back)
    return Round(
        tuple(pairs),
        link,
        to_array,
        from_array,
        max(one.delay_us + other.delay_us for one, other in zip(there, back, strict=True)),
        together_bits_per_s(there, needed=True),
        together_bits_per_s(back, needed=True),
        _is_tagged(there, to_array),
        _is_tagged(back, from_array),
        next((vlan.name for vlan in plan.vlans if vlan.id == link.vlan), None),
        _is_shared(there, back, {*_slowest(there, to_array), *_slowest(back, from_array)}),
        _slowest(there, to_array),
        _slowest(back, from_array),
        (tuple(pairs), tuple(link_state(plan, hop) for way in (*there, *back) for hop in way.hops)),
    )


def _is_tagged(ways: Sequence[Way], limit: int | None) -> bool:
    """Whether what holds the way to its rate is a trunk of VLANs, where each frame has a tag."""
    slow = _slowest(ways, limit)
    return any(isinstance(hop, Trunk) and hop.vlans and hop.name in slow for hop in ways[0].hops)


def _is_shared(there: Sequence[Way], back: Sequence[Way], slow: set[str]) -> bool:
    """Whether data and what acknowledges it pass a slow link in one direction: up and down the
    trunk of a router.
    """
    passed = [{direction for way in ways for direction in way.directions} for ways in (there, back)]
    return any(entity.split("/")[1] in slow for entity in passed[0] & passed[1])


def _slowest(ways: Sequence[Way], limit: int | None) -> tuple[str, ...]:
    """Links that hold one way back to what was asked; of several ways those that they have in
    common.
    """
    own = [hop for hop in ways[0].hops if isinstance(hop, Trunk) or not hop.inside]
    common = [hop for hop in own if all(hop in way.hops for way in ways)]
    if limit is None:
        return ()
    slow = [hop.name for hop in common if limit in _rates(hop)]
    return tuple(dict.fromkeys(slow)) or tuple(dict.fromkeys(hop.name for hop in common))


def _rates(hop: Link | Trunk) -> tuple[int | None, ...]:
    return (hop.rate_bits_per_s, hop.sends_bits_per_s) if isinstance(hop, Link) else (hop.rate_bits_per_s,)


def link_state(plan: LabPlan, hop: Link | Trunk) -> tuple[tuple[str, object], ...]:
    """Fields of a link that its check depends on, as (field, value)."""
    state: dict[str, object] = {
        "name": hop.name,
        "mtu": hop.mtu,
        "rate_bits_per_s": hop.rate_bits_per_s,
        "sustained_bits_per_s": hop.sustained_bits_per_s,
        "delay_us": hop.line.delay_us,
    }
    if isinstance(hop, Link):
        state["send_rate_bits_per_s"] = hop.send_rate_bits_per_s
    if plan.is_star and plan.fabric_node is None:
        # It is checked as it is used.
        state["queue_bytes"] = hop.queue_bytes
    return tuple(state.items())


def _seconds(plan: LabPlan, asked: Round, effort: Effort) -> float:
    """For one direction. Hosts that measure together take long: all must send over the same stretch
    of time.
    """
    portals = sum(len(plan.addresses(array)) for array in plan.array_names)
    directions = 2 * len(plan.host_names) * portals
    alone = len(asked.hosts) == 1
    seconds = min(_SECONDS_MAX, max(_SECONDS_MIN, effort.total_s / directions)) if alone else _SECONDS_MAX
    rates = [rate for rate in (asked.to_array, asked.from_array) if rate is not None]
    frame_bits = 8 * (asked.array_link.mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES)
    slow = max((_FRAMES_MIN * frame_bits / rate for rate in rates), default=0.0)
    return min(_PROBE_SECONDS_MAX, max(seconds, slow, effort.round_trips_to_fill * asked.rtt_us / 1e6))


async def _check_path(lab: Lab, asked: Round, portal: str, effort: Effort) -> LinkCheck:
    attempts: list[LinkCheck] = []
    while not attempts or (len(attempts) < _ATTEMPTS_MAX and not attempts[-1].as_asked):
        attempts.append(await _measure_path(lab, asked, portal, effort))
        effort = replace(THOROUGH, round_trips=effort.round_trips, round_trips_s=effort.round_trips_s)
    return replace(min(attempts, key=lambda check: abs(check.error or 0)), attempts=len(attempts))


async def _measure_path(lab: Lab, asked: Round, portal: str, effort: Effort) -> LinkCheck:
    hosts = asked.hosts
    alone = len(hosts) == 1
    seconds = _seconds(lab.plan, asked, effort)
    round_trips = effort.round_trips if alone else _ROUND_TRIPS_TOGETHER
    if asked.rtt_us > 0:
        round_trips = max(_ROUND_TRIPS_MIN, min(round_trips, int(effort.round_trips_s * 1e6 / asked.rtt_us)))
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
    # Alone the median, which a stall of this machine does not touch; of flows that share a link
    # only means add up.
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
        tagged=asked.tagged,
        tagged_back=asked.tagged_back,
        over=asked.over,
        limits=asked.limits,
        limits_back=asked.limits_back,
        replies=replies_share_max(asked.array_link.mtu) if asked.replies else 0.0,
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
