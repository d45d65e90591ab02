"""Labs link by link as built: on the fabric, rootless too; what is measured, what is dropped, what
can change.
"""

from __future__ import annotations

import json
import platform
import shutil
from typing import Any

import pytest
from hakaru.lab.plan.tcp import SWITCHES_2009, kernel_finds_losses_by_rack_only

from .conftest import Someone
from .linked_lab import mismatch
from .undisturbed import LABS_MAX, as_asked

pytestmark = pytest.mark.alone

# Slow enough that a busy machine carries it; a queue of four frames before the last link.
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


def lines(someone: Someone, name: str, *arguments: dict[str, Any]) -> list[dict[str, Any]]:
    texts = [json.dumps(argument) for argument in arguments]
    done = someone.run(name, *texts, timeout=180)
    # Whether links *can* carry what was asked shows only while the machine has nothing else to do.
    for _ in range(LABS_MAX - 1):
        if "this machine carries" not in done.stderr:
            break
        done = someone.run(name, *texts, timeout=180)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def counters_of(link: str, of: dict[str, Any]) -> dict[str, float]:
    counters: dict[str, float] = of["counters"][f"link/{link}"]
    return counters


def lost_of_all(of: dict[str, float]) -> float:
    return sum(value for name, value in of.items() if name.startswith("dropped_"))


def check_conserved(of: dict[str, Any]) -> None:
    """What went into a link came out of it, was dropped for a cause, or is still inside."""
    links = {entity: counters for entity, counters in of["counters"].items() if entity.startswith("link/")}
    assert len(links) == 8
    for counters in links.values():
        assert counters["frames_in"] == counters["frames_out"] + lost_of_all(counters) + counters["frames_now"]


def test_a_lab_on_the_fabric_is_as_asked_drops_where_it_is_shallow_and_takes_on_other_settings(
    someone: Someone,
) -> None:
    wanted = mismatch(**SMALL)
    other = mismatch(**{**SMALL, "links__vtl__queue": "1 MiB", "mtu": 9000, "tcp__stack": 2009, "tcp__sack": False})
    described, shallow, baselines, deep = as_asked(lambda: lines(someone, "linked", wanted, other))
    checks = described["lab"]["checks"]
    asked = [(check["from"], check["to"], check["asked_bits_per_s"]) for check in checks]
    assert asked == [("kvm-1", "primary", 200_000_000), ("kvm-1", "vtl", 20_000_000)]
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
        if entity.startswith("link/") and entity != "link/vtl/a-b" and lost_of_all(counters)
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
    """Each array has one, by a tool that is named, and none above what the link carries."""
    assert [(one["from"], one["to"]) for one in baselines] == [("kvm-1", "primary"), ("kvm-1", "vtl")]
    installed = shutil.which("iperf3") is not None
    for one, rate in zip(baselines, (200e6, 20e6), strict=True):
        assert one["tool"].startswith("iperf 3") == installed
        assert one["streams"] == (2 if installed else 1)
        for way in ("to", "from"):
            assert 0 < one[f"{way}_array_payload_bits_per_s"] < rate
    if installed:
        assert baselines[1]["to_array_retransmits"] > 0, "a queue of four frames"


def check_tcp(today: dict[str, Any], then: dict[str, Any]) -> None:
    """What was set is what the kernel has, and what it cannot undo is named."""
    assert (today["set"], today["remains"]) == ({}, [])
    assert set(then["set"]) == {f"net/ipv4/{one.name}" for one in SWITCHES_2009} | {"net/ipv4/tcp_sack"}
    assert then["found"] == {name: then["set"][name] for name in then["found"]}
    assert {*then["found"], *then["unknown_here"]} == set(then["set"])
    assert "net/ipv4/tcp_early_retrans" in then["found"]
    assert then["remains"]
    assert [route["initial_window"] for route in then["routes"]] == [2]


def test_2009_says_that_rack_stays_where_the_kernel_has_nothing_else(someone: Someone) -> None:
    (said,) = lines(someone, "begin_connection", {"tcp": {"stack": 2009}})
    stays = any("RACK" in what for what in said["tcp"]["remains"])
    assert stays == kernel_finds_losses_by_rack_only(platform.release())


@pytest.mark.parametrize(
    ("tcp", "begins"),
    [({"congestion_control": "reno"}, ["reno", 10]), ({"stack": 2009}, [None, 3])],
)
def test_connections_begin_as_the_lab_says(someone: Someone, tcp: dict[str, Any], begins: list[Any]) -> None:
    (said,) = lines(someone, "begin_connection", {"tcp": tcp})
    algorithm, window = begins
    for connection in said["connections"]:
        assert connection[1] == window
        assert connection[0] == algorithm or algorithm is None


def test_more_than_a_machine_can_carry_is_refused_with_what_it_carries(someone: Someone) -> None:
    # No machine can: a TCP window of at most 64 MiB carries 21 Gbit/s over a round trip of 26 ms.
    fields = mismatch(
        links__kvm_1__rate="25 Gbit/s",
        links__kvm_1__send_rate=None,
        links__kvm_1__delay="13 ms",
        links__primary__rate="25 Gbit/s",
    )
    done = someone.run("linked", json.dumps(fields), json.dumps(fields), timeout=180)
    assert done.returncode == 3, done.stdout
    assert "this machine carries" in done.stderr
    assert "of the 25 Gbit/s asked on the way" in done.stderr
    assert "`sustained`" in done.stderr


def test_a_kernel_without_netem_refuses_delay_with_the_way_out(someone: Someone) -> None:
    fields = mismatch(backend="kernel", switches__core={}, switches__edge={})
    done = someone.run("build", json.dumps(fields))
    if done.returncode == 0:
        pytest.skip("this kernel has netem")
    assert done.returncode == 3, done.stdout
    assert "netem" in done.stderr
    assert "backend: fabric" in done.stderr


def test_the_kernel_backend_builds_trees_of_switches(someone: Someone) -> None:
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
    (report,) = as_asked(lambda: lines(someone, "check_links", fields))
    checks = report["lab"]["checks"]
    rates = [(check["to"], check["asked_bits_per_s"], check["reverse_asked_bits_per_s"]) for check in checks]
    assert rates == [("primary", 50_000_000, 200_000_000), ("vtl", 50_000_000, 100_000_000)]
    assert all(check["as_asked"] for check in checks), checks
    assert report["lab"]["backend"]["name"] == "kernel"
