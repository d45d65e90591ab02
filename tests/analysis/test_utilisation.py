"""Utilisation of each resource."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hakaru.analysis import checks
from hakaru.analysis.counters import Counters
from hakaru.analysis.summary import mark_test_setup_limited
from hakaru.analysis.utilisation import Nic, guest_percent, nics_of_lab, of_repetition, wire_bits
from hakaru.caveats import Caveat
from hakaru.lab.model import LabSpec
from hakaru.lab.plan import plan_lab

S = 1_000_000_000


def counters(*rows: tuple[str, str, str, str, float], guests: Collection[str] = ()) -> Counters:
    """Counters from rows of node, engine, entity, name and growth over two seconds."""
    table = [
        {"node": n, "engine": e, "entity": t, "name": c, "at_ns": at, "value": v * at / (2 * S)}
        for n, e, t, c, v in rows
        for at in (0, 2 * S)
    ]
    return Counters.of_table(pa.Table.from_pylist(table), guests)


WINDOW = (0, 2 * S)


def test_busiest_drive_is_named_and_groups_are_averaged() -> None:
    busy = [("drive/0.0", 1.0), ("drive/0.1", 2.0), ("drive/1.0", 1.5)]
    used = of_repetition(counters(*[("array", "array", d, "busy_ns", s * S) for d, s in busy]), WINDOW, [])
    assert used["drives"].percent == pytest.approx(100)
    assert used["drives"].member == "drive/0.1"
    assert used["drives_average"].percent == pytest.approx(75)
    assert used["group/0"].percent == pytest.approx(75)
    assert used["group/1"].percent == pytest.approx(75)


def test_device_is_used_as_much_as_the_busiest_of_its_parts_over_the_window() -> None:
    grown = {"busy_ns": 2.0, "controller_busy_ns": 0.5, "dies_busy_ns": 0.3}
    rows = [("array", "array", "drive/0.0", name, seconds * S) for name, seconds in grown.items()]
    rows += [("array", "array", "drive/0.1", "busy_ns", 0.4 * S)]
    # The port had received for longer than it sends in the window.
    table = [
        {"node": "array", "engine": "array", "entity": "port/0", "name": name, "at_ns": at, "value": value}
        for name, values in (("busy_ns", (100 * S, 101 * S)), ("receive_busy_ns", (100 * S, 100 * S)))
        for at, value in zip((0, 2 * S), values, strict=True)
    ]
    table += [
        {"node": "array", "engine": "array", "entity": "port/0", "name": "send_busy_ns", "at_ns": at, "value": value}
        for at, value in ((0, 0), (2 * S, 1 * S))
    ]
    port = of_repetition(Counters.of_table(pa.Table.from_pylist(table)), WINDOW, [])
    assert port["port/0"].percent == pytest.approx(50)
    drives = of_repetition(counters(*rows), WINDOW, [])
    assert (drives["drives"].percent, drives["drives"].member) == (pytest.approx(25), "drive/0.0")
    assert drives["drives_average"].percent == pytest.approx(22.5)


def test_link_utilisation_is_relative_to_its_rate_and_includes_framing() -> None:
    frames = 81_274.0  # 1 Gbit/s of full frames: 1538 bytes on the wire, of which an interface counts 1514
    counted = counters(
        ("array", "watch", "nic/eth0", "tx_bytes", 2 * frames * 1514),
        ("array", "watch", "nic/eth0", "tx_packets", 2 * frames),
    )
    used = of_repetition(counted, WINDOW, [Nic("array", "eth0", "array.0", 1e9)])
    assert used["link/array.0/out"].percent == pytest.approx(100, abs=0.01)
    assert "link/array.0/in" not in used


def test_offloaded_packets_count_as_the_frames_they_become() -> None:
    frames, payload = 45, 1448
    one_by_one = wire_bits(frames * (payload + 66), frames, 1500)
    at_once = wire_bits(frames * payload + 66, 1, 1500)
    assert at_once == pytest.approx(one_by_one, rel=1e-6)


def test_processor_of_the_busiest_process_counts() -> None:
    counted = counters(
        ("host-1", "initiator", "process", "cpu_user_ns", 0.2 * S),
        ("host-1", "initiator", "process", "cpu_system_ns", 0.2 * S),
        ("host-2", "initiator", "process", "cpu_user_ns", 1.0 * S),
        ("array", "watch", "machine", "user_ns", 1.0 * S),
        ("array", "watch", "machine", "softirq_ns", 1.0 * S),
        ("array", "watch", "machine", "idle_ns", 2.0 * S),
    )
    used = of_repetition(counted, WINDOW, [])
    assert used["cpu/initiator"].percent == pytest.approx(50)
    assert used["cpu/initiator"].member == "host-2"
    assert used["cpu/machine"].percent == pytest.approx(50)


def test_busy_polling_does_not_count_as_processor_load() -> None:
    counted = counters(
        ("host-1", "initiator", "process", "cpu_user_ns", 0.6 * S),
        ("host-1", "initiator", "process", "cpu_system_ns", 0.4 * S),
        ("host-1", "initiator", "process", "busy_poll_ns", 0.3 * S),
        ("array", "array", "process", "cpu_user_ns", 0.9 * S),
        ("array", "watch", "machine", "user_ns", 1.9 * S),
        ("array", "watch", "machine", "idle_ns", 0.1 * S),
    )
    used = of_repetition(counted, WINDOW, [])
    assert used["cpu/initiator"].percent == pytest.approx(70 * used["cpu/array"].percent / 90)
    assert used["cpu/machine"].percent == pytest.approx(80)


def test_busiest_thread_counts_if_an_engine_reports_its_threads() -> None:
    def fabric(loop: float, writer: float) -> float:
        counted = counters(
            ("fabric", "fabric", "process", "cpu_user_ns", (loop + writer) * S),
            ("fabric", "fabric", "process", "cpu_system_ns", 0.1 * S),
            ("fabric", "fabric", "thread/loop", "cpu_ns", loop * S),
            ("fabric", "fabric", "thread/writer", "cpu_ns", writer * S),
        )
        use = of_repetition(counted, WINDOW, [])["cpu/fabric"]
        assert use.member == ("fabric/loop" if loop > writer else "fabric/writer")
        return use.percent

    assert fabric(1.9, 0.1) == pytest.approx(95)
    # The same total, but neither thread is at its limit.
    assert fabric(0.9, 1.1) == pytest.approx(55)


def test_unrated_links_have_no_utilisation() -> None:
    link = {"node": "a", "interface": "eth0", "name": "a.0", "rate_bits_per_s": None, "mtu": 1500}
    assert nics_of_lab({"links": [link]}) == []
    assert nics_of_lab({}) == []


def test_links_have_the_rates_of_the_point() -> None:
    lab = LabSpec.model_validate({"hosts": ["host-1"], "host_link": {"rate": "1 Gbit/s"}, "array": "array"})
    built = plan_lab(lab).describe()
    slow = plan_lab(lab.model_copy(update={"host_link": lab.host_link.model_copy(update={"rate": 10**8})})).links
    (before,), (after,) = ([nic for nic in nics_of_lab(built, links) if nic.node == "host-1"] for links in ((), slow))
    assert (before.rate_bits_per_s, after.rate_bits_per_s) == (1e9, 1e8)
    assert (before.link, before.name) == (after.link, after.name)


def of_two_machines(*busy_s: float, stolen_s: float = 0.0) -> Counters:
    """Counters of two machines with one CPU each. The second one's load polls for half a second."""
    rows = [("kvm-2", "initiator", "process", "busy_poll_ns", 0.5 * S)]
    for node, seconds in zip(("kvm-1", "kvm-2"), busy_s, strict=True):
        rows += [
            (node, "watch", "machine", "user_ns", seconds * S),
            (node, "watch", "machine", "steal_ns", stolen_s * S),
            (node, "watch", "machine", "idle_ns", (2 - seconds - stolen_s) * S),
        ]
    return counters(*rows)


