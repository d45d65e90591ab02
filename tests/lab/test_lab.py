"""Built labs: the settings of the kernel match the plan, and links reach their rates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.lab.plan.actions import Shape

from .conftest import ORDINARY, User
from .undisturbed import undisturbed_lines

GIGABIT = {"hosts": 2, "paths": 2, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}}


def build(user: User, fields: dict[str, Any]) -> dict[str, Any]:
    done = user.run("build", json.dumps(fields))
    assert done.returncode == 0, done.stderr
    built: dict[str, Any] = json.loads(done.stdout)
    return built


@pytest.mark.parametrize("fields", [{}, GIGABIT, {"hosts": 3, "mtu": 9000, "array_link": {"rate": "10 Gbit/s"}}])
def test_built_lab_matches_its_plan(user: User, fields: dict[str, Any]) -> None:
    plan = plan_lab(LabSpec.model_validate(fields))
    built = build(user, fields)
    assert built["own_interfaces"] == ["lo"], "nothing is built outside the nodes"
    assert set(built["nodes"]) == {node.name for node in plan.nodes}
    shapes = {(shape.node, shape.interface): shape for shape in plan.actions if isinstance(shape, Shape)}
    for node in plan.nodes:
        node_state = built["nodes"][node.name]
        ends = [link.port if node.kind == "switch" else link.interface for link in plan.links_at(node.name)]
        assert set(node_state["links"]) == {"lo", *ends, *(["br0"] if node.kind == "switch" else [])}
        assert all(link["up"] for link in node_state["links"].values())
        assert {node_state["links"][end]["mtu"] for end in ends} == {plan.links[0].mtu}
        own = [f"{link.address}/{link.prefix_length}" for link in plan.links if link.node == node.name]
        assert node_state["addresses"] == ["127.0.0.1/8", *own]
        node_shapes = {
            interface: shape for (shaped_node, interface), shape in shapes.items() if shaped_node == node.name
        }
        assert node_state["shaped"] == {
            interface: {"rate": shape.rate_bytes_per_s, "limit": shape.queue_bytes}
            for interface, shape in node_shapes.items()
        }
        for interface, shape in node_shapes.items():
            assert node_state["links"][interface]["gso_max_size"] == shape.super_frame_bytes
        assert node_state["sysctl"]["ipv4/tcp_congestion_control"] in ("cubic", "reno")
        assert node_state["sysctl"]["ipv4/tcp_no_metrics_save"] == "1"


def measure(user: User, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the link checks of a lab."""

    def build() -> list[dict[str, Any]]:
        done = user.run("check_links", json.dumps(fields))
        assert done.returncode == 0, done.stderr
        return [json.loads(done.stdout)]

    return undisturbed_lines(build)[0]


@pytest.mark.alone
def test_links_reach_their_rates_within_one_percent(user: User) -> None:
    link = {"rate": "1 Gbit/s"}
    report = measure(user, {"hosts": 4, "host_link": link, "array_link": link})
    checks = report["lab"]["checks"]
    assert [check["from"] for check in checks] == ["host-1", "host-2", "host-3", "host-4"]
    for check in checks:
        assert check["asked_bits_per_s"] == 10**9
        assert check["expected_payload_bits_per_s"] == pytest.approx(941.48e6, rel=1e-4)
        for direction in ("measured_payload_bits_per_s", "reverse_payload_bits_per_s"):
            assert check[direction] == pytest.approx(941.48e6, rel=0.01)
        assert check["as_asked"]
        assert 1 < check["rtt_us_p50"] < 5000
        assert check["rtt_us_p50"] <= check["rtt_us_p99"]
    assert report["caveats"] == []
    if all(check["attempts"] == 1 for check in checks):
        assert report["seconds"] < 8


@pytest.mark.alone
@ORDINARY
def test_faster_link_of_the_array_is_checked_by_all_hosts_together(user: User) -> None:
    fields = {"hosts": 3, "host_link": {"rate": "100 Mbit/s"}, "array_link": {"rate": "200 Mbit/s"}, "mtu": 9000}
    checks = measure(user, fields)["lab"]["checks"]
    assert [(check["from"], check["asked_bits_per_s"]) for check in checks] == [
        ("host-1", 100_000_000),
        ("host-2", 100_000_000),
        ("host-3", 100_000_000),
        ("host-1, host-2, host-3", 200_000_000),
    ]
    assert all(check["as_asked"] for check in checks), checks


@pytest.mark.alone
@ORDINARY
def test_every_path_of_a_host_is_checked(user: User) -> None:
    checks = measure(user, {"paths": 2, "host_link": {"rate": "200 Mbit/s"}})["lab"]["checks"]
    assert [(check["path"], check["asked_bits_per_s"]) for check in checks] == [(0, 200_000_000), (1, 200_000_000)]
    assert all(check["as_asked"] for check in checks), checks
