"""`paths_per_vm` and `multipath` of a study of VMs: defaults equal the engine's, VMs are spread
over the paths, and settings that exclude several paths are refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hakaru.analysis.counters import Counters, Key, Series
from hakaru.engine import contract
from hakaru.errors import UsageError
from hakaru.kinds.vms.analysis import failover
from hakaru.kinds.vms.multipath import Multipath, chosen_portals
from hakaru.kinds.vms.run import RUN
from hakaru.lab.plan import plan_lab
from hakaru.study import Loaded, expand, load

STUDY = """\
format: 1
id: paths
title: {en: Paths, ja: パス}
question: {en: Which?, ja: どれ}
expectation: {en: These., ja: これ}
origin: emulated
lab: {hosts: 1, paths: 2, host_link: {rate: 1 Gbit/s}, array_link: {rate: 1 Gbit/s}}
array:
  target_name: iqn.2013-01.example.hakaru:array
  model: {kind: none}
  lus: [{lun: 0, size: 64 MiB}]
load:
  kind: vms
  columns: [[0]]
  image: 16 MiB
  multipath: {policy: failover, recovery: 500 ms}
  patterns:
    read: {sizes: [{size: 4 KiB}], read_percent: 100, random_percent: 0, load: {kind: closed, queue_depth: 1}}
factors: [{pattern: [read], vms: [3], paths_per_vm: [1, 2]}]
measure: {warmup: 0 s, time: 1 s, repetitions: 1}
"""


def loaded(folder: Path, text: str = STUDY) -> Loaded:
    (folder / "study.yaml").write_text(text)
    return load(str(folder / "study.yaml"))


def test_defaults_equal_those_of_the_engine() -> None:
    assert Multipath().config() == contract.Multipath()


def test_vms_begin_with_different_portals_and_use_those_that_follow() -> None:
    portals = ("a", "b", "c")
    assert chosen_portals(portals, 4, None) == ("b",)
    assert [chosen_portals(portals, vm, 2) for vm in range(4)] == [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]
    assert chosen_portals(portals, 2, 3) == ("c", "a", "b")


def test_levels_reach_the_engine(tmp_path: Path) -> None:
    expanded = expand(loaded(tmp_path).study)
    seen = []
    for turn in expanded.repetitions:
        plan = plan_lab(expanded.at(turn.point).lab)
        (initiator,) = RUN.loads(expanded, turn, plan).values()
        assert isinstance(initiator, contract.InitiatorConfig)
        count = turn.point.factors["paths_per_vm"]
        assert initiator.multipath == contract.Multipath(policy="failover", recovery_s=0.5)
        used = []
        for vm in initiator.vms:
            assert isinstance(vm.destination, contract.IscsiDestination)
            used.append((vm.destination.portal, *vm.destination.other_portals))
        first, second = plan.portals()
        pairs = [(first, second), (second, first), (first, second)]
        assert used == [pair[:count] for pair in pairs]
        assert RUN.cost(expanded, turn.point, plan).sockets == 3 * count
        assert len(RUN.ports(initiator)) == 1
        seen.append(count)
    assert sorted(seen) == [1, 2]


def test_metrics_of_paths_are_those_of_the_measuring_phase() -> None:
    at_ns = np.array([0, 1, 2, 3, 4]) * 10**9

    def series(vm: str, name: str, *values: float) -> dict[Key, Series]:
        return {Key("host-1", "initiator", f"paths/{vm}", name): Series(at_ns, np.array(values, dtype=float))}

    counters = Counters(
        series("a", "path_losses", 1, 1, 2, 3, 3)
        | series("b", "path_losses", 0, 0, 0, 0, 1)
        | series("a", "path_switches", 1, 1, 2, 3, 4)
        | series("a", "commands_repeated", 5, 5, 12, 21, 21)
        | series("a", "failover_ns_sum", 1e9, 1e9, 2.5e9, 3.5e9, 9e9)
        | series("a", "failback_ns_sum", 0, 0, 4e9, 4e9, 4e9)
        | series("a", "failovers", 1, 1, 2, 3, 3)
        | series("a", "failbacks", 0, 0, 1, 1, 1)
        | series("a", "longest_gap_ns_now", 0, 0, 1.5e9, 1.5e9, 9e9)
        | series("b", "longest_gap_ns_now", 0, 0, 1e9, 2e9, 2e9)
    )
    repetition = cast(Any, SimpleNamespace(counters=counters, window=(10**9, 3 * 10**9)))
    assert failover.of_repetition(repetition, None) == {}
    assert failover.of_repetition(repetition, 1250.0) == {
        "path_losses": 2,
        "path_switches": 2,
        "commands_repeated": 16,
        "gap_ms_max": 2000,
        "failover_ms_mean": 1250,
        "failover_timers_ms": 1250,
        "failback_ms_mean": 4000,
    }


def test_mean_times_without_a_completed_failover_or_failback_are_unknown() -> None:
    at_ns = np.array([0, 1, 2]) * 10**9
    values = {"path_losses": [0, 1, 1], "failovers": [0, 0, 0], "failover_ns_sum": [0, 0, 0]}
    values |= {"failbacks": [0, 0, 0], "failback_ns_sum": [0, 0, 0]}
    counters = Counters(
        {Key("host-1", "initiator", "paths/a", name): Series(at_ns, np.array(rows)) for name, rows in values.items()}
    )
    repetition = cast(Any, SimpleNamespace(counters=counters, window=(0, 2 * 10**9)))
    found = failover.of_repetition(repetition, 1250.0)
    assert found["path_losses"] == 1
    assert math.isnan(found["failover_ms_mean"]) and math.isnan(found["failback_ms_mean"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("paths_per_vm: [1, 2]", "paths_per_vm: [3]", "3 paths per VM, and host-1 reaches 2"),
        ("paths_per_vm: [1, 2]", "paths_per_vm: [0]", "paths_per_vm"),
        ("recovery: 500 ms", "recovery: 2 h", "load.multipath.recovery"),
        ("recovery: 500 ms", "nop_interval: 1 ms", "load.multipath.nop_interval"),
        ("failover", "random", "load.multipath.policy"),
        ("image: 16 MiB", "image: 16 MiB\n  iscsi: {initiator: {sessions: 2}}", "2 sessions over one path"),
        (
            "image: 16 MiB",
            "image: 16 MiB\n  hypervisor: {kind: preset, name: current}",
            "share the sessions of their hosts",
        ),
    ],
)
def test_impossible_paths_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert STUDY.count(old) == 1
    with pytest.raises(UsageError, match=message):
        expand(loaded(tmp_path, STUDY.replace(old, new)).study)