def test_machines_of_several_load_hosts_are_judged_one_by_one() -> None:
    counted = of_two_machines(2.0, 1.5)
    used = of_repetition(counted, WINDOW, [])
    assert used["cpu/machine/kvm-1"].percent == pytest.approx(100)
    # Only the machine's own engines poll on it.
    assert used["cpu/machine/kvm-2"].percent == pytest.approx(50)
    assert "cpu/machine" not in used
    (caveat,) = checks.machine(counted, WINDOW, used)
    assert caveat.name == "load_host_saturated" and caveat.values["host"] == "kvm-1"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], ["kvm-1"]),
        (["kvm-1"], ["kvm-1"]),
        (["kvm-2"], ["kvm-2", "kvm-1"]),
    ],
)
def test_load_host_that_limits_a_sweep_is_reported_once(found: list[str], expected: list[str]) -> None:
    resource = "cpu/machine/kvm-1"
    caveats = [Caveat("load_host_saturated", {"host": host, "percent": 99.0}) for host in found]
    point = SimpleNamespace(caveats=caveats, percent={resource: 99.0}.get)
    sweep, verdict = SimpleNamespace(points=[point]), SimpleNamespace(resource=resource, limiter="machine_cpu")
    mark_test_setup_limited(cast(Any, sweep), cast(Any, verdict))
    assert [(c.name, c.values["host"]) for c in point.caveats] == [("load_host_saturated", host) for host in expected]


def test_time_that_a_hypervisor_took_is_the_share_of_one_machine() -> None:
    counted = of_two_machines(1.0, 1.0, stolen_s=0.1)
    (caveat,) = checks.machine(counted, WINDOW, {})
    assert caveat.name == "host_stolen" and caveat.values["percent"] == pytest.approx(5)


def test_full_guest_is_neither_this_machine_nor_one_that_its_hypervisor_slows_down() -> None:
    def of_machine(node: str, user_s: float, steal_s: float, idle_s: float) -> list[tuple[str, str, str, str, float]]:
        seconds = {"user_ns": user_s, "steal_ns": steal_s, "idle_ns": idle_s}
        return [(node, "watch", "machine", name, value * S) for name, value in seconds.items()]

    rows = [*of_machine("array", 1.0, 0.0, 3.0), *of_machine("server", 1.5, 0.5, 0.0)]
    # The load polls in the namespace of another node, so on this machine.
    rows.append(("client", "initiator", "process", "busy_poll_ns", 0.2 * S))
    counted = counters(*rows, guests=["server"])
    used = of_repetition(counted, WINDOW, [])
    assert {name: use.percent for name, use in used.items() if name.startswith("cpu/machine")} == {
        "cpu/machine": pytest.approx(20)
    }
    assert list(checks.machine(counted, WINDOW, used)) == []
    assert guest_percent(counted, WINDOW, "server") == pytest.approx(100)
    # The same counters of a load host are those of a machine that is full.
    (full, stolen) = checks.machine(counters(*rows), WINDOW, of_repetition(counters(*rows), WINDOW, []))
    assert (full.name, stolen.name) == ("load_host_saturated", "host_stolen")
