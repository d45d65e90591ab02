"""Labs with VLANs: plans, configurations of the fabric, and refusals that name the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import ImpossibleLabError, LabPlan, actions, check_adjustable, fabric_config, plan_lab

from .test_plan import check_order
from .vlan_lab import plan, routed

# A second router: a VLAN connects it with the first one, and the servers are behind it.
TWO_ROUTERS: dict[str, Any] = {
    "vlans__transit": {"id": 99, "subnet": "10.77.99.0/30"},
    "switches__core__router": {
        "interfaces": {"storage": "10.77.10.1", "transit": "10.77.99.1"},
        "routes": {"10.77.20.0/24": "10.77.99.2"},
    },
    "switches__edge__router": {
        "interfaces": {"servers": "10.77.20.1", "transit": "10.77.99.2"},
        "routes": {"0.0.0.0/0": "10.77.99.1"},
    },
    "links__uplink__vlans": ["storage", "transit"],
}


def routes(built: LabPlan) -> set[tuple[str, str, str, str | None]]:
    set_routes = [route for route in built.settings if isinstance(route, actions.SetRoute)]
    return {(route.node, route.interface, route.network, route.via) for route in set_routes}


def test_every_port_has_an_address_in_the_subnet_of_its_vlan() -> None:
    built = plan(links__kvm__address="10.77.20.77")
    check_order(built.actions)
    assert [(link.name, link.interface, link.address, link.prefix_length, link.vlan) for link in built.links] == [
        ("kvm", "eth0", "10.77.20.77", 24, 20),
        ("other", "eth0", "10.77.30.3", 24, 30),
        ("array.10", "eth0.10", "10.77.10.1", 24, 10),
        ("array.30", "eth0.30", "10.77.30.1", 24, 30),
    ]
    assert built.portals() == ("10.77.10.1:3260", "10.77.30.1:3260")
    assert built.reachable_addresses("kvm") == {"10.77.10.1"}
    assert built.reachable_addresses("other") == {"10.77.30.1"}


def test_missing_subnets_are_taken_from_the_free_part_of_the_labs_network() -> None:
    built = plan(vlans__servers={"id": 20}, vlans__backup={"id": 30}, network="10.77.0.0/16")
    assert [(vlan.name, vlan.id, vlan.subnet) for vlan in built.vlans] == [
        ("storage", 10, "10.77.10.0/24"),
        ("servers", 20, "10.77.16.0/20"),
        ("backup", 30, "10.77.32.0/20"),
    ]


def test_nodes_have_routes_via_the_router_only_to_subnets_beyond_it() -> None:
    assert routes(plan()) == {
        ("kvm", "eth0", "10.77.20.0/24", None),
        ("kvm", "eth0", "10.77.10.0/24", "10.77.20.254"),
        ("other", "eth0", "10.77.30.0/24", None),
        ("array", "eth0.10", "10.77.10.0/24", None),
        ("array", "eth0.10", "10.77.20.0/24", "10.77.10.254"),
        ("array", "eth0.30", "10.77.30.0/24", None),
    }


def test_routed_path_passes_the_trunk_to_the_router_in_both_directions() -> None:
    built = plan(links__uplink__delay="1 ms")
    (to_array,) = built.ways("kvm", "array")
    assert to_array.directions == (
        *("link/kvm/a-b", "link/uplink/a-b", "link/uplink/b-a", "link/array/a-b"),
        "link/array.10/b-a",
    )
    assert (to_array.rate_bits_per_s, to_array.delay_us) == (200_000_000, 2000)
    (bridged,) = built.ways("other", "array")
    assert bridged.directions == ("link/other/a-b", "link/array/a-b", "link/array.30/b-a")


def test_static_routes_lead_from_router_to_router() -> None:
    built = plan(**TWO_ROUTERS)
    (to_array,), (from_array,) = built.ways("kvm", "array"), built.ways("array", "kvm")
    hops = ("link/kvm/a-b", "link/uplink/a-b", "link/uplink/b-a", "link/array/a-b", "link/array.10/b-a")
    assert to_array.directions == hops
    assert from_array.directions[1:] == ("link/array/b-a", "link/uplink/a-b", "link/uplink/b-a", "link/kvm/b-a")
    assert ("array", "eth0.10", "10.77.20.0/24", "10.77.10.1") in routes(built)


def test_fabric_configuration_has_access_ports_trunks_and_routers() -> None:
    fabric = fabric_config(plan(mtu=9000), seed=1, sample_interval_ms=100).fabric
    links = {link.name: link for link in fabric.links}
    assert links["kvm"].b == contract.SwitchEnd(name="edge", vlan=20)
    assert links["uplink"].a == contract.SwitchEnd(name="edge", vlan=None, allowed=[10, 20, 30])
    assert links["array"].b == contract.SwitchEnd(name="array.eth0", vlan=None, allowed=[10, 30])
    assert links["array.30"].b == contract.SwitchEnd(name="array.eth0", vlan=30)
    assert links["array"].b_to_a.queue.bytes >= 16 << 20, "a node's end drops nothing"
    assert links["array"].a_to_b.queue.bytes == 2 << 20
    assert (links["array.10"].a_to_b.rate_bits_per_s, links["array.10"].a_to_b.pause) == (None, True)
    core = next(switch for switch in fabric.switches if switch.name == "core")
    assert core.router == contract.RouterConfig(
        interfaces=[
            contract.RouterInterface(vlan=10, address="10.77.10.254", prefix_length=24, mtu_bytes=9000),
            contract.RouterInterface(vlan=20, address="10.77.20.254", prefix_length=24, mtu_bytes=9000),
        ]
    )
    static = fabric_config(plan(**TWO_ROUTERS), seed=1, sample_interval_ms=100).fabric.switches[0].router
    assert static is not None
    assert static.routes == [contract.RouteConfig(destination="0.0.0.0", prefix_length=0, via="10.77.99.1")]


def test_configuration_without_vlans_omits_the_field_allowed() -> None:
    switch_end = contract.SwitchEnd(name="edge")
    assert "allowed" not in switch_end.model_dump()
    assert contract.SwitchEnd(name="edge", vlan=None, allowed=[10]).model_dump()["allowed"] == [10]


def test_plan_with_vlans_can_be_restored_from_lab_json() -> None:
    built = plan(**TWO_ROUTERS)
    again = LabPlan.from_description(json.loads(json.dumps(built.describe())))
    assert (again.vlans, again.links, again.switches, again.trunks) == (
        built.vlans,
        built.links,
        built.switches,
        built.trunks,
    )
    assert again.ways("kvm", "array") == built.ways("kvm", "array")


def test_built_lab_can_change_routes_but_not_addresses() -> None:
    standing = plan()
    check_adjustable(standing, plan(links__uplink__rate="1 Gbit/s", links__uplink__vlans=["servers", "storage"]))
    with pytest.raises(ImpossibleLabError, match="its links and addresses cannot change"):
        check_adjustable(standing, plan(links__other__vlan="storage"))


INTERFACES = ("switches", "core", "router", "interfaces")
REFUSALS: list[tuple[dict[str, Any], str, tuple[str | int, ...]]] = [
    ({"vlans": {}}, "`vlans` is empty", ("vlans",)),
    ({"vlans__backup__id": 10}, "VLANs 'storage' and 'backup' both have the id 10", ("vlans", "backup", "id")),
    ({"vlans__backup__subnet": "10.77.8.0/21"}, "the subnets of VLANs 'storage'", ("vlans", "backup", "subnet")),
    ({"vlans__backup__subnet": "10.77.30.1/24"}, "has host bits set", ("vlans", "backup", "subnet")),
    ({"vlans__backup__subnet": "8.8.8.0/24"}, "is not a private network", ("vlans", "backup", "subnet")),
    ({"vlans__backup__subnet": "10.77.30.0/31"}, "with room for two nodes", ("vlans", "backup", "subnet")),
    ({"links__kvm__vlan": "server"}, "there is no VLAN 'server'", ("links", "kvm", "vlan")),
    ({"links__uplink__vlans": ["storage", "x"]}, "there is no VLAN 'x'", ("links", "uplink", "vlans", 1)),
    ({"links__uplink__vlans": ["storage"] * 2}, "carries 'storage' twice", ("links", "uplink", "vlans", 1)),
    ({"links__uplink__vlans": []}, "link 'uplink' is a trunk without VLANs", ("links", "uplink", "vlans")),
    ({"links__uplink__vlans": None}, "link 'uplink' is a trunk without VLANs", ("links", "uplink")),
    ({"links__kvm__vlan": None}, "link 'kvm' is in no VLAN", ("links", "kvm")),
    ({"links__array__vlan": "storage"}, "has both `vlan` and `vlans`", ("links", "array", "vlans")),
    ({"links__array__send_rate": "1 Mbit/s"}, "on a trunk share the link's rate", ("links", "array")),
    (
        {"links__kvm__address": "10.77.10.7"},
        "'kvm' has the address 10.77.10.7, which is outside of the subnet of VLAN 'servers', 10.77.20.0/24",
        ("links", "kvm", "address"),
    ),
    ({"links__kvm__address": "10.77.20.255"}, "outside of the subnet", ("links", "kvm", "address")),
    ({"links__kvm__address": "ten"}, "Expected 4 octets", ("links", "kvm", "address")),
    ({"links__array__address": "10.77.10.7"}, "carries several VLANs", ("links", "array", "address")),
    (
        {"links__array__address": {"servers": "10.77.20.7"}},
        "has an address in VLAN 'servers', but is in storage, backup",
        ("links", "array", "address", "servers"),
    ),
    ({"links__uplink__address": "10.77.20.7"}, "joins two switches", ("links", "uplink", "address")),
    (
        {"links__other__address": "10.77.30.9", "links__array__address": {"backup": "10.77.30.9"}},
        "'other' and 'array' both have the address 10.77.30.9",
        ("links", "array", "address", "backup"),
    ),
    ({"links__more": {"between": ["kvm", "core"], "vlan": "servers"}}, "two links in VLAN", ("links", "more")),
    (
        {"switches__core__router": None},
        "host 'kvm' cannot reach array 'array': no switch routes between VLAN servers (20) and storage (10)",
        ("links",),
    ),
    ({"links__uplink__vlans": ["storage", "backup"]}, "routes VLAN 'servers', but none of its links", INTERFACES),
    (
        {"links__other__vlan": "servers", "links__array__vlans": ["backup"]},
        "neither an interface in VLAN backup (30) nor a route",
        ("links",),
    ),
    ({"switches__core__router__interfaces": ["storage", "x"]}, "there is no VLAN 'x'", (*INTERFACES, 1)),
    (
        {"switches__core__router__interfaces": {"storage": "10.77.20.1"}},
        "'core' has the address 10.77.20.1, which is outside of the subnet of VLAN 'storage'",
        (*INTERFACES, "storage"),
    ),
    (
        {"switches__core__router__routes": {"10.99.0.0/16": "10.98.0.1"}},
        "10.98.0.1, which is in none of its subnets",
        ("switches", "core", "router", "routes", "10.99.0.0/16"),
    ),
    (
        {"switches__core__router__routes": {"10.99.0.0/16": "10.77.20.2"}},
        "10.77.20.2, which is no router's address",
        ("switches", "core", "router", "routes", "10.99.0.0/16"),
    ),
    (
        {"switches__core__router__routes": {"10.99.0.0": "here"}},
        "route to '10.99.0.0' via 'here'",
        ("switches", "core", "router", "routes", "10.99.0.0"),
    ),
    (
        {**TWO_ROUTERS, "switches__edge__router__routes": {"10.77.10.0/24": "10.77.99.1"}}
        | {"switches__core__router__interfaces": {"transit": "10.77.99.1"}}
        | {"switches__core__router__routes": {"0.0.0.0/0": "10.77.99.2"}},
        "form a loop: edge → core → edge",
        ("links",),
    ),
    (
        {"links__more": {"between": ["edge", "third"], "vlans": ["backup"]}, "switches__third": {}}
        | {"links__loop": {"between": ["third", "core"], "vlans": ["storage"]}},
        "link 'loop' closes a loop",
        ("links", "loop"),
    ),
    ({"vlans": None}, "links.kvm.vlan: the lab has no `vlans`", ("links", "kvm", "vlan")),
    ({"backend": "kernel"}, "the kernel backend cannot do vlans", ("vlans",)),
]


@pytest.mark.parametrize(("changes", "message", "path"), REFUSALS)
def test_impossible_lab_is_refused_with_its_place(
    changes: dict[str, Any], message: str, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(ImpossibleLabError) as refused:
        plan(**changes)
    assert message in refused.value.message
    assert refused.value.hint
    assert refused.value.path == path


def test_routers_need_vlans_and_vlans_need_a_linked_lab() -> None:
    fields = routed(vlans=None, links__array__vlans=None, links__uplink__vlans=None)
    for link in ("kvm", "other"):
        del fields["links"][link]["vlan"]
    with pytest.raises(ImpossibleLabError, match=r"switches.core.router: the lab has no `vlans`"):
        plan_lab(LabSpec.model_validate(fields))
    with pytest.raises(ImpossibleLabError, match="`vlans` is given, but no `links`"):
        plan_lab(LabSpec.model_validate({"vlans": {"storage": {"id": 10}}}))
