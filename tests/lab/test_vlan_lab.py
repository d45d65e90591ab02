"""A built lab with VLANs: routed paths work, and hosts of other VLANs are isolated."""

from __future__ import annotations

import json

from .conftest import User
from .vlan_lab import routed


def test_vlan_is_reached_only_by_its_members_and_the_router(user: User) -> None:
    done = user.run("isolated", json.dumps(routed()), timeout=240)
    assert done.returncode == 0, done.stderr
    (result,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert result["reached"] == [
        ["kvm", "10.77.10.1", "connected"],
        ["kvm", "10.77.30.1", "Network is unreachable"],
        ["other", "10.77.10.1", "Network is unreachable"],
        ["other", "10.77.30.1", "connected"],
    ]
    assert result["forced"] in ("TimeoutError", "No route to host")
    assert result["after"]["eth0.10"] == result["before"]["eth0.10"], "VLAN 10 does not receive packets of VLAN 30"
    assert result["after"]["eth0.30"] > result["before"]["eth0.30"], "VLAN 30 receives them"
    # Traffic of kvm crossed the router. Of the traffic of `other` only broadcasts left its switch.
    assert result["counters"]["switch/core"]["frames_in"] > 0
    assert result["counters"]["switch/core"]["taken"] > 0, "ARP for the router's own addresses, or who has them"
    for entity, counters in result["counters"].items():
        if entity.startswith("link/"):
            lost = sum(value for name, value in counters.items() if name.startswith("dropped_"))
            assert counters["frames_in"] == counters["frames_out"] + lost + counters["frames_now"], entity
    assert set(result["seen"]["array"]["links"]) == {"lo", "eth0.10", "eth0.30"}
