"""The fabric engine's configuration and the kernel's settings that follow from a plan."""

from __future__ import annotations

from hakaru.engine import contract
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import actions, fabric_config, plan_lab
from hakaru.lab.plan.shape import plan_fabric_shape

from .linked_lab import plan
from .test_plan import check_order


def config(checking: bool = False, **changes: object) -> contract.FabricEngineConfig:
    return fabric_config(plan(**changes), seed=7, sample_interval_ms=250, checking=checking)


def link(engine: contract.FabricEngineConfig, name: str) -> contract.LinkConfig:
    return next(one for one in engine.fabric.links if one.name == name)


def test_switches_links_and_interfaces_are_those_of_the_study() -> None:
    engine = config(spin="20 us", mtu=9000)
    assert (engine.fabric.seed, engine.sample_interval_ms, engine.spin_us) == (7, 250, 20)
    assert engine.fabric.switches == [
        contract.SwitchConfig(name="core", forwarding="cut_through"),
        contract.SwitchConfig(name="edge", shared_buffer=contract.SharedBuffer(bytes=4 << 20)),
    ]
    assert [one.name for one in engine.fabric.links] == ["kvm-1", "primary", "vtl", "uplink"]
    assert {one.mtu_bytes for one in engine.fabric.links} == {9000}
    assert (link(engine, "vtl").a, link(engine, "vtl").b) == (
        contract.SwitchEnd(name="edge"),
        contract.InterfaceEnd(name="vtl"),
    ), "first and second end are those of the study"
    assert (link(engine, "kvm-1").a, link(engine, "uplink").b) == (
        contract.InterfaceEnd(name="kvm-1"),
        contract.SwitchEnd(name="edge"),
    )


def test_a_node_sends_at_its_own_rate_and_the_switch_at_the_links() -> None:
    both = link(config(), "kvm-1")
    assert (both.a_to_b.rate_bits_per_s, both.b_to_a.rate_bits_per_s) == (10**9, 10**10)
    assert both.b_to_a.queue.bytes == 2 << 20
    for rate in (10**8, 10**9, 10**10, 25 * 10**9):
        early = plan_fabric_shape("kvm-1", "eth0", rate, 9000).bucket_bytes
        assert both.a_to_b.queue.bytes >= early, "all that the node's bucket lets pass at once"
        assert early >= rate / 8 / 1000, "a timer that is 1 ms late loses nothing"
        assert early <= 4 << 20, "a packet socket holds it"
    out = link(config(), "vtl")
    assert (out.a_to_b.queue.bytes, out.a_to_b.delay_us, out.b_to_a.delay_us) == (64 << 10, 100, 100)


def test_pause_is_where_a_switch_can_stop_somebody() -> None:
    engine = config(links__kvm_1__pause=True, links__uplink__pause=True, links__vtl__pause=True)
    ways = [(one.name, one.a_to_b.pause, one.b_to_a.pause) for one in engine.fabric.links]
    assert ways == [
        ("kvm-1", True, False),
        ("primary", False, False),
        ("vtl", False, True),
        ("uplink", True, True),
    ]


def test_what_a_line_does_it_does_both_ways() -> None:
    engine = config(
        links__uplink__loss={"percent": 0.5},
        links__uplink__jitter={"exponential": "30 us"},
        links__uplink__reorder={"percent": 2, "by": "1 ms"},
        links__uplink__discipline={"mark": "30 KiB"},
    )
    for way in (link(engine, "uplink").a_to_b, link(engine, "uplink").b_to_a):
        assert way.loss == contract.RandomLoss(percent=0.5)
        assert way.jitter == contract.ExponentialJitter(mean_us=30)
        assert (way.reorder_percent, way.reorder_us) == (2, 1000)
        assert way.queue.discipline == contract.Mark(above_bytes=30 << 10)


