"""Limits of a lab, and the checks that refuse what exceeds them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hakaru.lab.plan.refusal import ImpossibleLabError, Path_
from hakaru.units import format_rate, format_size

HOSTS_MAX = 256
PATHS_MAX = 8
# A Linux bridge has 1024 ports, the first of which is not used (BR_MAX_PORTS).
SWITCH_PORTS_MAX = 1023
MTU_MIN, MTU_MAX = 576, 9216
# From the slowest Ethernet, which takes 1.2 s to drain a node's send queue, to more than any veth
# carries.
RATE_MIN_BITS_PER_S, RATE_MAX_BITS_PER_S = 10_000_000, 25_000_000_000
# The fabric keeps any rate exactly. The node in front of it is limited by the kernel's token
# bucket, which counts to 34 Gbit/s.
FABRIC_RATE_MIN_BITS_PER_S, FABRIC_RATE_MAX_BITS_PER_S = 100_000, RATE_MAX_BITS_PER_S
FABRIC_LINKS_MAX, FABRIC_SWITCHES_MAX = 256, 64
QUEUE_MAX_BYTES = 256 * 1024**2
TIME_MAX_NS = 10 * 10**9
SPIN_MAX_NS = 10**9
BUFFER_MIN_BYTES, BUFFER_MAX_BYTES = 64 * 1024, 1024**3
# Ethernet header, 802.1Q tag and check sequence: bytes of a frame in a queue beyond its packet.
FRAME_OVERHEAD_BYTES = 22
# An interface's name has 15 characters; a star's switch names its ports NODE.PATH.
_NAME = re.compile(r"[a-z][a-z0-9-]{0,12}")

Backend = Literal["fabric", "kernel"]


def check_name(name: str, kind: str, path: Path_ = ()) -> None:
    """Refuse a name that a namespace or an interface cannot have."""
    if _NAME.fullmatch(name) is None:
        raise ImpossibleLabError(
            f"{name!r} is not a valid name for {kind}",
            "use 1 to 13 lower-case letters, digits and hyphens, starting with a letter",
            path,
        )


def check_unique(names: Sequence[str], hint: str) -> None:
    """Refuse a name that is given twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ImpossibleLabError(f"the name {repeated[0]!r} is given twice", hint)


def host_names(hosts: int | tuple[str, ...]) -> tuple[str, ...]:
    """Names of the hosts."""
    count = hosts if isinstance(hosts, int) else len(hosts)
    if count > HOSTS_MAX:
        raise ImpossibleLabError(f"{count} hosts are more than {HOSTS_MAX}", "let each host carry more VMs", ("hosts",))
    names = hosts if isinstance(hosts, tuple) else tuple(f"host-{number}" for number in range(1, hosts + 1))
    if not names:
        raise ImpossibleLabError("it has no host", "ask for at least one: `hosts: 1`", ("hosts",))
    return names


def check_mtu(mtu: int) -> None:
    """Refuse an MTU outside 576 to 9216 bytes."""
    if not MTU_MIN <= mtu <= MTU_MAX:
        raise ImpossibleLabError(
            f"an MTU of {mtu} bytes; it can be {MTU_MIN} to {MTU_MAX}", "use 1500, or 9000 for jumbo frames", ("mtu",)
        )


def check_rate(place: str, rate: int | None, backend: Backend, path: Path_) -> None:
    """Refuse a rate outside the limits of the backend. None is unlimited."""
    low, high = RATE_MIN_BITS_PER_S, RATE_MAX_BITS_PER_S
    if backend == "fabric":
        low, high = FABRIC_RATE_MIN_BITS_PER_S, FABRIC_RATE_MAX_BITS_PER_S
    if rate is not None and not low <= rate <= high:
        raise ImpossibleLabError(
            f"{place} is {format_rate(rate)}; it can be {format_rate(low)} to {format_rate(high)}",
            "leave it out for a link as fast as the machine",
            path,
        )


def check_queue(place: str, queue: int, mtu: int, backend: Backend, path: Path_) -> None:
    """Refuse a queue that holds less than one frame (two with the kernel backend) or more than 256
    MiB.
    """
    if backend == "kernel":
        least, frames = 2 * (mtu + 14), "two full frames"
    else:
        least, frames = mtu + FRAME_OVERHEAD_BYTES, f"one frame with an MTU of {mtu}"
    if not least <= queue <= QUEUE_MAX_BYTES:
        raise ImpossibleLabError(
            f"{place} is {format_size(queue)}; it can be {least} B ({frames}) to {format_size(QUEUE_MAX_BYTES)}",
            "2 MiB is the share of a busy port of a storage switch",
            path,
        )


def check_time(place: str, time_ns: int, path: Path_, most_ns: int = TIME_MAX_NS) -> None:
    """Refuse a time that is negative or more than `most_ns`."""
    if not 0 <= time_ns <= most_ns:
        raise ImpossibleLabError(
            f"{place} is {time_ns / 1e9:g} s; it can be 0 to {most_ns / 1e9:g} s", "use a shorter one", path
        )
