"""A load over several paths to a real array: shares of the paths, cables that are cut under
verified load, and changes of access states.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.capture.namespace import namespace
from tests.engine.cables import Cables, cables
from tests.peers.array import MIB, TARGET_NAME, Engine, array, lu

Counters = dict[str, dict[str, float]]

# A path that becomes silent is lost after the first two, and its commands move after the third.
TIMERS = {"nop_interval_s": 0.3, "nop_timeout_s": 0.3, "recovery_s": 0.3}
FAILOVER_S = sum(TIMERS.values())
RETURN = {"login_timeout_s": 0.5, "retry_s": 0.1, "check_s": 0.2}
# Large enough that few writes meet those of a lost path, for which they would wait.
LU_BYTES = 256 * MIB
# `make test-long` cuts cables as often as the acceptance of this feature asks for.
CUTS = 50 if "HAKARU_LONG" in os.environ else None
"""Cuts of cables; None: one of each cable."""


def config(portals: list[str], *, depth: int = 8, **multipath: Any) -> dict[str, Any]:
    """Return a verified load of one VM that lasts until it is stopped."""
    first, *others = portals
    vm = {
        "name": "a",
        "destination": {
            "kind": "iscsi",
            "portal": first,
            "other_portals": others,
            "target_name": TARGET_NAME,
            "lun": 0,
            "initiator_name": "iqn.2026-01.org.hakaru:a",
        },
        "region": {"offset_bytes": 0, "length_bytes": 0},
        "pattern": {"sizes": [{"bytes": 4096}], "read_percent": 50, "random_percent": 100},
        "load": {"kind": "closed", "queue_depth": depth},
        "seed": 1,
    }
    times = {"warmup_s": 0.0, "measure_s": 0.0, "sample_interval_ms": 100}
    return {"engine": "initiator", "vms": [vm], "verify": True, "multipath": multipath, **times}


class Load:
    """A load that has begun."""

    def __init__(self, config: dict[str, Any], inside: tuple[str, ...] = ()) -> None:
        self.engine = Engine(config, inside)
        self.complaints: list[str] = []
        self.engine.send({"type": "start", "at_ns": 0})

    def samples(self) -> Iterator[Counters]:
        """Yield every further sample, and collect the complaints between them."""
        for event in self.engine.events():
            if event["type"] == "error":
                self.complaints.append(event["message"])
            if event["type"] == "sample":
                yield event["counters"]

    def until(self, **expected: float) -> Counters:
        """Return the next sample in which these counters of the paths have the given values."""
        for counters in self.samples():
            if expected.items() <= counters["paths/a"].items():
                return counters
        raise AssertionError("the load ended")

    def progress(self, requests: int) -> Counters:
        """Return the sample after which at least so many requests more have completed."""
        begin = None
        for counters in self.samples():
            vms = counters["vms"]
            done = vms["reads"] + vms["writes"]
            begin = done if begin is None else begin
            if done >= begin + requests:
                return counters
        raise AssertionError("the load ended")

    def stop(self) -> Counters:
        """End the load and return its last sample. Wrong data or a lost VM fails the test."""
        self.engine.send({"type": "stop"})
        last: Counters = {}
        for event in self.engine.events():
            if event["type"] == "sample":
                last = event["counters"]
            if event["type"] == "result":
                break
        assert self.engine.process.wait(60) == 0
        return last


@contextmanager
def load(config: dict[str, Any], inside: tuple[str, ...] = ()) -> Iterator[Load]:
    """Run a load for the length of a block."""
    running = Load(config, inside)
    try:
        yield running
    finally:
        running.engine.close()


@contextmanager
def joined(count: int) -> Iterator[tuple[Cables, Engine]]:
    """Provide cables, and an array with a portal on each."""
    with cables(count) as wires:
        ends: dict[str, Any] = {"portals": wires.portals, "inside": wires.of_array, "isolated_network": True}
        with array(lu(0, LU_BYTES), **ends, sample_interval_ms=100) as a:
            yield wires, a.engine


@pytest.mark.parametrize("policy", ["round_robin", "least_queue_depth", "failover"])
def test_policy_decides_which_portals_carry_the_load(policy: str) -> None:
    with array(lu(0, 64 * MIB), portals=["127.0.0.1:0"] * 2, sample_interval_ms=100) as a:
        with load(config(a.engine.found["portals"], policy=policy)) as running:
            running.progress(2000)
            paths = running.stop()["paths/a"]
        counters = a.engine.counters()
    assert paths["paths_usable_now"] == 2
    assert paths["path_losses"] == paths["commands_repeated"] == 0
    shares = [counters[f"port/{port}"]["tx_bytes"] + counters[f"port/{port}"]["rx_bytes"] for port in (0, 1)]
    share = shares[1] / sum(shares)
    assert share < 0.01 if policy == "failover" else 0.3 < share < 0.7


@pytest.mark.alone
@pytest.mark.parametrize("paths", [2, 4])
def test_cut_cable_stops_the_load_for_the_sum_of_the_timers(paths: int) -> None:
    """After every cut, all data is right, no request has failed, and the gap is within 20 % of the
    timers' sum.
    """
    gaps_s: list[float] = []
    # In the short form, each cable is cut once.
    cuts = CUTS or paths
    with joined(paths) as (wires, _):
        for cut in range(cuts):
            cable = cut % paths
            with load(config(wires.portals, **TIMERS, **RETURN), wires.load.inside) as running:
                running.progress(500)
                wires.cut(cable)
                running.until(path_losses=1, paths_usable_now=paths - 1)
                running.progress(500)
                wires.mend(cable)
                running.until(paths_usable_now=paths)
                running.progress(500)
                last = running.stop()
            counters = last["paths/a"]
            assert last["vms"]["errors"] == 0
            assert counters["path_losses"] == counters["path_switches"] == counters["path_returns"] == 1
            assert counters["failovers"] == counters["failbacks"] == 1
            assert 1 <= counters["commands_repeated"] <= 8
            gaps_s.append(counters["longest_gap_ns_now"] / 1e9)
            assert gaps_s[-1] == pytest.approx(FAILOVER_S, rel=0.2), gaps_s
            assert counters["failover_ns_sum"] / 1e9 == pytest.approx(FAILOVER_S, rel=0.2)
            path = f"a: path {cable + 1} ({wires.portals[cable]})"
            lost = f"{path} was lost: a ping was not answered within 0.3 s"
            assert running.complaints == [lost, f"{path} is usable again"]
    print(f"gaps of {cuts} cuts with {paths} paths: {min(gaps_s):.3f} to {max(gaps_s):.3f} s")


def test_load_whose_paths_are_all_lost_fails_and_names_the_reason() -> None:
    with joined(2) as (wires, _):
        settings = config(wires.portals, **TIMERS, **RETURN, no_path_s=0.5)
        with load(settings, wires.load.inside) as running:
            running.progress(200)
            for cable in range(2):
                wires.cut(cable)
            with pytest.raises(AssertionError, match=r"a ping was not answered within 0\.3 s"):
                running.until(path_losses=-1)


@pytest.mark.parametrize("paths", [1, 2])
def test_portal_without_a_route_fails_the_load_and_is_named(paths: int) -> None:
    with namespace() as hosts:
        portals = [f"10.9.{path}.1:3260" for path in range(paths)]
        with pytest.raises(AssertionError, match=r"10\.9\.0\.1:3260.*Network is unreachable"):
            Load(config(portals, **TIMERS, **RETURN), hosts.inside)


def test_path_without_an_interface_is_lost_and_tried_again() -> None:
    """Each further attempt fails at once, because there is no route."""
    with joined(2) as (wires, _), load(config(wires.portals, **TIMERS, **RETURN), wires.load.inside) as running:
        running.progress(300)
        wires.load.run("ip", "link", "delete", "a1")
        running.until(path_losses=1, paths_usable_now=1)
        running.progress(300)
        assert running.stop()["vms"]["errors"] == 0


def test_both_cables_may_fail_in_turn_under_one_load() -> None:
    with joined(2) as (wires, _), load(config(wires.portals, **TIMERS, **RETURN), wires.load.inside) as running:
        for cut in range(4):
            running.progress(300)
            wires.cut(cut % 2)
            running.until(path_losses=cut + 1, paths_usable_now=1)
            running.progress(300)
            wires.mend(cut % 2)
            running.until(paths_usable_now=2)
        last = running.stop()
    assert last["vms"]["errors"] == 0
    assert last["paths/a"]["path_losses"] == last["paths/a"]["path_returns"] == last["paths/a"]["failbacks"] == 4


def test_load_follows_the_access_states_of_the_ports() -> None:
    """Active and standby: the standby port takes over, after a transition during which no port
    permits access, and no request fails.
    """
    with array(lu(0, 64 * MIB), portals=["127.0.0.1:0"] * 2, sample_interval_ms=100) as a:
        a.engine.manage("set_port_state", portal=1, state="standby")
        with load(config(a.engine.found["portals"], **RETURN)) as running:
            running.until(paths_usable_now=1)
            running.progress(300)
            a.engine.manage("set_port_state", portal=0, state="standby", transition_ms=300)
            running.until(paths_usable_now=0)
            a.engine.manage("set_port_state", portal=1, state="optimized", transition_ms=300)
            running.until(paths_usable_now=1)
            running.progress(300)
            a.engine.manage("set_port_state", portal=0, state="non_optimized")
            running.until(paths_usable_now=2)
            grown = received(a.engine, running, ports=2)
            last = running.stop()
    assert last["vms"]["errors"] == 0
    assert last["paths/a"]["path_losses"] == 0
    assert grown[0] < grown[1] / 100, "only the optimized port is used"
    assert any("its port is standby" in text or "in transition" in text for text in running.complaints)


def received(array: Engine, running: Load, ports: int) -> list[float]:
    """Bytes that each port of the array receives during 3000 requests of a load."""
    before = array.counters()
    running.progress(3000)
    after = array.counters()
    return [after[f"port/{port}"]["rx_bytes"] - before[f"port/{port}"]["rx_bytes"] for port in range(ports)]


def test_load_uses_the_preferred_group_and_follows_the_state_of_a_whole_group() -> None:
    groups = [{"portals": [0, 1]}, {"portals": [2], "preferred": True}]
    with (
        array(lu(0, 64 * MIB), portals=["127.0.0.1:0"] * 3, port_groups=groups, sample_interval_ms=100) as a,
        load(config(a.engine.found["portals"], **RETURN)) as running,
    ):
        running.progress(300)
        preferred = received(a.engine, running, ports=3)
        a.engine.manage("set_port_state", portal=2, state="non_optimized")
        running.progress(300)
        others = received(a.engine, running, ports=3)
        a.engine.manage("set_port_state", portal=1, state="standby")
        running.until(paths_usable_now=1)
        running.progress(300)
        portals = a.engine.manage("status")["portals"]
        last = running.stop()
    assert last["vms"]["errors"] == last["paths/a"]["path_losses"] == 0
    assert max(preferred[:2]) < preferred[2] / 100, "only the preferred group is used"
    assert others[2] < min(others[:2]) / 100, "an optimized group is better than a preferred one that is not"
    assert [(portal["state"], portal["group"], portal["preferred"]) for portal in portals] == [
        ("standby", 1, False),
        ("standby", 1, False),
        ("non_optimized", 2, True),
    ]


def test_refused_portal_ends_its_sessions_and_accepts_them_again() -> None:
    """The end of the connection is noticed at once, so only the recovery time passes."""
    with array(lu(0, 64 * MIB), portals=["127.0.0.1:0"] * 2, sample_interval_ms=100) as a:
        portals = a.engine.found["portals"]
        with load(config(portals, **TIMERS, **RETURN)) as running:
            running.progress(300)
            a.engine.manage("set_portal", portal=1, accepts=False)
            assert [port["accepts"] for port in a.engine.manage("status")["portals"]] == [True, False]
            running.until(path_losses=1, paths_usable_now=1)
            running.progress(300)
            a.engine.manage("set_portal", portal=1, accepts=False)
            address, _, port = portals[1].rpartition(":")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, int(port)), timeout=60)
            a.engine.manage("set_portal", portal=1, accepts=True)
            a.engine.manage("set_portal", portal=1, accepts=True)
            running.until(paths_usable_now=2)
            running.progress(300)
            last = running.stop()
    assert last["vms"]["errors"] == 0
    assert last["paths/a"]["path_losses"] == last["paths/a"]["path_returns"] == 1


def test_portal_that_does_not_exist_is_refused() -> None:
    with array(lu(0, 64 * MIB)) as a, pytest.raises(AssertionError, match="there is no portal 1"):
        a.engine.manage("set_portal", portal=1, accepts=False)
