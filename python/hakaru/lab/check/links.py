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
from hakaru.lab.plan import LabPlan, Link, Trunk, checking_plan
from hakaru.lab.plan.shape import ETHERNET_HEADER_BYTES, WIRE_OVERHEAD_BYTES, replies_share_max
from hakaru.lab.plan.topology import Way, together_bits_per_s

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


@dataclass(frozen=True)
class Round:
    """Hosts that measure concurrently, to an address of an array and back, and the total rates
    asked in bits per second; None: unlimited.

    `key` holds the state of every link that is passed. Rounds with equal keys need no new check.
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


def rounds_of(plan: LabPlan) -> list[Round]:
    """All rounds, in order: for each address of each array every host alone, then all together.

    All together only if they ask for a higher rate than each of them alone.
    """
    rounds = []
    for array in plan.array_names:
        # A lab may have very many paths; each is looked up once.
        forward = {host: plan.ways(host, array) for host in plan.loading_names}
        back = {host: plan.ways(array, host) for host in plan.loading_names}
        for link in plan.topology.links_of(array):
            hosts = [host for host, ways in forward.items() if any(way.destination == link for way in ways)]
            pairs = {host: _pair(forward[host], back[host], link) for host in hosts}
            alone = [_round(plan, link, {host: pairs[host]}) for host in hosts]
            rounds += alone
            if len(hosts) > 1:
                together = _round(plan, link, pairs)
                # Without a limit there is nothing to compare with.
                rates = [round_.to_array for round_ in alone if round_.to_array is not None]
                if together.to_array is not None and together.to_array > max(rates, default=together.to_array):
                    rounds.append(together)
    return rounds


def _pair(forward: Sequence[Way], back: Sequence[Way], link: Link) -> tuple[Way, Way]:
    """The path from a host to an address, and the path back."""
    way = next(way for way in forward if way.destination == link)
    return way, next(other for other in back if (other.source, other.destination) == (link, way.source))


def _round(plan: LabPlan, link: Link, pairs: Mapping[str, tuple[Way, Way]]) -> Round:
    forward, back = [pair[0] for pair in pairs.values()], [pair[1] for pair in pairs.values()]
    to_array, from_array = together_bits_per_s(forward), together_bits_per_s(back)
    return Round(
        tuple(pairs),
        link,
        to_array,
        from_array,
        max(way.delay_us + back_way.delay_us for way, back_way in zip(forward, back, strict=True)),
        together_bits_per_s(forward, needed=True),
        together_bits_per_s(back, needed=True),
        _is_tagged(forward, to_array),
        _is_tagged(back, from_array),
        next((vlan.name for vlan in plan.vlans if vlan.id == link.vlan), None),
        _is_shared(forward, back, {*_slowest(forward, to_array), *_slowest(back, from_array)}),
        _slowest(forward, to_array),
        _slowest(back, from_array),
        (tuple(pairs), tuple(link_state(plan, hop) for way in (*forward, *back) for hop in way.hops)),
    )


def _is_tagged(ways: Sequence[Way], limit: int | None) -> bool:
    """Whether a slowest link of the path is a trunk of VLANs, on which each frame has a tag."""
    slow = _slowest(ways, limit)
    return any(isinstance(hop, Trunk) and hop.vlans and hop.name in slow for hop in ways[0].hops)


def _is_shared(forward: Sequence[Way], back: Sequence[Way], slow: set[str]) -> bool:
    """Whether data and acknowledgements pass a slow link in the same direction, as on the trunk of
    a router, which they pass up and down.
    """
    passed = [{direction for way in ways for direction in way.directions} for ways in (forward, back)]
    return any(entity.split("/")[1] in slow for entity in passed[0] & passed[1])


def _slowest(ways: Sequence[Way], limit: int | None) -> tuple[str, ...]:
    """Names of the links that limit a path to `limit`; of several paths, of their common links."""
    hops = [hop for hop in ways[0].hops if isinstance(hop, Trunk) or not hop.inside]
    common = [hop for hop in hops if all(hop in way.hops for way in ways)]
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
        # Such a lab is checked with its own queues.
        state["queue_bytes"] = hop.queue_bytes
    return tuple(state.items())


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
