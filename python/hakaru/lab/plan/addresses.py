"""Subnets of a lab: one per path, as large as its network allows, at most /20."""

from __future__ import annotations

import ipaddress

from hakaru.lab.plan.refusal import ImpossibleLabError


def plan_subnets(network: str, paths: int, nodes: int) -> list[ipaddress.IPv4Network]:
    """`paths` subnets of `network`, each with room for `nodes`. Raises ImpossibleLabError."""
    path = ("network",)
    try:
        lab_network = ipaddress.IPv4Network(network)
    except ValueError as error:
        raise ImpossibleLabError(f"network {network!r}: {error}", "use for example 10.77.0.0/16", path) from None
    if not lab_network.is_private or lab_network.is_loopback or lab_network.is_link_local:
        raise ImpossibleLabError(
            f"network {lab_network} is not a private network (RFC 1918)", "use for example 10.77.0.0/16", path
        )
    # Both the network's own address and the broadcast address are taken.
    wanted_bits = max(2, (nodes + 1).bit_length())
    path_bits = (paths - 1).bit_length()
    free_bits = 32 - lab_network.prefixlen
    if free_bits < wanted_bits + path_bits:
        raise ImpossibleLabError(
            f"network {lab_network} has too few addresses for {nodes} nodes on {paths} paths",
            f"use one of /{32 - wanted_bits - path_bits} or shorter, for example 10.77.0.0/16",
            path,
        )
    subnets = lab_network.subnets(new_prefix=32 - min(12, free_bits - path_bits))
    return [next(subnets) for _ in range(paths)]
