"""Guests of a host: their interfaces, the bridge of the host, routes, and labs that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hakaru.analysis.network import hops_between
from hakaru.engine import contract
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import ImpossibleLabError, LabPlan, fabric_config, plan_lab
from hakaru.lab.plan.actions import Shape
from hakaru.lab.plan.rounds import pairs_of, rounds_of

from .linked_lab import mismatch
from .vlan_lab import routed

GUESTS = {"kvm-1": {"names": ["vm01", "vm02"], "nic_rate": "500 Mbit/s"}}


def plan(**changes: Any) -> LabPlan:
    """The plan of the linked lab with two guests on its host."""
    return plan_lab(LabSpec.model_validate(mismatch(**{"guests": GUESTS, "links__kvm_1__send_rate": None} | changes)))


def direction(built: LabPlan, link: str) -> contract.LinkConfig:
    """A link of the fabric."""
    config = fabric_config(built, seed=1, sample_interval_ms=100)
    return next(each for each in config.fabric.links if each.name == link)


def test_load_runs_in_the_guests() -> None:
    built = plan()
    assert built.loading_names == built.guest_names == ("vm01", "vm02")
    assert built.host_names == ("kvm-1",)
    assert built.namespaces == ("kvm-1", "vm01", "vm02", "fabric", "primary", "vtl")
    assert plan(guests=None).loading_names == ("kvm-1",)


def test_guest_has_a_nic_on_the_bridge_of_its_host() -> None:
    built = plan()
    nic, line = direction(built, "vm01"), direction(built, "kvm-1")
    assert (nic.a, nic.b) == (contract.InterfaceEnd(name="vm01"), contract.SwitchEnd(name="kvm-1.eth0"))
    assert (nic.a_to_b.rate_bits_per_s, nic.b_to_a.rate_bits_per_s) == (500_000_000, 500_000_000)
    assert nic.a_to_b.pause, "the bridge pauses a guest instead of dropping its frames"
    assert (line.a, line.b) == (contract.SwitchEnd(name="kvm-1.eth0"), contract.SwitchEnd(name="core"))
    assert line.a_to_b.rate_bits_per_s == 10_000_000_000
    shaped = {setting.node for setting in built.settings if isinstance(setting, Shape)}
    assert {"vm01", "vm02", "kvm-1"} <= shaped


def test_guest_without_a_rate_is_as_fast_as_the_machine() -> None:
    built = plan(guests={"kvm-1": {"names": ["vm01"]}})
    assert direction(built, "vm01").a_to_b.rate_bits_per_s is None
    assert "vm01" not in {setting.node for setting in built.settings if isinstance(setting, Shape)}


def test_path_of_a_guest_begins_with_its_nic() -> None:
    (hops,) = hops_between(plan(), "vm02", "vtl")
    assert [(hop.link, hop.source, hop.target) for hop in hops] == [
        ("vm02", "vm02", "kvm-1"),
        ("kvm-1", "kvm-1", "core"),
        ("uplink", "core", "edge"),
        ("vtl", "edge", "vtl"),
    ]
    assert [hop.rate_bits_per_s for hop in hops[:2]] == [500e6, 10e9]
    assert [hop.queue_bytes for hop in hops[:2]] == [None, None], "a node's own end drops nothing"


def test_guests_measure_the_links() -> None:
    built = plan()
    assert [round_.hosts for round_ in rounds_of(built) if round_.array_link.node == "primary"] == [
        ("vm01",),
        ("vm02",),
        ("vm01", "vm02"),
    ]
    assert pairs_of(built) == [("kvm-1", "primary"), ("kvm-1", "vtl")]


def test_guests_are_in_the_vlan_of_their_host() -> None:
    spec = routed(guests={"kvm": {"names": ["vm01"]}}, links__other__vlan="servers")
    built = plan_lab(LabSpec.model_validate(spec))
    (guest,) = built.addresses("vm01")
    assert guest.startswith("10.77.20.")
    (way,) = built.ways("vm01", "array")
    assert [hop.name for hop in way.hops[:2]] == ["vm01", "kvm"]
    assert pairs_of(built)[0] == ("kvm", "other")
    assert LabPlan.from_description(built.describe()).guest_names == ("vm01",)


@pytest.mark.parametrize(
    ("changes", "place", "message"),
    [
        ({"guests": {"kvm-9": {"names": ["vm01"]}}}, ("guests", "kvm-9"), "there is no host 'kvm-9'"),
        ({"guests": {"kvm-1": {"names": ["VM"]}}}, ("guests", "kvm-1", "names", 0), "not a valid name"),
        ({"guests": {"kvm-1": {"names": ["vtl"]}}}, ("guests", "kvm-1", "names", 0), "'vtl' is given twice"),
        ({"links__kvm_1__send_rate": "1 Gbit/s"}, ("links", "kvm-1", "send_rate"), "share this link"),
        (
            {"guests": {"kvm-1": {"names": ["vm01"], "nic_rate": "1 kbit/s"}}},
            ("guests", "kvm-1", "nic_rate"),
            "it can be 100 kbit/s",
        ),
        ({"backend": "kernel", "switches__core": {}, "switches__edge": {}}, ("guests",), "the kernel backend"),
    ],
)
def test_guests_that_cannot_exist_are_refused(
    changes: dict[str, Any], place: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(ImpossibleLabError) as refused:
        plan(**changes)
    assert refused.value.path == place
    assert message in refused.value.message
