"""Built linked labs on the fabric, also rootless: rates, drops and changes of settings."""

from __future__ import annotations

import json
import platform
import shutil
from typing import Any

import pytest
from hakaru.lab.plan.tcp import SWITCHES_2009, kernel_finds_losses_by_rack_only

from .conftest import ORDINARY, User
from .linked_lab import mismatch
from .undisturbed import LABS_MAX, undisturbed_lines

# Rates that a busy machine reaches, and a queue of four frames before the last link.
SMALL: dict[str, Any] = {
    "links__kvm_1__rate": "200 Mbit/s",
    "links__kvm_1__send_rate": None,
    "links__primary__rate": "200 Mbit/s",
    "links__uplink__rate": "200 Mbit/s",
    "links__vtl__rate": "20 Mbit/s",
    "links__vtl__delay": "5 ms",
    "links__vtl__queue": "6 KiB",
    "switches__edge": {},
}


def lines(user: User, name: str, *arguments: dict[str, Any]) -> list[dict[str, Any]]:
    texts = [json.dumps(argument) for argument in arguments]
    done = user.run(name, *texts, timeout=240)
    # Links can only be measured reliably while the machine runs nothing else.
    for _ in range(LABS_MAX - 1):
        if "this machine carries" not in done.stderr:
            break
        done = user.run(name, *texts, timeout=240)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def counters_of(link: str, load: dict[str, Any]) -> dict[str, float]:
    counters: dict[str, float] = load["counters"][f"link/{link}"]
    return counters


def dropped_frames(counters: dict[str, float]) -> float:
    return sum(value for name, value in counters.items() if name.startswith("dropped_"))


def check_conserved(load: dict[str, Any]) -> None:
    """Check that each frame that entered a link left it, was dropped for a counted cause, or is
    still inside.
    """
    links = {entity: counters for entity, counters in load["counters"].items() if entity.startswith("link/")}
    assert len(links) == 8
    for counters in links.values():
        assert counters["frames_in"] == counters["frames_out"] + dropped_frames(counters) + counters["frames_now"]


@pytest.mark.alone
def test_lab_on_the_fabric_reaches_its_rates_drops_at_the_short_queue_and_takes_new_settings(
    user: User,
) -> None:
    first_spec = mismatch(**SMALL)
    second_spec = mismatch(
        **{**SMALL, "links__vtl__queue": "1 MiB", "mtu": 9000, "tcp__stack": 2009, "tcp__sack": False}
    )
    described, shallow, baselines, deep = undisturbed_lines(lambda: lines(user, "linked", first_spec, second_spec))
    checks = described["lab"]["checks"]
    asked_rates = [(check["from"], check["to"], check["asked_bits_per_s"]) for check in checks]
    assert asked_rates == [("kvm-1", "primary", 200_000_000), ("kvm-1", "vtl", 20_000_000)]
    assert all(check["as_asked"] for check in checks), checks
    assert [check["asked_rtt_us"] for check in checks] == [0, 10_000]
    assert checks[1]["rtt_us_p50"] >= 10_000, "5 ms each way"
    assert described["lab"]["backend"]["name"] == "fabric"
    (route,) = shallow["tcp"]["routes"]
    assert described["lab"]["backend"]["tcp_congestion_control"] == route["congestion_control"]
    assert "room in every queue" in described["lab"]["checked"]

    assert shallow["interfaces"] == ["kvm-1", "primary", "vtl"]
    check_conserved(shallow)
    assert counters_of("vtl/a-b", shallow)["dropped_buffer"] > 0, "TCP fills any queue"
    assert counters_of("vtl/a-b", shallow)["queue_peak_bytes_now"] <= 6 << 10
    dropped_elsewhere = [
        entity
        for entity, counters in shallow["counters"].items()
        if entity.startswith("link/") and entity != "link/vtl/a-b" and dropped_frames(counters)
    ]
    assert dropped_elsewhere == []

    check_baselines(baselines["baselines"])
    check_conserved(deep)
    frames = counters_of("kvm-1/a-b", deep)
    assert frames["bytes_in"] / frames["frames_in"] > 2000, "jumbo frames"
    ends = [("kvm-1", "eth0"), ("vtl", "eth0"), ("fabric", "vtl"), ("fabric", "kvm-1")]
    assert {deep["seen"][node]["links"][interface]["mtu"] for node, interface in ends} == {9000}
    assert {shallow["seen"][node]["links"][interface]["mtu"] for node, interface in ends} == {1500}
    check_tcp(shallow["tcp"], deep["tcp"])