def test_a_check_measures_links_and_not_what_tcp_makes_of_them() -> None:
    engine = config(
        checking=True,
        links__vtl__loss={"percent": 5},
        links__uplink__pause=True,
        links__vtl__discipline={"mark": "3 KiB"},
    )
    assert all(switch.shared_buffer is None for switch in engine.fabric.switches)
    for one in engine.fabric.links:
        for way in (one.a_to_b, one.b_to_a):
            assert way.queue.bytes >= 16 << 20
            assert (way.loss, way.pause, way.queue.discipline) == (contract.NoLoss(), False, contract.TailDrop())
    assert link(engine, "vtl").a_to_b.delay_us == 100
    assert link(engine, "vtl").a_to_b.rate_bits_per_s == 10**9


def test_a_star_can_be_the_fabrics_too() -> None:
    star = plan_lab(LabSpec.model_validate({"hosts": 2, "paths": 2, "backend": "fabric"}))
    engine = fabric_config(star, seed=1, sample_interval_ms=1000)
    assert [one.name for one in engine.fabric.links][:2] == ["array.0", "array.1"]
    assert star.namespaces == ("host-1", "host-2", "fabric", "array")
    check_order(star.actions)


def test_only_nodes_have_a_bucket_and_it_is_a_thousandth_slower_than_the_fabric() -> None:
    built = plan()
    check_order(built.actions)
    shapes = {one.node: one for one in built.actions if isinstance(one, actions.Shape)}
    assert set(shapes) == {"kvm-1", "primary", "vtl"}
    frames_per_s = shapes["kvm-1"].rate_bytes_per_s / 1514
    assert 0.998 < frames_per_s * 1538 * 8 / 10**9 < 0.9991
    assert shapes["kvm-1"].queue_bytes == 1000 * 65_536, "a sender never loses in its own queue"


def test_the_kernel_delays_and_loses_by_netem_before_the_bucket_at_both_ends() -> None:
    built = plan(
        backend="kernel",
        switches__core={},
        switches__edge={},
        links__vtl__delay="2 ms",
        links__vtl__loss={"percent": 1},
    )
    check_order(built.actions)
    impaired = [(one.node, one.interface) for one in built.actions if isinstance(one, actions.Impair)]
    assert impaired == [("vtl", "eth0"), ("edge", "vtl")]
    shapes = {(one.node, one.interface): one for one in built.actions if isinstance(one, actions.Shape)}
    assert shapes["edge", "vtl"].after_netem
    assert not shapes["core", "uplink"].after_netem
    assert shapes["core", "uplink"].rate_bytes_per_s == shapes["edge", "uplink"].rate_bytes_per_s
    assert shapes["kvm-1", "eth0"].rate_bytes_per_s == shapes["edge", "vtl"].rate_bytes_per_s, "send_rate"


def test_2009_says_what_it_switches_off_and_a_star_without_tcp_is_left_alone() -> None:
    built = plan(tcp__stack=2009, tcp__ecn=True, tcp__sack=False, tcp__congestion_control="reno")
    sysctls = {(one.node, one.name): one.value for one in built.settings if isinstance(one, actions.SetSysctl)}
    assert {node for node, _ in sysctls} == {"kvm-1", "primary", "vtl"}
    assert sysctls["vtl", "net/ipv4/tcp_early_retrans"] == "0"
    assert sysctls["vtl", "net/ipv4/tcp_ecn"] == "1"
    assert sysctls["kvm-1", "net/ipv4/tcp_sack"] == "0"
    routes = [one for one in built.settings if isinstance(one, actions.SetRoute)]
    assert {(one.congestion_control, one.initial_window, one.initial_receive_window) for one in routes} == {
        (("reno",), 3, 4)
    }
    star = plan_lab(LabSpec())
    assert not [one for one in star.settings if isinstance(one, actions.SetSysctl)]
    assert {one.congestion_control for one in star.settings if isinstance(one, actions.SetRoute)} == {()}
