"""Labs as built: what the kernel has agrees with the plan, and links carry what was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab
from hakaru.lab.plan.actions import Shape

from .conftest import Someone
from .undisturbed import as_asked

pytestmark = pytest.mark.alone

GIGABIT = {"hosts": 2, "paths": 2, "host_link": {"rate": "1 Gbit/s"}, "array_link": {"rate": "1 Gbit/s"}}


def build(someone: Someone, fields: dict[str, Any]) -> dict[str, Any]:
    done = someone.run("build", json.dumps(fields))
    assert done.returncode == 0, done.stderr
    built: dict[str, Any] = json.loads(done.stdout)
    return built


@pytest.mark.parametrize("fields", [{}, GIGABIT, {"hosts": 3, "mtu": 9000, "array_link": {"rate": "10 Gbit/s"}}])
def test_kernel_has_what_the_plan_says(someone: Someone, fields: dict[str, Any]) -> None:
    plan = plan_lab(LabSpec.model_validate(fields))
    built = build(someone, fields)
    assert built["own_interfaces"] == ["lo"], "nothing is built outside of the nodes"
    assert set(built["nodes"]) == {node.name for node in plan.nodes}
    shapes = {(shape.node, shape.interface): shape for shape in plan.actions if isinstance(shape, Shape)}
    for node in plan.nodes:
        seen = built["nodes"][node.name]
        ends = [link.port if node.kind == "switch" else link.interface for link in plan.links_at(node.name)]
        assert set(seen["links"]) == {"lo", *ends, *(["br0"] if node.kind == "switch" else [])}
        assert all(link["up"] for link in seen["links"].values())
        assert {seen["links"][end]["mtu"] for end in ends} == {plan.links[0].mtu}
        own = [f"{link.address}/{link.prefix_length}" for link in plan.links if link.node == node.name]
        assert seen["addresses"] == ["127.0.0.1/8", *own]
        wanted = {interface: shape for (where, interface), shape in shapes.items() if where == node.name}
        assert seen["shaped"] == {
            interface: {"rate": shape.rate_bytes_per_s, "limit": shape.queue_bytes}
            for interface, shape in wanted.items()
        }
        for interface, shape in wanted.items():
            assert seen["links"][interface]["gso_max_size"] == shape.super_frame_bytes
        assert seen["sysctl"]["ipv4/tcp_congestion_control"] in ("cubic", "reno")
        assert seen["sysctl"]["ipv4/tcp_no_metrics_save"] == "1"


def measure(someone: Someone, fields: dict[str, Any]) -> dict[str, Any]:
    """A lab's link checks."""

    def build() -> list[dict[str, Any]]:
        done = someone.run("check_links", json.dumps(fields))
        assert done.returncode == 0, done.stderr
        return [json.loads(done.stdout)]

    return as_asked(build)[0]


def test_links_are_as_asked_within_one_percent(someone: Someone) -> None:
    link = {"rate": "1 Gbit/s"}
    report = measure(someone, {"hosts": 4, "host_link": link, "array_link": link})
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


def test_a_faster_link_of_the_array_is_checked_by_all_hosts_together(someone: Someone) -> None:
    fields = {"hosts": 3, "host_link": {"rate": "100 Mbit/s"}, "array_link": {"rate": "200 Mbit/s"}, "mtu": 9000}
    checks = measure(someone, fields)["lab"]["checks"]
    assert [(check["from"], check["asked_bits_per_s"]) for check in checks] == [
        ("host-1", 100_000_000),
        ("host-2", 100_000_000),
        ("host-3", 100_000_000),
        ("host-1, host-2, host-3", 200_000_000),
    ]
    assert all(check["as_asked"] for check in checks), checks


def test_every_path_of_a_host_is_checked(someone: Someone) -> None:
    checks = measure(someone, {"paths": 2, "host_link": {"rate": "200 Mbit/s"}})["lab"]["checks"]
    assert [(check["path"], check["asked_bits_per_s"]) for check in checks] == [(0, 200_000_000), (1, 200_000_000)]
    assert all(check["as_asked"] for check in checks), checks
