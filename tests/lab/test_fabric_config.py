"""The configuration of the fabric engine and the kernel settings that a plan leads to."""

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
    return next(candidate for candidate in engine.fabric.links if candidate.name == name)


def test_fabric_has_the_switches_links_and_interfaces_of_the_study() -> None:
    engine = config(spin="20 us", mtu=9000)
    assert (engine.fabric.seed, engine.sample_interval_ms, engine.spin_us) == (7, 250, 20)
    assert engine.fabric.switches == [
        contract.SwitchConfig(name="core", forwarding="cut_through"),
        contract.SwitchConfig(name="edge", shared_buffer=contract.SharedBuffer(bytes=4 << 20)),
    ]
    assert [each.name for each in engine.fabric.links] == ["kvm-1", "primary", "vtl", "uplink"]
    assert {each.mtu_bytes for each in engine.fabric.links} == {9000}
    assert (link(engine, "vtl").a, link(engine, "vtl").b) == (
        contract.SwitchEnd(name="edge"),
        contract.InterfaceEnd(name="vtl"),
    ), "first and second end are those of the study"
    assert (link(engine, "kvm-1").a, link(engine, "uplink").b) == (
        contract.InterfaceEnd(name="kvm-1"),
        contract.SwitchEnd(name="edge"),
    )


def test_node_sends_at_its_own_rate_and_the_switch_at_the_rate_of_the_link() -> None:
    host_link = link(config(), "kvm-1")
    assert (host_link.a_to_b.rate_bits_per_s, host_link.b_to_a.rate_bits_per_s) == (10**9, 10**10)
    assert host_link.b_to_a.queue.bytes == 2 << 20
    for rate in (10**8, 10**9, 10**10, 25 * 10**9):
        bucket_bytes = plan_fabric_shape("kvm-1", "eth0", rate, 9000).bucket_bytes
        assert host_link.a_to_b.queue.bytes >= bucket_bytes, "the queue holds a full bucket of the node"
        assert bucket_bytes >= rate / 8 / 1000, "a timer that is 1 ms late loses nothing"
        assert bucket_bytes <= 4 << 20, "the bucket fits into a packet socket"
    vtl = link(config(), "vtl")
    assert (vtl.a_to_b.queue.bytes, vtl.a_to_b.delay_us, vtl.b_to_a.delay_us) == (64 << 10, 100, 100)


def test_pause_is_set_only_towards_ports_of_a_switch() -> None:
    engine = config(links__kvm_1__pause=True, links__uplink__pause=True, links__vtl__pause=True)
    pauses = [(each.name, each.a_to_b.pause, each.b_to_a.pause) for each in engine.fabric.links]
    assert pauses == [
        ("kvm-1", True, False),
        ("primary", False, False),
        ("vtl", False, True),
        ("uplink", True, True),
    ]


def test_impairments_of_a_link_apply_to_both_directions() -> None:
    engine = config(
        links__uplink__loss={"percent": 0.5},
        links__uplink__jitter={"exponential": "30 us"},
        links__uplink__reorder={"percent": 2, "by": "1 ms"},
        links__uplink__discipline={"mark": "30 KiB"},
    )
    for direction in (link(engine, "uplink").a_to_b, link(engine, "uplink").b_to_a):
        assert direction.loss == contract.RandomLoss(percent=0.5)
        assert direction.jitter == contract.ExponentialJitter(mean_us=30)
        assert (direction.reorder_percent, direction.reorder_us) == (2, 1000)
        assert direction.queue.discipline == contract.Mark(above_bytes=30 << 10)


def test_check_configuration_disables_losses_pause_and_short_queues() -> None:
    engine = config(
        checking=True,
        links__vtl__loss={"percent": 5},
        links__uplink__pause=True,
        links__vtl__discipline={"mark": "3 KiB"},
    )
    assert all(switch.shared_buffer is None for switch in engine.fabric.switches)
    for each in engine.fabric.links:
        for direction in (each.a_to_b, each.b_to_a):
            assert direction.queue.bytes >= 16 << 20
            assert (direction.loss, direction.pause, direction.queue.discipline) == (
                contract.NoLoss(),
                False,
                contract.TailDrop(),
            )
    assert link(engine, "vtl").a_to_b.delay_us == 100
    assert link(engine, "vtl").a_to_b.rate_bits_per_s == 10**9


def test_star_can_use_the_fabric() -> None:
    star = plan_lab(LabSpec.model_validate({"hosts": 2, "paths": 2, "backend": "fabric"}))
    engine = fabric_config(star, seed=1, sample_interval_ms=1000)
    assert [each.name for each in engine.fabric.links][:2] == ["array.0", "array.1"]
    assert star.namespaces == ("host-1", "host-2", "fabric", "array")
    check_order(star.actions)


def test_only_nodes_have_a_bucket_a_thousandth_slower_than_the_fabric() -> None:
    built = plan()
    check_order(built.actions)
    shapes = {action.node: action for action in built.actions if isinstance(action, actions.Shape)}
    assert set(shapes) == {"kvm-1", "primary", "vtl"}
    frames_per_s = shapes["kvm-1"].rate_bytes_per_s / 1514
    assert 0.998 < frames_per_s * 1538 * 8 / 10**9 < 0.9991
    assert shapes["kvm-1"].queue_bytes == 1000 * 65_536, "a sender loses nothing in its own queue"


def test_kernel_backend_puts_netem_before_the_bucket_at_both_ends() -> None:
    built = plan(
        backend="kernel",
        switches__core={},
        switches__edge={},
        links__vtl__delay="2 ms",
        links__vtl__loss={"percent": 1},
    )
    check_order(built.actions)
    impaired = [(action.node, action.interface) for action in built.actions if isinstance(action, actions.Impair)]
    assert impaired == [("vtl", "eth0"), ("edge", "vtl")]
    shapes = {(action.node, action.interface): action for action in built.actions if isinstance(action, actions.Shape)}
    assert shapes["edge", "vtl"].after_netem
    assert not shapes["core", "uplink"].after_netem
    assert shapes["core", "uplink"].rate_bytes_per_s == shapes["edge", "uplink"].rate_bytes_per_s
    assert shapes["kvm-1", "eth0"].rate_bytes_per_s == shapes["edge", "vtl"].rate_bytes_per_s, "send_rate"


def test_stack_of_2009_sets_its_sysctls_and_a_star_without_tcp_sets_none() -> None:
    built = plan(tcp__stack=2009, tcp__ecn=True, tcp__sack=False, tcp__congestion_control="reno")
    sysctls = {
        (setting.node, setting.name): setting.value
        for setting in built.settings
        if isinstance(setting, actions.SetSysctl)
    }
    assert {node for node, _ in sysctls} == {"kvm-1", "primary", "vtl"}
    assert sysctls["vtl", "net/ipv4/tcp_early_retrans"] == "0"
    assert sysctls["vtl", "net/ipv4/tcp_ecn"] == "1"
    assert sysctls["kvm-1", "net/ipv4/tcp_sack"] == "0"
    routes = [setting for setting in built.settings if isinstance(setting, actions.SetRoute)]
    assert {
        (setting.congestion_control, setting.initial_window, setting.initial_receive_window) for setting in routes
    } == {(("reno",), 3, 4)}
    star = plan_lab(LabSpec())
    assert not [setting for setting in star.settings if isinstance(setting, actions.SetSysctl)]
    assert {setting.congestion_control for setting in star.settings if isinstance(setting, actions.SetRoute)} == {()}
