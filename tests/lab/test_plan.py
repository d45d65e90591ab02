"""Plans of labs are deterministic, and impossible labs are refused with a reason."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
from hakaru.errors import UsageError
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.lab.plan import actions as planned
from hakaru.lab.plan.limits import QUEUE_MAX_BYTES, RATE_MAX_BITS_PER_S, RATE_MIN_BITS_PER_S
from hakaru.lab.plan.shape import node_queue_bytes, plan_shape, tcp_payload_bits_per_s
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

SYSCTLS = (
    ("net/ipv6/conf/all/disable_ipv6", ("1",)),
    ("net/ipv6/conf/default/disable_ipv6", ("1",)),
    ("net/ipv4/conf/all/arp_ignore", ("1",)),
    ("net/ipv4/conf/all/arp_announce", ("2",)),
    ("net/ipv4/tcp_congestion_control", ("cubic", "reno")),
    ("net/ipv4/tcp_no_metrics_save", ("1",)),
)


def plan(**fields: Any) -> LabPlan:
    return plan_lab(LabSpec.model_validate(fields))


def test_plan_of_one_host_and_an_array_has_these_actions() -> None:
    built = plan(hosts=1, host_link={"rate": "1 Gbit/s"})
    assert [(node.name, node.kind) for node in built.nodes] == [
        ("host-1", "host"),
        ("switch", "switch"),
        ("array", "array"),
    ]
    assert built.actions == (
        planned.CreateNamespace("host-1", SYSCTLS),
        planned.CreateNamespace("switch", SYSCTLS),
        planned.CreateNamespace("array", SYSCTLS),
        planned.CreateBridge("switch", "br0"),
        planned.CreateVeth("switch", "array.0", "br0", "array", "eth0"),
        planned.AddAddress("array", "eth0", "10.77.0.1", 20),
        planned.SetUp("array", "eth0"),
        planned.SetUp("switch", "array.0"),
        planned.CreateVeth("switch", "host-1.0", "br0", "host-1", "eth0"),
        planned.AddAddress("host-1", "eth0", "10.77.0.2", 20),
        planned.SetUp("host-1", "eth0"),
        planned.SetUp("switch", "host-1.0"),
        planned.SetMtu("switch", "br0", 1500),
        planned.SetMtu("array", "eth0", 1500),
        planned.SetMtu("switch", "array.0", 1500),
        planned.SetMtu("host-1", "eth0", 1500),
        planned.SetMtu("switch", "host-1.0", 1500),
        planned.SetRoute("array", "eth0", "10.77.0.0/20", "10.77.0.1"),
        planned.SetRoute("host-1", "eth0", "10.77.0.0/20", "10.77.0.2"),
        planned.Shape("host-1", "eth0", 123_049_415, 157_702, 1_514_000, 31_250),
        planned.Shape("switch", "host-1.0", 123_049_415, 157_702, 2_097_152, 31_250),
    )
    assert built.portals() == ("10.77.0.1:3260",)


def test_every_path_has_its_own_subnet_and_a_link_of_every_node() -> None:
    built = plan(hosts=["esx1", "esx2"], paths=2)
    assert built.host_names == ("esx1", "esx2")
    assert [(link.name, link.address) for link in built.links] == [
        ("array.0", "10.77.0.1"),
        ("array.1", "10.77.16.1"),
        ("esx1.0", "10.77.0.2"),
        ("esx1.1", "10.77.16.2"),
        ("esx2.0", "10.77.0.3"),
        ("esx2.1", "10.77.16.3"),
    ]
    assert built.portals(port=860) == ("10.77.0.1:860", "10.77.16.1:860")


def test_plan_can_be_restored_from_lab_json() -> None:
    built = plan(hosts=3, paths=2, host_link={"rate": "10 Gbit/s"})
    again = LabPlan.from_description(json.loads(json.dumps(built.describe())))
    assert (again.nodes, again.links) == (built.nodes, built.links)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"array": None}, "it has no array"),
        ({"hosts": 0}, "it has no host"),
        ({"hosts": -1}, "it has no host"),
        ({"hosts": []}, "it has no host"),
        ({"hosts": 257}, "257 hosts are more than 256"),
        ({"hosts": ["a", "b", "a"]}, "the name 'a' is given twice"),
        ({"hosts": ["array"]}, "the name 'array' is given twice"),
        ({"array": "switch"}, "the name 'switch' is given twice"),
        ({"hosts": ["Host"]}, "'Host' is not a valid name for a node"),
        ({"hosts": ["../etc"]}, "'../etc' is not a valid name"),
        ({"hosts": ["a-very-long-name"]}, "is not a valid name"),
        ({"paths": 0}, "0 paths"),
        ({"paths": 9}, "9 paths"),
        ({"mtu": 575}, "an MTU of 575 bytes"),
        ({"mtu": 9217}, "an MTU of 9217 bytes"),
        ({"hosts": 200, "paths": 8}, "1608 links; the switch has 1023 ports"),
        ({"host_link": {"rate": 0}}, "host_link.rate is 0 bit/s"),
        ({"array_link": {"rate": "100 Gbit/s"}}, "array_link.rate is 100 Gbit/s; it can be 10 Mbit/s to 25 Gbit/s"),
        ({"host_link": {"queue": "1 KiB"}}, "host_link.queue is 1 KiB"),
        ({"host_link": {"queue": "1 GiB"}}, "host_link.queue is 1 GiB"),
        ({"network": "10.77.0.0/29", "hosts": 8}, "too few addresses for 9 nodes on 1 paths"),
        ({"network": "10.77.0.0/30", "hosts": 1, "paths": 2}, "too few addresses"),
        ({"network": "8.8.8.0/24"}, "not a private network"),
        ({"network": "127.0.0.0/8"}, "not a private network"),
        ({"network": "10.77.0.1/16"}, "has host bits set"),
        ({"network": "lan"}, "network 'lan'"),
    ],
)
def test_impossible_lab_is_refused_with_a_remedy(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        plan(**fields)
    assert message in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"host_link": {"rate": "-1 Gbit/s"}}, "cannot be negative"),
        ({"host_link": {"rate": 1000}}, "needs a unit"),
        ({"host_link": {"speed": "1 Gbit/s"}}, "Extra inputs"),
        ({"hots": 2}, "Extra inputs"),
    ],
)
def test_invalid_lab_is_refused_by_its_schema(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        plan(**fields)


specs = st.builds(
    LabSpec,
    hosts=st.integers(1, 24),
    paths=st.integers(1, 4),
    mtu=st.sampled_from([576, 1500, 9000, 9216]),
    network=st.sampled_from(["10.77.0.0/16", "192.168.8.0/22", "172.16.0.0/12"]),
    host_link=st.fixed_dictionaries(
        {
            "rate": st.sampled_from([None, "10 Mbit/s", "100 Mbit/s", "1 Gbit/s", "25 Gbit/s"]),
            "queue": st.sampled_from(["64 KiB", "2 MiB"]),
        }
    ),
)


@given(specs)
def test_any_plan_is_the_same_twice_and_consistent(spec: LabSpec) -> None:
    built = plan_lab(spec)
    assert built == plan_lab(spec.model_copy())  # another object, so it is planned again
    addresses = [link.address for link in built.links]
    assert len(set(addresses)) == len(addresses)
    network = ipaddress.ip_network(spec.network)
    for link in built.links:
        interface = ipaddress.ip_interface(f"{link.address}/{link.prefix_length}")
        assert interface.ip in network
        assert interface.ip not in (interface.network.network_address, interface.network.broadcast_address)
        assert len(link.port) <= 15, "an interface's name"
    by_path: dict[int, set[Any]] = {}
    for link in built.links:
        subnet = ipaddress.ip_interface(f"{link.address}/{link.prefix_length}").network
        by_path.setdefault(link.path, set()).add(subnet)
    subnets = [subnet for group in by_path.values() for subnet in group]
    assert len(subnets) == spec.paths, "one subnet per path, shared by all nodes"
    assert not any(a.overlaps(b) for a in subnets for b in subnets if a is not b)


@given(specs)
def test_any_plan_creates_objects_before_it_uses_them(spec: LabSpec) -> None:
    check_order(plan_lab(spec).actions)


def check_order(actions: tuple[planned.Action, ...]) -> None:
    """Check the order of actions: nodes, interfaces (each once), then settings of interfaces."""
    nodes: set[str] = set()
    interfaces: set[tuple[str, str]] = set()
    for action in actions:
        match action:
            case planned.CreateNamespace():
                assert action.node not in nodes
                nodes.add(action.node)
            case planned.CreateBridge():
                assert action.node in nodes
                interfaces.add((action.node, action.interface))
            case planned.CreateVeth():
                assert {action.node, action.peer} <= nodes
                for node, bridge in ((action.node, action.bridge), (action.peer, action.peer_bridge)):
                    assert bridge is None or (node, bridge) in interfaces
                ends = {(action.node, action.interface), (action.peer, action.peer_interface)}
                assert not ends & interfaces
                interfaces |= ends
            case planned.SetSysctl():
                assert action.node in nodes
            case _:
                assert (action.node, action.interface) in interfaces


@given(
    st.integers(RATE_MIN_BITS_PER_S, RATE_MAX_BITS_PER_S),
    st.integers(2 * 9230, QUEUE_MAX_BYTES),
    st.sampled_from([576, 1500, 9000, 9216]),
)
def test_any_bucket_carries_full_frames_at_the_rate_of_the_wire(rate: int, queue: int, mtu: int) -> None:
    check_bucket(plan_shape("host", "eth0", rate, mtu, node_queue_bytes(mtu), queue), rate, mtu)
    check_bucket(plan_shape("switch", "host.0", rate, mtu, queue), rate, mtu)


def check_bucket(shape: planned.Shape, rate: int, mtu: int) -> None:
    frame, wire = mtu + 14, mtu + 38
    frames_per_s = shape.rate_bytes_per_s / frame
    assert frames_per_s * wire * 8 == pytest.approx(rate, rel=1e-4)
    assert frame <= shape.super_frame_bytes <= 65_536
    # A super-frame larger than the bucket would be cut into single frames, one larger than the
    # queue would never pass.
    segments = -(-shape.super_frame_bytes // (mtu - 52))
    assert shape.super_frame_bytes + segments * 66 <= shape.bucket_bytes
    assert shape.super_frame_bytes <= shape.queue_bytes


def test_gigabit_ethernet_carries_941_megabits_of_tcp_payload() -> None:
    assert tcp_payload_bits_per_s(10**9, 1500) / 1e6 == pytest.approx(941.48, abs=0.01)
    assert tcp_payload_bits_per_s(10**9, 9000) / 1e6 == pytest.approx(990.04, abs=0.01)
