"""Labs with a device under test: their plans, and frames through the built devices."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hakaru.engine import contract
from hakaru.errors import EnvironmentError_, UsageError
from hakaru.guest.requirements import EMULATOR_BYTES, MEMORY_DEFAULT_BYTES, Accelerator, Facts
from hakaru.lab import sandbox
from hakaru.lab.build import Lab
from hakaru.lab.model import LabSpec
from hakaru.lab.model.device import GuestDeviceSpec
from hakaru.lab.plan import LabPlan, plan_lab
from hakaru.lab.plan import actions as planned
from hakaru.lab.plan.device import bridge_of
from hakaru.lab.plan.device_guests import ADDRESS_AGE_S, device_guests, entrances, plan_guest_fabric
from hakaru.lab.plan.refusal import ImpossibleLabError
from pydantic import ValidationError

from .conftest import User


def lab(forwards: str, **more: Any) -> dict[str, Any]:
    return {"hosts": ["generator"], "device": {"name": "device", "forwards": forwards}, **more}


def plan(fields: dict[str, Any]) -> LabPlan:
    return plan_lab(LabSpec.model_validate(fields))


def test_router_reaches_the_generator_without_arp() -> None:
    built = plan(lab("routing"))
    assert built.device is not None
    neighbours = [a for a in built.actions if isinstance(a, planned.AddNeighbour)]
    assert [(n.node, n.interface, n.address, n.mac) for n in neighbours] == [
        ("device", port.name, port.address, port.tester_mac) for port in built.device.ports
    ]
    own = [a.address for a in built.actions if isinstance(a, planned.AddAddress)]
    assert own == ["10.77.0.1", "10.77.16.1"], "the generator has no address that its kernel could answer from"


def test_description_restores_the_device() -> None:
    for forwards in ("bridge", "routing", "switch", "xdp"):
        built = plan(lab(forwards))
        restored = LabPlan.from_description(json.loads(json.dumps(built.describe())))
        assert restored.device == built.device and restored.links == built.links


@pytest.mark.parametrize("forwards", ["bridge", "routing"])
def test_ports_with_a_rate_count_every_frame_as_long_as_on_the_wire(forwards: str) -> None:
    built = plan({"hosts": 1, "device": {"forwards": forwards, "port_rate": "100 Mbit/s"}})
    limits = [action for action in built.actions if isinstance(action, planned.LimitPort)]
    assert [(limit.node, limit.interface) for limit in limits] == [("device", "left"), ("device", "right")]
    # RFC 2544, appendix B: a frame of 64 bytes with preamble and gap. The kernel does not count its
    # check sequence.
    for limit in limits:
        assert limit.rate_bytes_per_s / (64 - 4 + limit.overhead_bytes) == pytest.approx(148_810, abs=1)
    restored = LabPlan.from_description(json.loads(json.dumps(built.describe())))
    assert restored.device == built.device
    assert restored.device is not None and restored.device.port_rate_bits_per_s == 100_000_000
    assert not any(isinstance(action, planned.LimitPort) for action in plan(lab(forwards)).actions)


@pytest.mark.parametrize(
    ("device", "message", "hint"),
    [
        (
            {"forwards": "xdp", "port_rate": "1 Gbit/s"},
            "`port_rate` is given for the device `xdp`",
            "`forwards: bridge`",
        ),
        ({"forwards": "guest", "port_rate": "1 Gbit/s"}, "given for the device `guest`", "leave it out"),
        (
            {"forwards": "routing", "port_rate": "1 kbit/s"},
            "1 kbit/s; it can be 10 Mbit/s to 25 Gbit/s",
            "leave it out",
        ),
    ],
)
def test_impossible_rates_of_ports_are_refused(device: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(ImpossibleLabError) as refused:
        plan({"hosts": 1, "device": device})
    assert message in refused.value.message and hint in (refused.value.hint or "")


def test_own_switch_runs_in_the_fabric_and_needs_no_kernel_thread() -> None:
    built = plan(lab("switch"))
    assert built.fabric_node == "fabric" and built.namespaces == ("generator", "fabric")
    assert not any(isinstance(action, planned.Poll) for action in built.actions)


def test_guest_with_ports_in_its_memory_has_a_fabric_instead_of_bridges() -> None:
    nic = {"model": "vhost-user"}
    built = plan(lab("guest", mtu=9000) | {"device": {"forwards": "guest", "guest": {"nic": nic}}})
    device = built.device
    assert device is not None and device.in_memory and built.fabric_node is None
    assert not any(isinstance(action, planned.CreateBridge | planned.Poll) for action in built.actions)
    links = plan_guest_fabric(device, 9000).fabric.links
    assert [(link.a, link.b, link.mtu_bytes) for link in links] == [
        (contract.InterfaceEnd(name=name), contract.VhostUserEnd(name=f"guest-{name}", socket=f"@{name}"), 9000)
        for name in ("left", "right")
    ]
    restored = LabPlan.from_description(json.loads(json.dumps(built.describe())))
    assert restored.device == device


@pytest.mark.parametrize("parallel", [1, 3])
def test_guests_on_macvtaps_need_no_bridge(parallel: int) -> None:
    guest = {"nic": {"model": "macvtap"}, "parallel": parallel}
    built = plan(lab("guest", mtu=9000) | {"device": {"forwards": "guest", "guest": guest}})
    device = built.device
    assert device is not None and device.on_macvtaps and not device.in_memory and built.fabric_node is None
    assert not any(isinstance(action, planned.CreateBridge) for action in built.actions)
    with pytest.raises(ValueError, match="no cable for a macvtap is between two guests"):
        chain(2, model="macvtap")


def test_bridge_of_virtual_functions_is_refused() -> None:
    guest = {"nic": {"model": "igbvf"}, "forwards": "bridge"}
    with pytest.raises(ValueError, match="receives only frames for its own address"):
        plan(lab("guest") | {"device": {"forwards": "guest", "guest": guest}})


def chain(length: int, **nic: str) -> LabPlan:
    guest = {"chain": length, "nic": {"model": "virtio-net", **nic}}
    return plan(lab("guest") | {"device": {"name": "router", "forwards": "guest", "guest": guest}})


def test_guests_of_a_chain_are_neighbours_of_each_other_and_its_ends_those_of_the_tester() -> None:
    built = chain(3)
    device = built.device
    assert device is not None
    first, second, third = device_guests(device)
    assert [guest.name for guest in (first, second, third)] == ["router-1", "router-2", "router-3"]
    left, right = device.ports
    assert (first.left.mac, third.right.mac) == (left.device_mac, right.device_mac)
    assert (first.left.neighbour_mac, third.right.neighbour_mac) == (left.tester_mac, right.tester_mac)
    for before, after in ((first, second), (second, third)):
        assert (before.right.neighbour_mac, after.left.neighbour_mac) == (after.left.mac, before.right.mac)
        assert before.right.bridge == after.left.bridge
    ports = [port for guest in (first, second, third) for port in guest.ports]
    for names in ([port.mac for port in ports], [port.name for port in ports], [port.tap for port in ports]):
        assert len(set(names)) == 6
    bridges = {action.interface for action in built.actions if isinstance(action, planned.CreateBridge)}
    assert bridges == {port.bridge for port in ports} == {"br-left", "br-mid-1", "br-mid-2", "br-right"}
    assert LabPlan.from_description(json.loads(json.dumps(built.describe()))).device == device


def test_one_guest_has_the_names_of_the_device() -> None:
    device = chain(1).device
    assert device is not None
    (guest,) = device_guests(device)
    assert (guest.name, guest.place) == ("router", "device")
    assert [(port.name, port.mac, port.neighbour_mac) for port in guest.ports] == [
        (port.name, port.device_mac, port.tester_mac) for port in device.ports
    ]


def test_chain_with_ports_in_memory_has_links_between_its_guests() -> None:
    built = chain(2, model="vhost-user")
    assert built.device is not None
    assert not any(isinstance(action, planned.CreateBridge) for action in built.actions)
    links = plan_guest_fabric(built.device, 1500).fabric.links
    assert [(link.name, link.a.name, link.b.name) for link in links] == [
        ("left", "left", "guest-left"),
        ("right", "right", "guest-right"),
        ("mid-1", "guest-right-1", "guest-left-2"),
    ]


def beside(number: int, model: str = "virtio-net", **more: Any) -> LabPlan:
    guest = {"parallel": number, "nic": {"model": model}, **more}
    return plan(lab("guest") | {"device": {"name": "router", "forwards": "guest", "guest": guest}})


def test_guests_side_by_side_are_between_the_same_bridges_and_neighbours_of_the_tester() -> None:
    built = beside(3)
    device = built.device
    assert device is not None and device.ways == 3
    guests = device_guests(device)
    assert [(guest.name, guest.place) for guest in guests] == [
        (f"router-{number}", f"device/router-{number}") for number in (1, 2, 3)
    ]
    for guest in guests:
        for port, outer in zip(guest.ports, device.ports, strict=True):
            assert (port.bridge, port.neighbour_mac, port.outer) == (bridge_of(outer), outer.tester_mac, outer)
    ports = [port for guest in guests for port in guest.ports]
    for names in ([port.mac for port in ports], [port.name for port in ports], [port.tap for port in ports]):
        assert len(set(names)) == 6
    bridges = {action.interface for action in built.actions if isinstance(action, planned.CreateBridge)}
    assert bridges == {"br-left", "br-right"}
    assert set(entrances(device)) == set(ports)
    assert LabPlan.from_description(json.loads(json.dumps(built.describe()))).device == device


def test_guests_side_by_side_with_ports_in_memory_are_behind_switches_that_forget_no_address() -> None:
    device = beside(2, "vhost-user").device
    assert device is not None
    fabric = plan_guest_fabric(device, 1500).fabric
    assert [(switch.name, switch.address_age_s) for switch in fabric.switches] == [
        ("left", ADDRESS_AGE_S),
        ("right", ADDRESS_AGE_S),
    ]
    assert [(link.name, link.a.name, link.b.name) for link in fabric.links] == [
        ("left", "left", "left"),
        ("right", "right", "right"),
        ("left-1", "left", "guest-left-1"),
        ("right-1", "right", "guest-right-1"),
        ("left-2", "left", "guest-left-2"),
        ("right-2", "right", "guest-right-2"),
    ]


@pytest.mark.parametrize(
    ("guest", "problem"),
    [
        ({"parallel": 0}, "parallel"),
        ({"parallel": 9}, "parallel"),
        ({"parallel": 2, "chain": 2}, "one behind the other"),
        ({"parallel": 2, "forwards": "bridge"}, "form a loop"),
    ],
)
def test_guests_that_cannot_stand_side_by_side_are_refused(guest: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        GuestDeviceSpec.model_validate(guest)


def test_machine_without_the_memory_of_all_guests_cannot_run_them() -> None:
    facts = Facts(
        (10, 0, 2),
        frozenset({"virtio-net-pci"}),
        frozenset({"tap"}),
        Accelerator("kvm"),
        memory_bytes=3 * (MEMORY_DEFAULT_BYTES + EMULATOR_BYTES),
    )
    for shape in ("parallel", "chain"):
        assert GuestDeviceSpec.model_validate({shape: 3}).refusal(facts) is None
        refusal = GuestDeviceSpec.model_validate({shape: 4}).refusal(facts)
        assert refusal is not None
        assert (
            refusal.reason
            == "all guests of the device (4) may need 3.5 GiB of memory, but only 2.625 GiB are available"
        )
    unknown = replace(facts, memory_bytes=None)
    assert GuestDeviceSpec.model_validate({"parallel": 8}).refusal(unknown) is None


def test_interrupts_are_for_processors_that_the_guest_has() -> None:
    GuestDeviceSpec.model_validate({"cpus": 2, "pinning": {"interrupts": [0, 1]}})
    with pytest.raises(ValidationError, match="names processor 2 of a guest with 2"):
        GuestDeviceSpec.model_validate({"cpus": 2, "pinning": {"interrupts": [0, 2]}})


@pytest.mark.parametrize("length", [0, 9])
def test_chain_without_guests_or_with_too_many_is_refused(length: int) -> None:
    with pytest.raises(ValidationError, match="chain"):
        chain(length)


@pytest.mark.parametrize(
    ("nic", "problem"),
    [
        ({"model": "vhost-user", "rx_ring": 128}, "cannot have 128 descriptors"),
        ({"model": "vhost-user"}, "without the network backend `vhost-user`"),
        ({"model": "macvtap"}, "only root may open"),
    ],
)
def test_machine_that_cannot_run_the_guest_is_told_the_reason(nic: dict[str, Any], problem: str) -> None:
    netdevs = frozenset({"tap"} if "without" in problem else {"tap", "vhost-user"})
    facts = Facts(
        (10, 0, 2),
        frozenset({"virtio-net-pci"}),
        netdevs,
        Accelerator("kvm"),
        tun="no /dev/net/tun",
        macvtap="only root may open it",
    )
    refusal = GuestDeviceSpec.model_validate({"nic": nic}).refusal(facts)
    assert refusal is not None and problem in refusal.reason and refusal.hint
    complete = replace(facts, netdevs=frozenset({"vhost-user"}))
    for queues in (1, 2):
        spec = GuestDeviceSpec.model_validate({"nic": {"model": "vhost-user", "queues": queues}})
        assert spec.refusal(complete) is None, "needs no TAP"


def test_socket_of_a_guest_is_chosen_by_the_lab() -> None:
    nic = {"model": "vhost-user", "socket": "/run/switch.sock"}
    with pytest.raises(UsageError, match="`mac` and `socket` of the NIC are given"):
        plan(lab("guest") | {"device": {"forwards": "guest", "guest": {"nic": nic}}})


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"hosts": ["a", "b"]}, "2 hosts; a device has one tester"),
        ({"paths": 2}, "`paths` is given, and so is `device`"),
        ({"backend": "kernel"}, "`backend` is given"),
        ({"hosts": ["device"]}, "'device' is given twice"),
        ({"mtu": 100}, "an MTU of 100 bytes"),
        ({"network": "8.8.8.0/24"}, "not a private network"),
    ],
)
def test_impossible_labs_are_refused(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        plan(lab("bridge", **more))


def test_base_lab_that_cannot_be_built_is_left_to_its_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Lab) -> None:
        raise EnvironmentError_("the kernel refuses a program", "")

    async def enter(fields: dict[str, Any]) -> LabPlan:
        async with Lab(plan(fields)) as built:
            built.describe()
            return built.plan

    monkeypatch.setattr(Lab, "_build", refuse)
    monkeypatch.setattr(sandbox, "current", lambda: SandboxInfo())
    with pytest.raises(EnvironmentError_, match="refuses a program"):
        asyncio.run(enter({"hosts": 1}))
    left = asyncio.run(enter(lab("xdp")))
    assert left != plan(lab("xdp")), "the first point builds the lab"


class SandboxInfo:
    """A sandbox, for labs that are not built."""

    def describe(self) -> dict[str, Any]:
        return {}


def test_every_device_forwards_in_both_directions(user: User) -> None:
    kinds = ["bridge", "routing", "switch"]
    if user.name == "root":
        kinds.append("xdp")
    done = user.run("forward", *(json.dumps(lab(forwards)) for forwards in kinds))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert list(seen) == kinds
    ports = plan(lab("bridge")).device
    assert ports is not None
    for forwards, (there, back) in seen.items():
        assert [there["to"], back["to"]] == [port.tester_mac for port in reversed(ports.ports)]
        assert there["ttl"] == back["ttl"] == (63 if forwards == "routing" else 64)
        assert set(there["threads"].values()) == {forwards != "switch"}
        # A frame that passes the thread by would be forwarded within the call that sends it.
        assert forwards == "switch" or (there["polled"] > 0 and back["polled"] > 0)


def test_xdp_program_is_refused_to_an_ordinary_user_with_the_reason(user: User) -> None:
    if user.name == "root":
        pytest.skip("root may load programs")
    done = user.run("forward", json.dumps(lab("xdp")))
    assert done.returncode == 3
    assert "the kernel loads no XDP program" in done.stderr and "run as root" in done.stderr
