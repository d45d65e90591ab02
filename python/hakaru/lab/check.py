"""Is each link what was asked? Measured with the `probe` engine before the load, one host after the other.

A probe on the array answers; a probe on each host times round trips over every path, then sends for a moment in each
direction. TCP's payload is converted to what it took on the wire by arithmetic (full frames, IPv4, timestamps), which
must be within 1 % of the rate asked: of the slower of the two links on the path, since they are in series. Where the
array's links are faster than one host's, all hosts together check them once more.

A path that is off is measured twice more, and the attempt nearest to what was asked counts: the question is whether the
link can, not whether this machine had something else to do at that moment.

About 5 s in all for up to 4 hosts on one path if all is well; a direction is measured for 0.2 to 1 s,
on slow links for as long as 400 full frames take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hakaru.analysis.caveats import Caveat
from hakaru.engine import clock, contract
from hakaru.engine.process import EngineProcess, gang_start
from hakaru.errors import LostError
from hakaru.lab.lab import Lab
from hakaru.lab.parts import Link
from hakaru.lab.shape import ETHERNET_HEADER_BYTES, WIRE_OVERHEAD_BYTES, tcp_payload_bits_per_s
from hakaru.units import format_rate

TOLERANCE = 0.01
_TOTAL_S = 4.0
_SECONDS_MIN, _SECONDS_MAX = 0.2, 1.0
# On a slow link a moment is too few frames to take a rate from.
_FRAMES_MIN = 400
_ATTEMPTS_MAX = 3
_ROUND_TRIPS, _ROUND_TRIPS_TOGETHER = 200, 20
# What a probe takes besides its two directions: connecting, round trips; and room for a busy machine.
_PATIENCE_S = 15.0


@dataclass(frozen=True)
class LinkCheck:
    """A path from hosts to the array as measured. Rates are bits per second on the wire; `asked` None: unlimited."""

    hosts: tuple[str, ...]
    array: str
    path: int
    mtu: int
    asked_bits_per_s: int | None
    to_array_payload_bits_per_s: float
    from_array_payload_bits_per_s: float
    rtt_us_p50: float
    rtt_us_p99: float
    attempts: int = 1

    @property
    def to_array_bits_per_s(self) -> float:
        """Rate on the wire, hosts → array."""
        return self._on_wire(self.to_array_payload_bits_per_s)

    @property
    def from_array_bits_per_s(self) -> float:
        """Rate on the wire, array → hosts."""
        return self._on_wire(self.from_array_payload_bits_per_s)

    def _on_wire(self, payload: float) -> float:
        return payload / tcp_payload_bits_per_s(1, self.mtu)

    @property
    def error(self) -> float | None:
        """The larger relative deviation of the two directions from what was asked, signed; None if unlimited."""
        if self.asked_bits_per_s is None:
            return None
        errors = (
            measured / self.asked_bits_per_s - 1 for measured in (self.to_array_bits_per_s, self.from_array_bits_per_s)
        )
        return max(errors, key=abs)

    @property
    def as_asked(self) -> bool:
        """Within 1 %."""
        return self.error is None or abs(self.error) <= TOLERANCE

    def caveats(self) -> list[Caveat]:
        """`link_off_rate` for a path that is not as asked."""
        if self.as_asked or self.asked_bits_per_s is None:
            return []
        measured = min(self.to_array_bits_per_s, self.from_array_bits_per_s)
        if self.error is not None and self.error > 0:
            measured = max(self.to_array_bits_per_s, self.from_array_bits_per_s)
        values = {
            "link": f"{', '.join(self.hosts)} – {self.array}.{self.path}",
            "measured": f"{measured / 1e6:.1f} Mbit/s",
            "asked": format_rate(self.asked_bits_per_s),
        }
        return [Caveat("link_off_rate", values)]

    def describe(self) -> dict[str, Any]:
        """For `checks` in lab.json."""
        expected = None if self.asked_bits_per_s is None else tcp_payload_bits_per_s(self.asked_bits_per_s, self.mtu)
        return {
            "from": ", ".join(self.hosts),
            "to": self.array,
            "path": self.path,
            "asked_bits_per_s": self.asked_bits_per_s,
            "measured_bits_per_s": self.to_array_bits_per_s,
            "reverse_bits_per_s": self.from_array_bits_per_s,
            "expected_payload_bits_per_s": expected,
            "measured_payload_bits_per_s": self.to_array_payload_bits_per_s,
            "reverse_payload_bits_per_s": self.from_array_payload_bits_per_s,
            "error_percent": None if self.error is None else 100 * self.error,
            "as_asked": self.as_asked,
            "rtt_us_p50": self.rtt_us_p50,
            "rtt_us_p99": self.rtt_us_p99,
            "attempts": self.attempts,
        }


async def check_links(lab: Lab) -> list[LinkCheck]:
    """Measure every link of the lab. Raises as engines do; a link that is off is a caveat, not an error."""
    array = lab.plan.array_name
    paths = lab.plan.links_at(array)
    servers = [await lab.start_engine(array, contract.ProbeServer(listen=f"{link.address}:0")) for link in paths]
    try:
        checks = []
        for link, server in zip(paths, servers, strict=True):
            portal = str((await server.ready()).found["listen"])
            for hosts in _rounds(lab, link):
                checks.append(await _check_path(lab, hosts, link, portal))
        return checks
    finally:
        await asyncio.gather(*(server.close() for server in servers))


def _rounds(lab: Lab, array_link: Link) -> list[tuple[str, ...]]:
    """Which hosts measure together: each alone, then all, if one alone cannot fill the array's link."""
    hosts = lab.plan.host_names
    rounds: list[tuple[str, ...]] = [(host,) for host in hosts]
    host_rate = _host_link(lab, hosts[0], array_link.path).rate_bits_per_s
    array_rate = array_link.rate_bits_per_s
    if len(hosts) > 1 and host_rate is not None and array_rate is not None and array_rate > host_rate:
        rounds.append(hosts)
    return rounds


