"""A lab with VLANs as built: who reaches whom, by which router, and that a VLAN is closed to the
others.
"""

from __future__ import annotations

import json

from .conftest import Someone
from .vlan_lab import routed


def test_a_vlan_is_reached_by_its_own_and_by_the_router_and_by_nobody_else(someone: Someone) -> None:
    done = someone.run("isolated", json.dumps(routed()), timeout=120)
    assert done.returncode == 0, done.stderr
    (result,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert result["reached"] == [
        ["kvm", "10.77.10.1", "connected"],
        ["kvm", "10.77.30.1", "Network is unreachable"],
        ["other", "10.77.10.1", "Network is unreachable"],
        ["other", "10.77.30.1", "connected"],
    ]
    assert result["forced"] in ("TimeoutError", "No route to host")
    assert result["after"]["eth0.10"] == result["before"]["eth0.10"], "what VLAN 30 asks VLAN 10 does not hear"
    assert result["after"]["eth0.30"] > result["before"]["eth0.30"], "its own VLAN does"
    # kvm's traffic crossed the router, other's did not leave its switch but for broadcasts.
    assert result["counters"]["switch/core"]["frames_in"] > 0
    assert result["counters"]["switch/core"]["taken"] > 0, "ARP for the router's own addresses, or who has them"
    for entity, of in result["counters"].items():
        if entity.startswith("link/"):
            lost = sum(value for name, value in of.items() if name.startswith("dropped_"))
            assert of["frames_in"] == of["frames_out"] + lost + of["frames_now"], entity
    assert set(result["seen"]["array"]["links"]) == {"lo", "eth0.10", "eth0.30"}
