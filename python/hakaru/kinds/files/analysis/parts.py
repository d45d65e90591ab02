"""Rates of each file server and each client, and fairness between the servers. Pure.

The clients of a server begin together and share its tools, so the rates of a window in which all of
them work add up to those of the server, and those of the servers to the rate of the point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hakaru.analysis.run_data import Repetition, RunData
from hakaru.kinds.files import names
from hakaru.kinds.files.load import FilesLoad
from hakaru.kinds.files.meter import BYTES
from hakaru.kinds.files.seats import seats
from hakaru.lab.plan import LabPlan

Servers = Mapping[str, Sequence[str]]
"""Node of a file server → the hosts that use it."""


def servers_of(run: RunData, load: FilesLoad) -> dict[str, list[str]]:
    """Return the file servers of a point and the hosts of each; empty if there is one of each."""
    if run.is_site or load.to.smb is None or load.servers * load.clients == 1:
        return {}
    found: dict[str, list[str]] = {}
    for seat in seats(load, LabPlan.from_description(run.lab)):
        found.setdefault(seat.server, []).append(seat.host)
    return found


def names_of(servers: Servers) -> list[str]:
    """Return all nodes with rates of their own: the servers, then the clients if they are more."""
    hosts = [host for clients in servers.values() for host in clients]
    return [*servers, *(hosts if len(hosts) > len(servers) else [])]


def values(repetition: Repetition, servers: Servers) -> dict[str, float]:
    """Return the rates of servers and clients, and the fairness, which needs two servers."""
    by_host = {host: _rates(repetition, host) for clients in servers.values() for host in clients}
    by_node = {
        server: {metric: sum(by_host[host][metric] for host in clients) for metric in names.PART_RATES}
        for server, clients in servers.items()
    }
    files = [rates[names.RATE] for rates in by_node.values()]
    by_node |= by_host
    found = {f"{metric}/{node}": by_node[node][metric] for node in names_of(servers) for metric in names.PART_RATES}
    return found | fairness(files)


def fairness(rates: Sequence[float]) -> dict[str, float]:
    """Return the fastest rate over the slowest one, and Jain's index: 1 if all are equal, 1/n if
    one of n has everything (Jain, Chiu and Hawe 1984).
    """
    if len(rates) < 2 or not all(map(math.isfinite, rates)) or not sum(rates) > 0:
        return dict.fromkeys(names.FAIRNESS, math.nan)
    index = sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))
    # A server that did nothing has no ratio, but counts in the index.
    ratio = max(rates) / min(rates) if min(rates) > 0 else math.nan
    return dict(zip(names.FAIRNESS, (ratio, index), strict=True))


def _rates(repetition: Repetition, host: str) -> dict[str, float]:
    def rate(*counters: str) -> float:
        found = [
            series.rate(*repetition.window)
            for name in counters
            for _, series in repetition.counters.select(engine="files", entity=names.ENTITY, name=name, node=host)
        ]
        return sum(found) if found else math.nan

    return {names.RATE: rate(*names.COUNTERS[names.RATE]), "mb_per_s": rate(*BYTES) / 1e6}
