"""Guests in the place of the nodes with load: their plans, and the commands that set up their
network.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hakaru.errors import GuestError, UsageError
from hakaru.guest.requirements import Accelerator, Facts
from hakaru.lab.build.load_guests import watch_together
from hakaru.lab.model import LabSpec, LoadGuestSpec
from hakaru.lab.plan import LabPlan, check_adjustable, plan_lab
from hakaru.lab.plan.actions import AddAddress, SetRoute
from hakaru.lab.plan.load_guests import LoadGuest, load_guests, network_script
from pydantic import ValidationError

from .conftest import User

LINKED: dict[str, Any] = {
    "hosts": ["kvm"],
    "guests": {"kvm": {"names": ["vm01", "vm02"]}},
    "arrays": ["primary"],
    "vlans": {"servers": {"id": 10}, "storage": {"id": 20}},
    "switches": {"core": {"router": {"interfaces": ["servers", "storage"]}}},
    "links": {
        "kvm": {"between": ["kvm", "core"], "rate": "1 Gbit/s", "vlan": "servers"},
        "primary": {"between": ["primary", "core"], "rate": "1 Gbit/s", "vlan": "storage"},
    },
    "tcp": {"stack": 2009, "congestion_control": "reno"},
    "load_guest": {"cpus": 1},
}
FACTS = Facts(
    qemu=(7, 2, 0),
    devices=frozenset({"virtio-net-pci", "e1000"}),
    netdevs=frozenset({"tap", "vhost-user"}),
    accelerator=Accelerator("tcg"),
)


def plan(**fields: Any) -> LabPlan:
    return plan_lab(LabSpec.model_validate(fields))


def guest_of(built: LabPlan, node: str) -> LoadGuest:
    (guest,) = load_guests(built, [node])
    return guest


def test_guest_has_every_link_of_its_host() -> None:
    guest = guest_of(plan(hosts=2, paths=2, mtu=9000, load_guest={}), "host-2")
    assert (guest.node, guest.number) == ("host-2", 1)
    assert [(link.interface, link.address, link.mtu) for link in guest.links] == [
        ("eth0", "10.77.0.3", 9000),
        ("eth1", "10.77.16.3", 9000),
    ]
    assert (guest.links[1].tap, guest.links[1].bridge) == ("tap-eth1", "br-eth1")
    script = network_script(guest)
    assert "ip link set eth1 mtu 9000 up" in script
    assert "ip route replace 10.77.16.0/20 dev eth1 src 10.77.16.3 scope link" in script
    assert "= 11 ]" in script, "it waits for two carriers"


def test_guest_of_a_guest_node_has_its_router_and_the_tcp_of_the_lab() -> None:
    script = network_script(guest_of(plan(**LINKED), "vm02"))
    assert "echo '0' >/proc/sys/net/ipv4/tcp_recovery" in script
    (via,) = [line for line in script.splitlines() if " via " in line]
    assert "dev eth0" in via and "congctl reno initcwnd 3 initrwnd" in via
    # A route through a router needs the one to the router.
    assert script.index("scope link") < script.index(" via ")


def test_without_guests_the_load_stays_in_the_nodes() -> None:
    assert load_guests(plan(hosts=2), ["host-1"]) == ()


def test_points_may_differ_in_their_guests() -> None:
    without, with_guest = plan(hosts=2), plan(hosts=2, load_guest={"nic": {"model": "e1000"}})
    assert without != with_guest
    check_adjustable(without, with_guest)
    check_adjustable(with_guest, without)


def test_description_restores_the_guest() -> None:
    for fields in ({"hosts": 1, "load_guest": {"memory": "1 GiB", "pinning": {"vcpus": [0, 1]}}}, LINKED):
        built = plan(**fields)
        restored = LabPlan.from_description(json.loads(json.dumps(built.describe())))
        assert restored.load_guest == built.load_guest is not None
    assert "load_guest" not in plan(hosts=1).describe()


def test_device_under_test_excludes_guests_for_the_load() -> None:
    with pytest.raises(UsageError, match="no load in guests"):
        plan(hosts=["tester"], device={"name": "device", "forwards": "bridge"}, load_guest={})


def test_too_little_memory_is_refused() -> None:
    with pytest.raises(ValidationError, match="memory"):
        plan(hosts=1, load_guest={"memory": "256 MiB"})


def test_one_ethernet_address_for_all_guests_is_refused() -> None:
    with pytest.raises(ValidationError, match="each gets its own"):
        plan(hosts=2, load_guest={"nic": {"mac": "52:54:00:68:00:01"}})


def test_node_gets_its_addresses_and_routes_back() -> None:
    built = plan(**LINKED)
    guest = guest_of(built, "vm01")
    own = [action for action in built.actions if action.node == "vm01"]
    assert list(guest.node_steps(guest.links)) == [a for a in own if isinstance(a, AddAddress | SetRoute)]


def test_links_that_were_given_in_part_are_returned_and_may_be_given_again(user: User) -> None:
    done = user.run("bridge_in_part", json.dumps({"hosts": 1, "paths": 2, "load_guest": {}}))
    if "/dev/net/tun cannot be opened" in done.stderr:
        pytest.skip("this user may not open /dev/net/tun")
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "the node has no interface br-eth1" in seen["error"]
    states = seen["states"]
    assert states["before"]["masters"] == {"eth0": None, "eth1": None}
    assert len(states["before"]["addresses"]) == 3 and len(states["before"]["routes"]) == 2
    in_part = states["in part"]
    assert in_part["masters"] == {"eth0": "br-eth0", "eth1": None}
    assert len(in_part["addresses"]) == 2 and len(in_part["routes"]) == 1
    assert states["given twice"]["masters"] == {"eth0": "br-eth0", "eth1": "br-eth1"}
    assert states["given twice"]["addresses"] == ["127.0.0.1"] and states["given twice"]["routes"] == []
    for state in ("returned", "returned twice", "returned at last", "returned with a cable down"):
        assert states[state] == states["before"], state


@pytest.mark.parametrize(
    ("nic", "reason"),
    [
        ({"model": "virtio-net"}, None),
        ({"model": "e1000"}, None),
        ({"model": "vhost-user", "socket": "/run/frames"}, "moves the frames"),
        ({"model": "macvtap"}, "only a device under test"),
        ({"model": "virtio-net", "queues": 4}, "which has 2"),
    ],
)
def test_nic_that_a_lab_cannot_connect_is_refused(nic: dict[str, Any], reason: str | None) -> None:
    refusal = LoadGuestSpec.model_validate({"nic": nic}).refusal(FACTS)
    assert (refusal is None) if reason is None else (refusal is not None and reason in refusal.reason)


def test_watches_end_together_when_one_finds_a_full_pool() -> None:
    ended = []

    async def waits(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # As a request that is under way when it is cancelled.
            await asyncio.sleep(0)
            ended.append(name)

    async def fails() -> None:
        await asyncio.sleep(0)
        raise GuestError("the pool is full", "make it larger")

    async def scenario() -> None:
        with pytest.raises(GuestError, match="the pool is full"):
            await watch_together([waits("first"), fails(), waits("last")])
        assert ended == ["first", "last"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
