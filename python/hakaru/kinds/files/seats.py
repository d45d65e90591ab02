"""Clients of file servers: the host of each, its server, and its part of the tools and trees. Pure.

    servers: 4, clients: 2        4 file servers, in the nodes of the lab's first 4 arrays, and 2
                                  hosts for each, of those that reach it
    with a chain                  4 file servers, in guests in the places of the last 4 hosts, whose
                                  disks are on the first 4 arrays

Hosts in the network of a server come before those that reach it through a router, and no host has
two servers. So each segment of a lab with one server and its clients stays by itself.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from hakaru.fileserver.samba import PORT
from hakaru.kinds.files.load import FilesLoad
from hakaru.lab.plan import LabPlan
from hakaru.study.variables import Problem


@dataclass(frozen=True)
class Seat:
    """The place of one client."""

    host: str
    server: str
    """Node of its file server."""
    address: str
    """Address and port of that server, in a network that the host reaches."""
    number: int
    """Number among the clients of the server, from 0."""
    place: int
    """Number among all clients, from 0."""


def server_nodes(load: FilesLoad, lab: LabPlan) -> tuple[str, ...]:
    """Nodes of the file servers: those of arrays, or with chains those of their guests."""
    if load.to.chain is not None:
        return lab.loading_names[-load.servers :]
    return lab.array_names[: load.servers]


def seats(load: FilesLoad, lab: LabPlan) -> list[Seat]:
    """Clients of a load over SMB, those of the first server first. Fewer than `load.clients` of a
    server if the lab has no more, see `problems`.
    """
    found: list[Seat] = []
    free = list(lab.loading_names)
    servers = server_nodes(load, lab)
    for server in servers:
        if server in free:
            free.remove(server)
    for server in servers:
        reached = [(host, address) for host in free if (address := _address(lab, host, server)) is not None]
        reached.sort(key=lambda pair: not _is_direct(lab, *pair))
        for number, (host, address) in enumerate(reached[: load.clients]):
            found.append(Seat(host, server, f"{address}:{PORT}", number, len(found)))
            free.remove(host)
    return found


def _address(lab: LabPlan, host: str, server: str) -> str | None:
    """Address of a server that a host reaches; None if there is none."""
    ways = lab.ways(host, server)
    return ways[0].destination.address if ways else None


def _is_direct(lab: LabPlan, host: str, address: str) -> bool:
    """Whether an address is in a network of the host's."""
    found = ipaddress.ip_address(address)
    return any(
        found in ipaddress.ip_network(f"{link.address}/{link.prefix_length}", strict=False)
        for link in lab.links
        if link.node == host
    )


def problems(load: FilesLoad, lab: LabPlan) -> Iterator[Problem]:
    """Servers and clients that the lab lacks, and tools and trees that clients cannot share."""
    if load.to.smb is None:
        hint = "use `to: {smb: {}}`, or leave it out"
        if load.servers > 1:
            message = f"{load.servers} file servers, and the tools reach their files without one"
            yield ("load", "servers"), message, hint
        if load.clients > 1:
            message = f"{load.clients} clients, and the tools reach their files without a file server"
            yield ("load", "clients"), message, hint
        return
    nodes = server_nodes(load, lab)
    if len(lab.array_names) < load.servers:
        message = f"{load.servers} file servers, and the lab has {len(lab.array_names)} arrays, whose nodes they run in"
        if load.to.chain is not None:
            message = f"{load.servers} file servers, and the lab has {len(lab.array_names)} arrays for their disks"
        yield ("load", "servers"), message, "use fewer, or list more under `lab.arrays`"
        return
    if len(nodes) < load.servers:
        message = f"{load.servers} file servers, and the lab has {len(nodes)} hosts, whose places their guests take"
        yield ("load", "servers"), message, "use fewer, or add hosts"
        return
    seated = [seat.server for seat in seats(load, lab)]
    for node in nodes:
        if (count := seated.count(node)) < load.clients:
            message = f"{count} of {load.clients} clients of file server {node}: too few hosts reach it"
            yield ("load", "clients"), message, "use fewer, or add hosts to its network"
            return
    hint = f"use a multiple of {load.clients}"
    if load.tools % load.clients:
        yield ("load", "tools"), f"{load.tools} tools cannot be divided among {load.clients} clients", hint
    if load.tree.trees % load.clients:
        message = f"{load.tree.trees} trees cannot be divided among {load.clients} clients"
        yield ("load", "tree", "trees"), message, hint


def unused_hosts(load: FilesLoad, lab: LabPlan) -> int:
    """Number of hosts that neither have tools nor a guest with a server."""
    used = {seat.host for seat in seats(load, lab)} | {*server_nodes(load, lab)}
    return sum(host not in used for host in lab.loading_names)
