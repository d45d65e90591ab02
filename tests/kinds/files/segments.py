"""Labs with several file servers and clients, link by link. A switch routes between the segments,
because every host of a lab reaches every array.
"""

from __future__ import annotations

from typing import Any

LOAD: dict[str, Any] = {"to": {"smb": {}}, "tools": 2, "servers": 2, "clients": 2}


def segments(servers: int, clients: int) -> dict[str, Any]:
    """A lab with a VLAN for each server `fs-1`, … and its clients `c-11`, `c-12`, …"""
    members = {f"fs-{s}": [f"c-{s}{c}" for c in range(1, clients + 1)] for s in range(1, servers + 1)}
    links = {
        node: {"between": [node, "switch"], "rate": "100 Mbit/s", "vlan": f"v{place}"}
        for place, (server, hosts) in enumerate(members.items())
        for node in (server, *hosts)
    }
    return {
        "hosts": [host for hosts in members.values() for host in hosts],
        "arrays": list(members),
        "switches": {"switch": {"router": {"interfaces": [f"v{place}" for place in range(servers)]}}},
        "vlans": {f"v{place}": {"id": 10 + place} for place in range(servers)},
        "links": links,
    }