def check_baselines(baselines: list[dict[str, Any]]) -> None:
    """Check that each array has a baseline below the rate of its link, and names its tool."""
    assert [(baseline["from"], baseline["to"]) for baseline in baselines] == [("kvm-1", "primary"), ("kvm-1", "vtl")]
    installed = shutil.which("iperf3") is not None
    for baseline, rate in zip(baselines, (200e6, 20e6), strict=True):
        assert baseline["tool"].startswith("iperf 3") == installed
        assert baseline["streams"] == (2 if installed else 1)
        for direction in ("forward", "back"):
            assert 0 < baseline[f"{direction}_payload_bits_per_s"] < rate
    if installed:
        assert baselines[1]["forward_retransmits"] > 0, "a queue of four frames"


def check_tcp(stack_now: dict[str, Any], stack_2009: dict[str, Any]) -> None:
    """Check that the kernel has the settings, and that settings it cannot restore are named."""
    assert (stack_now["set"], stack_now["remains"]) == ({}, [])
    assert set(stack_2009["set"]) == {f"net/ipv4/{switch.name}" for switch in SWITCHES_2009} | {"net/ipv4/tcp_sack"}
    assert stack_2009["found"] == {name: stack_2009["set"][name] for name in stack_2009["found"]}
    assert {*stack_2009["found"], *stack_2009["unknown_here"]} == set(stack_2009["set"])
    assert "net/ipv4/tcp_early_retrans" in stack_2009["found"]
    assert stack_2009["remains"]
    assert [route["initial_window"] for route in stack_2009["routes"]] == [2]


@ORDINARY
def test_stack_of_2009_reports_that_rack_remains_if_the_kernel_has_nothing_else(user: User) -> None:
    (report,) = lines(user, "begin_connection", {"tcp": {"stack": 2009}})
    stays = any("RACK" in feature for feature in report["tcp"]["remains"])
    assert stays == kernel_finds_losses_by_rack_only(platform.release())


@pytest.mark.parametrize(
    ("tcp", "expected"),
    [({"congestion_control": "reno"}, ["reno", 10]), ({"stack": 2009}, [None, 3])],
)
def test_connections_start_with_the_labs_algorithm_and_window(
    user: User, tcp: dict[str, Any], expected: list[Any]
) -> None:
    (report,) = lines(user, "begin_connection", {"tcp": tcp})
    algorithm, window = expected
    for connection in report["connections"]:
        assert connection[1] == window
        assert connection[0] == algorithm or algorithm is None


@ORDINARY
def test_rate_beyond_the_machine_is_refused_with_the_measured_rate(user: User) -> None:
    # No machine reaches the rate: a TCP window of at most 64 MiB carries 21 Gbit/s over 26 ms.
    fields = mismatch(
        links__kvm_1__rate="25 Gbit/s",
        links__kvm_1__send_rate=None,
        links__kvm_1__delay="13 ms",
        links__primary__rate="25 Gbit/s",
    )
    done = user.run("linked", json.dumps(fields), json.dumps(fields), timeout=240)
    assert done.returncode == 3, done.stdout
    assert "this machine carries" in done.stderr
    assert "of the 25 Gbit/s needed on the path" in done.stderr
    assert "`sustained`" in done.stderr


@ORDINARY
def test_kernel_without_netem_refuses_delay_with_the_remedy(user: User) -> None:
    fields = mismatch(backend="kernel", switches__core={}, switches__edge={})
    done = user.run("build", json.dumps(fields))
    if done.returncode == 0:
        pytest.skip("this kernel has netem")
    assert done.returncode == 3, done.stdout
    assert "netem" in done.stderr
    assert "backend: fabric" in done.stderr


@pytest.mark.alone
@ORDINARY
def test_kernel_backend_builds_trees_of_switches(user: User) -> None:
    fields = mismatch(
        backend="kernel",
        switches__core={},
        switches__edge={},
        links__vtl__delay=None,
        links__vtl__rate="100 Mbit/s",
        links__kvm_1__rate="200 Mbit/s",
        links__kvm_1__send_rate="50 Mbit/s",
        links__primary__rate="200 Mbit/s",
        links__uplink__rate="200 Mbit/s",
    )
    (report,) = undisturbed_lines(lambda: lines(user, "check_links", fields))
    checks = report["lab"]["checks"]
    rates = [(check["to"], check["asked_bits_per_s"], check["reverse_asked_bits_per_s"]) for check in checks]
    assert rates == [("primary", 50_000_000, 200_000_000), ("vtl", 50_000_000, 100_000_000)]
    assert all(check["as_asked"] for check in checks), checks
    assert report["lab"]["backend"]["name"] == "kernel"