def _seconds(lab: Lab, hosts: Sequence[str], asked_bits_per_s: int | None) -> float:
    """For one direction. Hosts that measure together take long: all must send over the same stretch of time."""
    directions = 2 * len(lab.plan.host_names) * len(lab.plan.addresses(lab.plan.array_name))
    seconds = min(_SECONDS_MAX, max(_SECONDS_MIN, _TOTAL_S / directions)) if len(hosts) == 1 else _SECONDS_MAX
    if asked_bits_per_s is None:
        return seconds
    return max(
        seconds,
        _FRAMES_MIN * 8 * (lab.plan.links[0].mtu + ETHERNET_HEADER_BYTES + WIRE_OVERHEAD_BYTES) / asked_bits_per_s,
    )


def _host_link(lab: Lab, host: str, path: int) -> Link:
    return next(link for link in lab.plan.links_at(host) if link.path == path)


def _asked(lab: Lab, hosts: Sequence[str], array_link: Link) -> int | None:
    """The slowest of what is in series: the hosts' links together, the array's."""
    host_rates = [_host_link(lab, host, array_link.path).rate_bits_per_s for host in hosts]
    known = [rate for rate in host_rates if rate is not None]
    limits = [sum(known)] if len(known) == len(host_rates) else []
    if array_link.rate_bits_per_s is not None:
        limits.append(array_link.rate_bits_per_s)
    return min(limits, default=None)


async def _check_path(lab: Lab, hosts: tuple[str, ...], array_link: Link, portal: str) -> LinkCheck:
    attempts: list[LinkCheck] = []
    while not attempts or (len(attempts) < _ATTEMPTS_MAX and not attempts[-1].as_asked):
        attempts.append(await _measure_path(lab, hosts, array_link, portal))
    return replace(min(attempts, key=lambda check: abs(check.error or 0)), attempts=len(attempts))


async def _measure_path(lab: Lab, hosts: tuple[str, ...], array_link: Link, portal: str) -> LinkCheck:
    alone = len(hosts) == 1
    asked = _asked(lab, hosts, array_link)
    seconds = _seconds(lab, hosts, asked)
    round_trips = _ROUND_TRIPS if alone else _ROUND_TRIPS_TOGETHER
    config = contract.ProbeClient(connect=portal, seconds=seconds, round_trips=round_trips)
    clients: list[EngineProcess] = []
    try:
        for host in hosts:
            clients.append(await lab.start_engine(host, config))
        await asyncio.gather(*(client.ready() for client in clients))
        await (clients[0].start(clock.now_ns()) if alone else gang_start(clients))
        results = await asyncio.gather(*(client.result(2 * seconds + _PATIENCE_S) for client in clients))
    finally:
        await asyncio.gather(*(client.close() for client in clients))
    # Alone the median, which a stall of this machine does not touch; of flows that share a link only means add up.
    kind = "bytes_per_s" if alone else "mean_bytes_per_s"
    wanted = [f"send_{kind}", f"receive_{kind}", "rtt_us_p50", "rtt_us_p99"]
    there, back, rtt_p50, rtt_p99 = ([_value(hosts, result, name) for result in results] for name in wanted)
    return LinkCheck(
        hosts=hosts,
        array=array_link.node,
        path=array_link.path,
        mtu=array_link.mtu,
        asked_bits_per_s=asked,
        to_array_payload_bits_per_s=8 * sum(there),
        from_array_payload_bits_per_s=8 * sum(back),
        rtt_us_p50=max(rtt_p50),
        rtt_us_p99=max(rtt_p99),
    )


def _value(hosts: Sequence[str], result: contract.Result, name: str) -> float:
    if name not in result.values:
        raise LostError(
            f"the probe from {', '.join(hosts)} gave no {name}: too little arrived to take a rate from",
            "this machine may be too busy, or hakaru and its engine are not of one version",
        )
    return result.values[name]
